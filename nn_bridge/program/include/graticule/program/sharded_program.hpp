// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/layout/costs.hpp>
#include <graticule/program/layout/digits.hpp>
#include <graticule/program/program.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::program {

struct BlockCuts;

/// Options of `ShardedProgram`.
struct ShardOptions {
  std::int64_t largest_gather = std::int64_t{4} << 30U;  ///< bytes of a value that every rank may hold whole
  PlanCosts costs = {};                                  ///< by which the layout pass chooses
  std::uint64_t seed = 0;                                ///< of the masks of dropout
  std::optional<std::vector<bool>> fields =
      std::nullopt;  ///< inputs that are cut; nothing: decided by their number of axes
};

/// An exported network on the ranks of a domain: takes shards of the fields and returns shards, equal to what the
/// program computes on one process, forward and backward, to any order that its operators have.
///
/// Rows (latitude) of the inputs are cut among the ranks as the caller cuts them: unevenly, and with ranks without
/// rows. Inputs and outputs with the number of axes of the first field, one less or more are fields;
/// others are whole, and equal, on every rank. `ShardOptions::fields` declares the inputs instead. Where the layout
/// pass finds it cheaper, values are cut along other axes, windows or heads on the way (`plan`). A domain that cuts
/// rows and columns has blocks of the fields: they are moved to balanced bands of rows, in which the network is
/// planned, and its outputs back (outputs on another grid to balanced blocks).
///
/// Parameters and buffers are those of the program, under its names, whole on every rank. Gradients follow the
/// convention of this library: each rank holds its part, and the sum over the domain is the gradient (`GradientSync`,
/// docs/decisions/0023). A loss ends with `nn::reduce_loss`. An output that is whole on every rank enters the loss on
/// one rank alone, or divided by the number of ranks.
///
/// Example, on 3 ranks with 10, 23 and 0 of 33 rows:
/// ```
/// program::Program network("net.pt2");
/// program::ShardedProgram shards(network, domain);
/// torch::Tensor y = shards->forward(x);  // x[1, 4, 10, 64] and y[1, 4, 10, 64] on rank 0
/// torch::Tensor loss = nn::reduce_loss((y - target).square().sum() / global_count, domain);
/// loss.backward();
/// ```
/// Dropout in training zeroes the same values on any number of ranks: its masks depend on the place in the whole
/// tensor, the node, the seed, and the number of the call (`nn::Domain::num_draws`), as those of `nn::Dropout`
/// do. Regions that the file marks are computed again in the backward, by all ranks together (`Plan::num_parts`), with
/// the same masks. Operators in place write to copies, and later readers get the new values; where that is not possible
/// they are refused, by name and on all ranks alike. Cost: the messages of `plan`, and one small all-reduce per call;
/// another where it has several inputs and does not repeat the latest one (`repeats`).
class ShardedProgramImpl : public torch::nn::Module, public nn::Communicating {
 public:
  /// Local. The module has the parameters and buffers of `program`, which are not copied.
  /// @throws Error `RefusedProgram`
  ShardedProgramImpl(Program program, nn::Domain const& domain, ShardOptions const& options = {});

  /// The only output of a program with one input. Collective.
  /// @throws Error as `run`; `Unsupported` for a program with several inputs or outputs
  torch::Tensor forward(torch::Tensor const& input);
  /// All outputs, in the order of the file. Collective, as is the backward.
  /// @param inputs this rank's shards of the fields, and whole tensors; see `Program::run`
  /// @throws Error on all ranks alike `StructureDisagreement`, `BadLayout`, `ShapeMismatch` (of the whole inputs),
  /// `RefusedProgram` and what `Program::run` throws; `ReplicaMismatch` where the first call finds other weights on
  /// other ranks, with the first that differs. After an error in the middle of a call on one rank, the others throw
  /// `PeerFailed`
  std::vector<torch::Tensor> run(std::vector<torch::Tensor> const& inputs);
  /// Whether nothing but values differs from the latest call, as far as this rank knows. Local.
  [[nodiscard]] bool repeats(std::vector<torch::Tensor> const& inputs) const;
  /// As `run`, without the all-reduce at its start. @pre `repeats` on every rank, which the caller has found out
  std::vector<torch::Tensor> run_again(std::vector<torch::Tensor> const& inputs);

