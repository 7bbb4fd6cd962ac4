// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/sizes.hpp>

#include <utility>
#include <vector>

namespace graticule::program::detail {

/// The graph in which operators in place write to copies, where what they overwrite is read later: the readers get the
/// new values, put back through slices, selections, permutations and views of other sizes.
///
/// Example: `s = slice(a, 2, 0, 3); neg_(s); b = a + 1` becomes `c = clone(s); n = neg_(c);
/// d = slice_scatter(a, n, 2, 0, 3); b = d + 1`. What is overwritten in a part without gradients, or through other
/// views, stays as it is, and so do inputs of the graph but `user_inputs`. Cost: linear in the nodes, and in those that
/// it adds: some for each view between what is overwritten and its tensor.
[[nodiscard]] Graph without_overwriting(Graph const& graph, Sizes const& sizes, std::vector<ValueId> const& user_inputs,
                                        bool has_parts_without_gradients);

/// Makes the inputs that operators in place overwrite, or may overwrite by views, outputs as well, which bring the
/// caller the new values. In files without decompositions; `run_decompositions` does the same.
void return_written_inputs(ExportedGraph& program);

/// The results of a node, that is not in place, which may share memory with one of its tensors, each with that tensor.
[[nodiscard]] std::vector<std::pair<ValueId, ValueId>> shared_memory(Node const& node);

/// Whether a node of the graph, or of its subgraphs, runs a graph without gradients.
[[nodiscard]] bool switches_gradients_off(Graph const& graph);

}  // namespace graticule::program::detail
