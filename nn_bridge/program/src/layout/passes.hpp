// SPDX-License-Identifier: BSD-3-Clause
// What the layout pass does to a graph before it places its values, and to a plan behind it.
#pragma once

#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/sizes.hpp>

#include <string>
#include <utility>
#include <vector>

namespace graticule::program::detail {

/// The graph in which operators in place write to copies, where what they overwrite is read later: the readers get the
/// new values, put back through slices, selections, permutations and views of other sizes.
///
/// Example: `s = slice(a, 2, 0, 3); neg_(s); b = a + 1` becomes `c = clone(s); n = neg_(c);
/// d = slice_scatter(a, n, 2, 0, 3); b = d + 1`. What is overwritten in a part without gradients, or through other
/// views, stays as it is, and so do inputs of the graph other than `user_inputs`. Cost: linear in the nodes, and in
/// those that it adds: some for each view between what is overwritten and its tensor.
[[nodiscard]] Graph without_overwriting(Graph const& graph, Sizes const& sizes, std::vector<ValueId> const& user_inputs,
                                        bool has_parts_without_gradients);

/// Makes the inputs that operators in place overwrite, or may overwrite by views, outputs as well, which bring the
/// caller the new values. In files without decompositions; `run_decompositions` does the same.
void return_written_inputs(ExportedGraph& program);

/// Pairs of a result and a tensor of a node that may share memory. @pre the node is not in place
[[nodiscard]] std::vector<std::pair<ValueId, ValueId>> shared_memory(Node const& node);

/// Which values of a graph may share memory: results of views, and what operators in place return, with their tensors.
class SharedMemory {
 public:
  explicit SharedMemory(Graph const& graph);

  /// The first tensor of that memory.
  [[nodiscard]] ValueId root(ValueId id) const;

 private:
  void join(ValueId result, ValueId source);

  std::vector<ValueId> of_;
};

/// Whether a node of the graph, or of its subgraphs, runs a graph without gradients.
[[nodiscard]] bool switches_gradients_off(Graph const& graph);

/// The graph with `pixel_shuffle` and `pixel_unshuffle` as the views and permutations that they are, so that the cut of
/// an axis goes through them: x[n, c r r, h, w] to [n, c, r, r, h, w], [n, c, h, r, w, r] and [n, c, h r, w r].
/// Cost: linear in the nodes.
[[nodiscard]] Graph with_open_shuffles(Graph const& graph, Sizes const& sizes);

/// The parts of a graph that a backward pass computes again.
///
/// A part has the nodes of one region (`Node::region`) that follow each other; nodes that give no tensors (sizes,
/// checks) do not end it. A region with other nodes in between is several parts. A part with an operator in place on a
/// tensor that was made before it would write twice: it is kept.
struct RecomputedParts {
  std::vector<int> of_node;       ///< -1: none
  int num_parts = 0;              ///< numbers begin at 0; those of kept parts are not used
  std::vector<std::string> kept;  ///< a text for each part that is kept
};

[[nodiscard]] RecomputedParts recomputed_parts(Graph const& graph);

/// Computes constants in the parts that are used: a local operator, a view or a product of weights alone (a conversion
/// of a table, a scaled weight), whose result every later node needs in one and the same cut, runs on that cut of its
/// weights. Whole stay: a weight under other axes, which takes no memory, and views in a graph with operators in place.
///
/// Example: Legendre tables that are converted to complex numbers and used per order: each rank converts its orders.
/// Example: queries of a transformer that are a parameter, the same for all cells: each rank expands and projects those
/// of its cells.
/// Changes placements and transfers of those nodes and of the nodes that use them; nothing is received for it.
/// Cost: linear in the nodes and their tensors.
void cut_constants(Plan& plan, Sizes const& sizes);

/// Adds what the caller's blocks cost to a plan of bands: fields that come in blocks are moved to bands of rows, and
/// the outputs back. Fields on another grid than the first have balanced blocks.
/// @pre blocks of as many ranks as the plan
void count_blocks(Plan& plan, BlockCuts const& blocks);

}  // namespace graticule::program::detail
