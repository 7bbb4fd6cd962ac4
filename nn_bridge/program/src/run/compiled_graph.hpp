// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/conversion.hpp>

#include "run/frame.hpp"

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
  CompiledGraph(Graph const& graph, Conversion const& conversion, StepMaker const& special);

  /// Results must have these sizes, and those of their file where they are fixed.
  void bind(Sizes const& sizes);
  /// The same for a graph without dynamic sizes, with the sizes of each value.
  void bind(std::vector<std::vector<std::int64_t>> const& shapes);

  /// Runs all nodes.
  /// @param inputs one value per input of the graph
  /// @throws Error `FailedNode` (the operator's own message, or a result of other sizes than the file says)
  [[nodiscard]] std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, bool training) const;

 private:
  struct Ready {
    std::unique_ptr<Step> step;
    std::vector<ValueId> results;  // tensors of which the sizes are checked
    std::vector<ValueId> last_used;
  };

  void find_last_uses();
  void check_results(Ready const& ready, Frame const& frame, Node const& node) const;

  Graph const& graph_;
  std::vector<Ready> steps_;
  std::vector<std::optional<std::vector<std::int64_t>>> expected_;
};

}  // namespace graticule::program::detail
