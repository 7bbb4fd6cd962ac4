// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/grid.hpp>

#include <string>
#include <vector>

namespace graticule::models::detail {

/// Latitude of row `row`, which may lie beyond the grid: beyond a pole the count goes on (90.75 is 89.25 on the far
/// side), at an edge that repeats cells the last row's latitude is repeated. @pre `-1 <= row <= num_rows()`
[[nodiscard]] double extended_latitude(Grid const& grid, Index row);
/// Likewise for columns; beyond a periodic edge the count goes on.
[[nodiscard]] double extended_longitude(Grid const& grid, Index column);

/// The values of `normalised_rows` in their units: `coriolis` in 1/s. @throws `BadOption` (usage)
[[nodiscard]] std::vector<double> static_rows(std::string const& name, Grid const& grid);

}  // namespace graticule::models::detail
