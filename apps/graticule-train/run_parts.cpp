// SPDX-License-Identifier: BSD-3-Clause
#include "run_parts.hpp"

#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/samples/detail/sample_store.hpp>

#include <algorithm>
#include <array>

namespace graticule::train {

bool uses_mirror(Mirror mirror, Grid const& grid) {
  bool const possible = is_symmetric(grid);
  if (mirror == Mirror::on && !possible)
    throw Error(Fault::usage, "BadCoordinates", "--mirror on needs latitudes that are symmetric about the equator");
  return mirror != Mirror::off && possible;
}

Index agreed_memory(Comm const& comm, Index bytes, Index own_least, Index most_samples) {
  std::array<Index, 1> least{own_least};
  comm.max(std::span<Index>(least));
  if (bytes == 0) {
    std::array<Index, 1> given{-default_memory_bytes(comm)};
    comm.max(std::span<Index>(given));
    bytes = std::max(-given[0], least[0]);
  }
  if (bytes < least[0])
    throw Error(Fault::usage, "BudgetTooSmall",
                "--memory of " + std::to_string(bytes) + " bytes per rank does not hold the batches of up to " +
                    std::to_string(most_samples) + (most_samples == 1 ? " sample" : " samples") +
                    " in training and being read; at least " + std::to_string(least[0]) +
                    " are needed, less with a smaller --batch or more ranks");
  return bytes;
}

void share_picture(DataTeams const& teams, std::vector<std::vector<double>*> const& fields, std::size_t num_values) {
  std::array<Index, 1> owner{fields.front()->empty() ? -1 : teams.team()};
  teams.data().max(std::span<Index>(owner));
  if (owner[0] < 0) return;
  for (auto* values : fields) {
    values->resize(num_values);
    teams.data().broadcast(values->data(), Index(num_values * sizeof(double)), int(owner[0]));
  }
}

}  // namespace graticule::train
