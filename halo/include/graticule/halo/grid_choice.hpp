// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/virtual_plan.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/placement.hpp>

#include <functional>
#include <string>
#include <vector>

namespace graticule {

/// The grid, fields and machine for which a process grid is chosen.
struct GridRequest {
  /// Costs of messages and packing, in seconds. The defaults are round figures for ranks that share a network card; a
  /// choice depends only on their ratios.
  struct Cost {
    double on_node_message = 1e-6;
    double on_node_byte = 1.0 / 8e9;
    double off_node_message = 3e-6;
    double off_node_byte = 1.0 / 3e9;
    double run = 2e-9;  ///< to pack or unpack one contiguous run; makes columns cost more than rows
  };

  Indices extents;                ///< of the global box
  HaloKind halo;                  ///< the most frequent exchange
  std::vector<int> node_of_rank;  ///< a node for each rank: `nodes_of_ranks`, `consecutive_nodes`
  Index element_bytes = 8;        ///< of one value
  Index num_batch = 1;            ///< values per cell: levels times fields, each contiguous by itself
  Indices ranks = {};             ///< per axis; 0 is free, 1 leaves the axis uncut. Empty: all free
  Indices min_extents = {};       ///< minimum extents of a rank's box; 0 lets ranks own nothing. Empty: 1
  /// Cuts of an axis; empty: balanced.
  std::function<Cuts(int axis, int num_parts)> cuts = {};
  std::vector<std::string> axis_names = {};  ///< for warnings; empty: axis 0, axis 1, ...
  Cost cost = {};
  int num_candidates = 12;  ///< number to examine in detail, at least
};

/// A process grid with cuts and an order of ranks, and its cost of an exchange.
struct GridCandidate {
  /// Largest and mean value over the evaluated ranks or nodes.
  struct Spread {
    double max = 0;
    double mean = 0;
  };

  explicit GridCandidate(Layout of) : layout(std::move(of)) {}

  Layout layout;
  double seconds = 0;   ///< the slowest rank's messages and packing, by `GridRequest::cost`
  Indices min_extents;  ///< smallest extent along each axis, over ranks that own cells
  Indices max_extents;
  double imbalance = 1;  ///< cells of the largest rank over the mean
  int num_idle = 0;      ///< ranks that own nothing
  Spread messages;       ///< sent by a rank
  Spread bytes;          ///< sent by a rank to others
  Spread node_on_bytes;  ///< sent between the ranks of one node
  Spread node_off_bytes;
  double off_node_bytes_before = 0;  ///< over all nodes, with the ranks in row-major order
  double off_node_bytes = 0;         ///< the same in the order of the layout
  Index field_bytes = 0;             ///< memory of the largest local box
  Index buffer_bytes = 0;            ///< memory of the messages of one exchange, sent and received
  int num_evaluated = 0;             ///< evaluated ranks; all of them up to 4096
  std::vector<std::string> warnings;
};

/// Process grids for a request, the best first: by the time of the slowest rank, then by the number of cut axes, then
/// those that cut slower axes.
///
/// Every factorization of the number of ranks is rated. The promising ones are planned for all ranks (beyond 4096 ranks
/// for nodes at the ends and in the centre), with their ranks placed on the nodes by `place_on_nodes`. Deterministic:
/// equal requests give equal results on all ranks. No communication.
/// Example: 721 x 1440 cells, width 1, 73 levels, 64 ranks, 4 per node: blocks of ranks are better than 64 bands.
/// @throws `BadProcessGrid`, also when no factorization fits, `BadOption`, what `VirtualHalo` throws
[[nodiscard]] std::vector<GridCandidate> grid_candidates(GridRequest const& request);

/// The best layout for the ranks and nodes of `comm`; `request.node_of_rank` is not read. Collective.
[[nodiscard]] Layout best_layout(Comm const& comm, GridRequest request);

}  // namespace graticule
