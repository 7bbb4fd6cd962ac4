// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/teams.hpp>

#include <string>

namespace graticule::samples {

/// The ranks of a training: teams that each hold a whole globe, divided among the ranks of a domain.
///
/// The samples of a batch are divided among the data teams; ranks of the same number in each domain form a data team of
/// communicators. Example: 6 ranks, 2 data teams: ranks 0, 1, 2 share one globe and ranks 3, 4, 5 another.
class DataTeams {
 public:
  /// Collective. @param option named in errors @throws `BadOption` (usage) unless the number divides the ranks
  DataTeams(Comm const& comm, int num_teams, std::string const& option = "--data-teams");

  [[nodiscard]] Comm const& world() const noexcept { return teams_.world(); }
  /// The ranks that share this rank's globe.
  [[nodiscard]] Comm const& domain() const { return teams_.team("domain"); }
  /// The ranks that hold the same part of each team's globe.
  [[nodiscard]] Comm const& data() const { return teams_.team("data"); }
  [[nodiscard]] int num_teams() const { return data().num_ranks(); }
  [[nodiscard]] int team() const { return data().rank(); }

  /// A team's share of `count` consecutive items; shares differ by at most one.
  struct Part {
    Index first = 0;
    Index last = 0;  ///< one past it
  };
  [[nodiscard]] Part part_of(Index count, int team) const {
    return {count * team / num_teams(), count * (team + 1) / num_teams()};
  }
  [[nodiscard]] Part my_part_of(Index count) const { return part_of(count, team()); }

 private:
  Teams teams_;
};

/// Whether the files of a name or pattern are the same for all teams, which open them each by themselves: nodes may
/// have copies, of which some may be out of date. Collective over all teams. @throws as `find_files` and
/// `require_same_copies`
void require_same_input(DataTeams const& teams, std::string const& files);

}  // namespace graticule::samples
