// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::program {

/// Options of `PlacedCall`.
struct PlacedCallOptions {
  std::string name = "a function";                       ///< in messages
  std::vector<Placement> inputs = {};                    ///< where each tensor argument is, in order
  std::vector<Wanted> outputs = {};                      ///< where each result goes
  std::int64_t largest_gather = std::int64_t{4} << 30U;  ///< bytes of a value that every rank may hold whole
  std::uint64_t seed = 0;                                ///< of the masks of dropout
  std::optional<std::uint32_t> layer = {};               ///< of the masks, in place of the node's number
  torch::Device device = torch::kCPU;                    ///< of the tensors
};

/// One function of tensors that are each cut in their own way: what the code of a sharded model does between its
/// layers.
///
/// Planned as a program of a few nodes: the rules of operators, the moves and the sums are those of `ShardedProgram`.
/// Results stay where the cheapest plan leaves them, unless `PlacedCallOptions::outputs` says where they go. Gradients
/// follow the convention of `ShardedProgram`: of a whole tensor each rank holds a part, and the sum is the gradient.
class PlacedCall {
 public:
  /// Reads the graph and plans. Local, with the same result on all ranks.
  /// @param graph_json a graph without parameters, as of `ProgramImpl` @param domain the ranks @param options where its
  /// tensors are
  /// @throws Error `RefusedProgram`, `BrokenFile`, `BadArgument` (another number of placements, or no input is cut)
  PlacedCall(std::string_view graph_json, nn::Domain const& domain, PlacedCallOptions options);
  ~PlacedCall();
  PlacedCall(PlacedCall const&) = delete;
  PlacedCall& operator=(PlacedCall const&) = delete;

  /// This rank's part of all results. Collective, as is the backward.
  /// @param inputs this rank's parts. Whether one requires a gradient is the same on all ranks
  /// @throws Error on all ranks alike `CallDisagreement`, `StructureDisagreement`, `ShapeMismatch`, `FailedNode`
  [[nodiscard]] std::vector<torch::Tensor> run(std::vector<torch::Tensor> const& inputs);

  /// Where the results are, in order.
  [[nodiscard]] std::vector<Placement> const& outputs() const noexcept;
  /// Whether the function itself, called with the local tensors, gives the local results on every rank: nothing moves,
  /// nothing is summed over ranks, and no argument is a size. It then needs no `run`, and no message.
  [[nodiscard]] bool direct() const noexcept;
  /// Whether it is direct and acts on each element by itself, whatever its numbers are.
  [[nodiscard]] bool elementwise() const noexcept;
  /// Whether nothing moves, nothing is summed over ranks, and every rank runs the function's operators along its own
  /// part of an axis: what is a view for the function, is one for `run`.
  [[nodiscard]] bool keeps_views() const noexcept;
  [[nodiscard]] Plan const& plan() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule::program