  /// Plans for inputs of these sizes as a first forward does, and runs nothing. Collective.
  /// @param whole sizes of the whole inputs @param parts cells of each rank along the axis that the domain cuts (rows
  /// of the bands where it cuts both), of the first field and of fields that are as long along it; others are cut into
  /// balanced shares
  /// @throws Error on all ranks alike `StructureDisagreement`, `ShapeMismatch`, `RefusedProgram`, `BadCuts`
  void plan_for(std::vector<std::vector<std::int64_t>> const& whole, std::vector<std::int64_t> const& parts);

  /// How the inputs of the latest call are divided. @pre a forward
  [[nodiscard]] Plan const& plan() const;
  /// How the outputs of the latest call are divided, in the order of `run`; nothing for a whole one. @pre a forward
  [[nodiscard]] std::vector<Placement> outputs() const;
  /// Which inputs are cut, in the order of `run`.
  [[nodiscard]] std::vector<bool> const& fields() const noexcept { return fields_; }
  /// The program whose parameters these are.
  [[nodiscard]] Program const& serial() const noexcept { return program_; }
  void reset_structure() override;

  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
  /// A sharded copy of a copy of the program.
  [[nodiscard]] std::shared_ptr<torch::nn::Module> clone(
      std::optional<torch::Device> const& device = std::nullopt) const override;

 private:
  struct SetUp;
  class Calls;

  [[nodiscard]] std::shared_ptr<SetUp const> set_up(std::vector<torch::Tensor> const& inputs, Layout const& layout);
  [[nodiscard]] std::vector<Shape> whole_shapes(std::vector<torch::Tensor> const& inputs, Layout const& layout) const;
  [[nodiscard]] Sizes sizes_of_all(std::vector<Shape> const& whole, Layout const& layout) const;
  [[nodiscard]] std::vector<Index> wanted_gradients(std::vector<torch::Tensor> const& inputs,
                                                    bool first_requires) const;
  [[nodiscard]] std::vector<Index> call_structure(std::vector<torch::Tensor> const& inputs) const;
  std::vector<torch::Tensor> run(std::vector<torch::Tensor> const& given, bool again);

  void compare_weights();
  void make_movers();
  [[nodiscard]] nn::Sharding own_sharding() const;
  [[nodiscard]] BlockCuts block_cuts(Layout const& bands) const;
  [[nodiscard]] std::vector<torch::Tensor> in_bands(std::vector<torch::Tensor> const& blocks);
  [[nodiscard]] std::vector<torch::Tensor> in_blocks(std::vector<torch::Tensor> const& bands);

  Program program_;
  nn::Domain domain_;
  ShardOptions options_;
  bool blocks_ = false;                     ///< the domain cuts rows and columns
  bool has_moved_ = false;                  ///< blocks to bands
  bool weights_compared_ = false;           ///< between the ranks
  std::vector<nn::Repartition> to_bands_;   ///< per input; null for one that is no field
  std::vector<nn::Repartition> to_blocks_;  ///< per output
  std::int64_t field_axis_ = -2;
  std::vector<bool> fields_;     ///< which inputs are cut
  std::size_t first_field_ = 0;  ///< the input whose cuts are those of all fields
  std::shared_ptr<Calls> calls_;
  std::shared_ptr<SetUp const> latest_;
  std::vector<Index> repeated_;  ///< `call_structure` of the latest call; empty after one that has failed
  std::vector<Index> wanted_;    ///< per input of the latest call: whether any rank wants its gradient
};
TORCH_MODULE(ShardedProgram);

}  // namespace graticule::program
