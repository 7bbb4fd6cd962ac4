// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

/// One way in which ranks form teams.
struct TeamAxis {
  std::string name;
  int size = 0;  ///< ranks per team; 0 takes what the others leave, for one axis at most
};

/// Divides the ranks of a communicator into teams along several axes: each rank is in one team of every axis.
///
/// The last axis varies fastest: its teams are neighboring ranks of one node where node and team sizes allow it, so it
/// is the one for the team that talks most. Ranks are renumbered for this when a launcher has dealt them out to nodes in
/// turn. Each team has a communicator of its own, and nothing refers to ranks of another one.
/// Example: `Teams(comm, {{"data", 0}, {"domain", 4}})` on 8 ranks: ranks 0 to 3 are one domain team, 4 to 7 the other,
/// and ranks 1 and 5 form the data team of those that are number 1 of their domain.
/// A domain on some of a team's ranks is a layout that gives nothing to the others (`ProcessGrid::on_ranks`); they make
/// every call of its plans.
class Teams {
 public:
  /// Collective. @throws `TeamShape` when the sizes do not multiply to the number of ranks, names repeat, sizes are
  ///         negative or more than one is 0; `TeamDisagreement` when ranks differ in their arguments
  Teams(Comm const& comm, std::vector<TeamAxis> axes);

  /// All ranks, in the order that the teams need; rank 0 of every team axis is its rank 0.
  [[nodiscard]] Comm const& world() const noexcept { return world_; }
  /// This rank's team along an axis; `team(name).rank()` is its number there. @throws `UnknownTeam`
  [[nodiscard]] Comm const& team(std::string_view name) const;
  /// With sizes filled in, slowest first.
  [[nodiscard]] std::span<TeamAxis const> axes() const noexcept { return axes_; }

 private:
  std::vector<TeamAxis> axes_;
  Comm world_;
  std::vector<Comm> teams_;
};

/// Ranks node by node, nodes and ranks within them in increasing order.
/// Example: nodes 0 1 0 1 give ranks 0 2 1 3.
[[nodiscard]] std::vector<int> ranks_by_node(std::span<int const> node_of_rank);

}  // namespace graticule
