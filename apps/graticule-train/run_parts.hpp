// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "run.hpp"

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace graticule::train {

class Stopwatch {
 public:
  /// Seconds since the last call.
  double lap() {
    auto const now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Whether mirror images train. @throws `BadCoordinates` (usage) when they must and the grid has none
[[nodiscard]] bool uses_mirror(Mirror mirror, Grid const& grid);

/// The memory of one rank for samples and batches, the same on all ranks. Collective.
/// @param bytes as asked for, 0: `default_memory_bytes` @param least of this rank, for batches of `most_samples`
/// @throws `BudgetTooSmall` (usage)
[[nodiscard]] Index agreed_memory(Comm const& comm, Index bytes, Index least, Index most_samples);

/// The fields of a picture on this rank's box, of `num_values` each, from the team that has them to all. Collective.
/// Without cells they are empty, in every team alike.
void share_picture(DataTeams const& teams, std::vector<std::vector<double>*> const& fields, std::size_t num_values);

}  // namespace graticule::train
