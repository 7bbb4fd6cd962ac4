// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/samples/detail/data_teams.hpp>

namespace graticule::samples {
namespace {

std::vector<Teams::Axis> axes(Comm const& comm, int num_teams, std::string const& option) {
  if (num_teams < 1 || comm.num_ranks() % num_teams != 0)
    throw Error(Fault::usage, "BadOption",
                option + " " + std::to_string(num_teams) + " does not divide the " + std::to_string(comm.num_ranks()) +
                    (comm.num_ranks() == 1 ? " rank" : " ranks") + " that the program runs on");
  return {{"data", num_teams}, {"domain", 0}};
}

}  // namespace

DataTeams::DataTeams(Comm const& comm, int num_teams, std::string const& option)
    : teams_(comm, axes(comm, num_teams, option)) {}

void require_same_input(DataTeams const& teams, std::string const& files) {
  if (teams.num_teams() == 1) return;  // FieldFile compares
  for (auto const& file : find_files(teams.world(), files)) require_same_copies(teams.world(), file);
}

}  // namespace graticule::samples
