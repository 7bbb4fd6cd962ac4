// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <vector>

namespace graticule {

/// Constraints and weights of `relabel`.
struct RelabelOptions {
  /// Axis `a` of the target is axis `permutation[a]` of the source; empty: the order of axes is unchanged.
  Indices permutation = {};
  /// Number of the node of each rank, as from `nodes_of_ranks`; empty: all ranks share one node.
  std::vector<int> node_of_rank = {};
  /// Cost of moving a cell to another node, relative to a move within its node.
  Index off_node_weight = 4;
  /// The ranks that may own boxes; empty: all ranks in either layout or in `node_of_rank`.
  std::vector<int> ranks = {};
};

/// A layout with its boxes assigned to other ranks, and the saving.
struct Relabelling {
  std::vector<int> ranks;           ///< the rank that gets the box of each rank of the target; a permutation
  Layout layout;                    ///< the relabelled target: rank `ranks[r]` owns what rank `r` owned in the target
  Index moved_cells_before = 0;     ///< moved between ranks with the original target
  Index moved_cells = 0;            ///< the same for `layout`
  Index off_node_cells_before = 0;  ///< the part of these that leaves its node
  Index off_node_cells = 0;
  Index cost_above_least = 0;  ///< at most; 0: no assignment costs less
};

/// Assigns the boxes of a target layout to the ranks that already hold most of their cells.
///
/// A moved cell costs 1, or `off_node_weight` when it leaves its node. The assignment is of least cost where at most
/// 2^20 pairs of a box and a rank share cells or, with nodes, a node (1,024 ranks where all pairs do), and for more
/// pairs where the search looks at most at 2^25 of them, as it does for balanced cuts. Otherwise its cost exceeds the
/// least one by at most `cost_above_least`, which is at most max(G / 64, min(G / 16, A / 1000)): G is the cost saved if
/// each box went to the rank that suits it best, regardless of the others, and A the largest cost of moving all cells.
/// Of several assignments of least cost, one that leaves the most boxes with their ranks is chosen.
///
/// The numbers of boxes and ranks may differ, and boxes may be empty. The result depends only on the arguments, so
/// ranks with equal arguments agree without communication. For targets with interchangeable ranks, where the new owner
/// of a box does not matter. Example: from rows `Layout({3, 1}, {6, 4})` to the same rows on ranks 2, 0, 1: all three
/// boxes return to the ranks that hold their cells, and the repartition to `layout` sends nothing.
/// @throws `LayoutMismatch` when the permuted extents differ, `AxesMismatch`, `BadProcessGrid` for fewer entries than
/// ranks or an `off_node_weight` below 1, for `ranks` that repeat or are negative, and for more boxes with cells than
/// `ranks`, `OutOfRange` where cells times weight times ranks reach 2^62
/// Cost: overlaps by `for_each_owner`; then shortest augmenting paths (Jonker, Volgenant 1987) over the pairs of boxes
///       and ranks that share cells or, with nodes, a node, or an auction (Bertsekas 1988). On one core: 4096 ranks on
///       64 nodes 0.2 s; a row layout and a column layout, where all pairs share cells, 0.1 s for 1024 ranks and 1.4 s
///       for 4096 (balanced cuts), 0.5 s and 2.5 s for cuts of random sizes.
[[nodiscard]] Relabelling relabel(Layout const& from, Layout const& to, RelabelOptions const& options = {});

}  // namespace graticule
