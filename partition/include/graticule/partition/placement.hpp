// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/process_grid.hpp>

#include <functional>
#include <span>
#include <vector>

namespace graticule {

/// Node number of each rank; nodes are numbered in order of their lowest rank. Collective.
[[nodiscard]] std::vector<int> nodes_of_ranks(Comm const& comm);

/// The same without MPI: consecutive ranks share a node; the last node may have fewer ranks.
/// Example: 10 ranks, 4 per node: 0 0 0 0 1 1 1 1 2 2. @throws `BadProcessGrid` for a number below 1
[[nodiscard]] std::vector<int> consecutive_nodes(int num_ranks, int ranks_per_node);

/// A process grid with an optimised order of ranks, and the saving.
struct Placement {
  ProcessGrid grid;
  double off_node_bytes_before = 0;  ///< between nodes, over all ranks, with the ranks in row-major order
  double off_node_bytes = 0;         ///< the same in the order of `grid`; never more
};

/// Orders ranks so that neighbors share a node: the order with the fewest bytes between nodes that was found.
///
/// Candidates are all blocks of ranks that divide the grid and hold one node each, and traversals of the grid in strips
/// and blocks, for grids and nodes of any size. The given order is kept unless another one is better. Deterministic.
/// Example: 8 x 8 ranks, 4 per node, equal traffic to the four neighbors: blocks of 2 x 2 send 8 messages off each
/// node, rows of 4 ranks send 10.
/// @param extents of the process grid
/// @param node_of_rank node number of each rank, one per place (`BadProcessGrid`)
/// @param traffic calls `visit(peer, bytes)` for every other place that the rank at `place` sends to; places number the
///        positions of the process grid in row-major order, independently of the rank there
/// Cost: exact up to 4096 ranks; beyond that, nodes at the edges, in the corners and in the centre represent the
/// others.
[[nodiscard]] Placement place_on_nodes(
    Indices const& extents, std::span<int const> node_of_rank,
    std::function<void(int place, std::function<void(int peer, Index bytes)> const& visit)> const& traffic);

}  // namespace graticule
