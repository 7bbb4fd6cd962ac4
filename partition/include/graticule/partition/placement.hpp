// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/process_grid.hpp>

#include <functional>
#include <span>
#include <vector>

namespace graticule {

/// Number of the node of each rank, nodes counted in order of their lowest rank. Collective.
[[nodiscard]] std::vector<int> nodes_of_ranks(Comm const& comm);

/// The same without MPI: consecutive ranks share a node, the last node may have fewer.
/// Example: 10 ranks, 4 per node: 0 0 0 0 1 1 1 1 2 2. @throws `BadNodes` for a number below 1
[[nodiscard]] std::vector<int> consecutive_nodes(int num_ranks, int ranks_per_node);

/// Calls `visit(peer, bytes)` for every other place that the rank at `place` sends to.
/// Places count the cells of the process grid in row-major order, whatever rank stands there.
using Traffic = std::function<void(int place, std::function<void(int peer, Index bytes)> const& visit)>;

/// A process grid with its ranks in a good order, and what that saves.
struct Placement {
  ProcessGrid grid;
  double off_node_bytes_before = 0;  ///< between nodes, all ranks together, with the ranks in row-major order
  double off_node_bytes = 0;         ///< the same in the order of `grid`; never more
};

/// Orders ranks so that neighbors share a node: the fewest bytes between nodes that were found.
///
/// Tried are all blocks of ranks that divide the grid and hold one node each, and walks through the grid in strips and
/// blocks, for grids and nodes of any size. The order that was given stays when nothing is better. Deterministic.
/// Example: 8 x 8 ranks, 4 per node, equal traffic to the four neighbors: blocks of 2 x 2 send 8 messages off each node,
/// rows of 4 ranks send 10.
/// @param extents of the process grid
/// @param node_of_rank a node's number for each rank, one for each place (`BadNodes`)
/// Cost: exact up to 4096 ranks; beyond, nodes at the edges, the corners and in the middle stand for the others.
[[nodiscard]] Placement place_on_nodes(Indices const& extents, std::span<int const> node_of_rank,
                                       Traffic const& traffic);

/// Places that stand for all, and how many each stands for: all of them up to `most`; beyond, those at the ends of each
/// axis, next to the ends, and in the middle.
struct StandIns {
  std::vector<int> places;
  std::vector<double> weights;
};
[[nodiscard]] StandIns stand_ins(Indices const& extents, int most = 4096);

}  // namespace graticule
