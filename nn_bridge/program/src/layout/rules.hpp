// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>

#include "pull.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graticule::program {

/// What a node needs of its tensors if one axis of its result is cut.
struct AxisRule {
  RunMode mode = RunMode::whole;
  std::vector<std::int64_t> axes;  ///< per tensor: its axis; -1: a tensor that every rank needs whole
  PullTable table;
  std::vector<std::pair<std::int64_t, std::int64_t>> windows;  ///< per row: [lo, hi) in the tensor, also outside of it
};

/// How one node runs on cut tensors.
///
/// The rules of all operators stand in one table (`rules.cpp`); a node's rule is that of its operator for its shapes.
struct NodeRule {
  /// Tensor arguments, lists opened, in the order of the schema; and the results.
  std::vector<ValueId> tensors;
  std::vector<ValueId> results;
  std::vector<Shape> shapes;
  std::vector<Shape> result_shapes;

  bool view = false;           ///< a view by `through_view`, of the one tensor
  std::vector<AxisRule> axes;  ///< per axis of the first result
  /// Axes that are summed over: per label the axis of each tensor, or -1. Cut there, each rank has a part of the sum.
  std::vector<std::vector<std::int64_t>> contracted;
  std::int64_t statistics = 0;  ///< numbers that a statistic sums over ranks, of a replicated result its elements
  std::int64_t operations = 1;  ///< multiplications and additions per element of the result, about
};

/// The rule of a node; nothing for a node without tensors among its results.
/// @throws Error `RefusedProgram` with operator, module path, source line and advice
[[nodiscard]] std::optional<NodeRule> node_rule(Graph const& graph, Node const& node, Sizes const& sizes);

/// Where a result of the node is: results without the cut axis, as the statistics of a norm, are whole on every rank.
[[nodiscard]] Placement result_placement(NodePlan const& node, std::vector<Shape> const& result_shapes,
                                         std::size_t result);

/// The graph with the nodes of its subgraphs in the place of the nodes that run them.
/// @throws Error `RefusedProgram` for a subgraph whose arguments do not match
[[nodiscard]] Graph inlined(Graph const& graph);

}  // namespace graticule::program
