// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/conversion.hpp>

#include "run/frame.hpp"
#include "run/recompute.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::program::detail {

/// A graph ready to run: operators found, arguments prepared, values dropped after their last use.
class CompiledGraph {
 public:
  /// @param graph must outlive this object
  /// @throws Error `RefusedProgram`, `BrokenFile` with the node
  CompiledGraph(Graph const& graph, Conversion const& conversion);

  /// What runs the node of that place; null: its operator.
  using StepMaker = std::function<std::unique_ptr<Step>(std::size_t)>;
  /// @param parts per node that of a backward which computes them again; -1: none @param hooks about these parts
  CompiledGraph(Graph const& graph, Conversion const& conversion, StepMaker const& special,
                std::vector<int> const& parts, std::shared_ptr<PartHooks const> hooks);

  /// Results must have these sizes, and those of their file where they are fixed.
  void bind(Sizes const& sizes);
  /// The same for a graph without dynamic sizes, with the sizes of each value.
  void bind(std::vector<std::vector<std::int64_t>> const& shapes);

  /// Runs all nodes.
  /// @param inputs one value per input of the graph @param owner of this object and its graph: a backward may hold it.
  /// Without one nothing is computed again
  /// @throws Error `FailedNode` (the operator's own message, or a result of other sizes than the file says)
  [[nodiscard]] std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, bool training,
                                             std::shared_ptr<void const> owner) const;

 private:
  struct Ready {
    std::unique_ptr<Step> step;
    std::vector<ValueId> results;  // tensors of which the sizes are checked
    std::vector<ValueId> last_used;
  };

  void find_last_uses();
  void find_parts(std::vector<int> const& parts);
  void find_values(Part& part) const;
  void run_nodes(Frame& frame, std::size_t first, std::size_t last) const;
  void check_results(Ready const& ready, Frame const& frame, Node const& node) const;

  Graph const& graph_;
  torch::Device device_;
  std::vector<Ready> steps_;
  std::vector<Part> parts_;
  std::shared_ptr<PartHooks const> hooks_;
  std::vector<std::optional<std::vector<std::int64_t>>> expected_;
};

}  // namespace graticule::program::detail
