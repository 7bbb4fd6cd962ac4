// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

/// Divides the ranks of a communicator into teams along several axes: each rank is in one team of every axis.
///
/// The last axis varies fastest: its teams are neighboring ranks of one node where node and team sizes allow it, so use
/// it for the team with the most traffic. For this, ranks are renumbered when a launcher has distributed them over
/// nodes round-robin. Each team has its own communicator, and all its numbers refer to that communicator.
/// Example: `Teams(comm, {{"data", 0}, {"domain", 4}})` on 8 ranks: ranks 0 to 3 are one domain team, 4 to 7 the other,
/// and ranks 1 and 5 form the data team of the ranks that are rank 1 of their domain team.
/// A domain on some of a team's ranks is a layout in which the others own nothing (`ProcessGrid::on_ranks`); they take
/// part in every call of its plans.
class Teams {
 public:
  /// One axis along which ranks form teams.
  struct Axis {
    std::string name;
    int size = 0;  ///< ranks per team; 0 takes the remaining factor, on at most one axis
  };

  /// Collective. @throws `BadProcessGrid` when the product of the sizes is not the number of ranks, names repeat, a
  ///         size is negative or more than one is 0; `ArgumentDisagreement` when ranks differ in their arguments
  Teams(Comm const& comm, std::vector<Axis> axes);

  /// All ranks, in the order that the teams need; its rank 0 is rank 0 of its team along every axis.
  [[nodiscard]] Comm const& world() const noexcept { return world_; }
  /// This rank's team along an axis; `team(name).rank()` is its rank there. @throws `UnknownName`
  [[nodiscard]] Comm const& team(std::string_view name) const;
  /// With sizes filled in, slowest first.
  [[nodiscard]] std::span<Axis const> axes() const noexcept { return axes_; }

 private:
  std::vector<Axis> axes_;
  Comm world_;
  std::vector<Comm> teams_;
};

}  // namespace graticule
