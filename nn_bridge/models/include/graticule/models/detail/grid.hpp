// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/grid.hpp>

#include <span>
#include <string>
#include <vector>

namespace graticule::models {

/// Whether the rows lie symmetric about the equator, so that the grid is its own mirror image.
[[nodiscard]] bool is_symmetric(Grid const& grid);

/// `first and last row: pole crossed (row on the pole); longitude periodic`
[[nodiscard]] std::string describe_edges(Grid const& grid);

/// Metres between the rows above and below a row: what differences are divided by. Negative where coordinates fall. The
/// Earth's radius is 6371 km.
[[nodiscard]] double metres_between_rows(Grid const& grid, Index row);
/// Likewise for the columns beside a cell, on a row whose `bounded_cosine` is `cosine`.
[[nodiscard]] double metres_on_row(Grid const& grid, double cosine, Index column);
/// Cosine of a row's latitude, bounded below by its value half a row from the pole.
[[nodiscard]] double bounded_cosine(Grid const& grid, Index row);

/// Functions of latitude that can be input channels: `coriolis` (2 Omega sin(latitude), 1/s), `sin_latitude`,
/// `cos_latitude`, with mean 0 and standard deviation 1 over the globe. One value per row of the grid.
/// @throws `BadOption` (usage)
[[nodiscard]] std::vector<double> normalised_rows(std::string const& name, Grid const& grid,
                                                  std::span<double const> row_weights);

namespace detail {

/// Latitude of row `row`, which may lie beyond the grid: beyond a pole the count goes on (90.75 is 89.25 on the far
/// side), at an edge that repeats cells the last row's latitude is repeated. @pre `-1 <= row <= num_rows()`
[[nodiscard]] double extended_latitude(Grid const& grid, Index row);
/// Likewise for columns; beyond a periodic edge the count goes on.
[[nodiscard]] double extended_longitude(Grid const& grid, Index column);

/// The values of `normalised_rows` in their units: `coriolis` in 1/s. @throws `BadOption` (usage)
[[nodiscard]] std::vector<double> static_rows(std::string const& name, Grid const& grid);

}  // namespace detail
}  // namespace graticule::models
