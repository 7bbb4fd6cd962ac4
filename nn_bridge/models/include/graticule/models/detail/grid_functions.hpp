// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/grid.hpp>

#include <numbers>
#include <span>
#include <string>
#include <vector>

namespace graticule::models {

/// Derives the boundary rule of each edge from the coordinates.
///
/// Longitude is periodic when n columns of equal spacing cover 360 degrees. A side reaches the pole when its row lies
/// on it (`pole_row`, within 2e-5 degrees, as f32 rounds; latitudes beyond it become 90) or half a spacing away from it
/// (`pole_face`); poles are crossed where longitude is periodic. Every other edge repeats its last cell. Example: 241
/// rows from 90 to -90, 480 columns from -180 to 179.25: both poles `pole_row`, longitude periodic.
/// @throws `BadCoordinates`, `BadBoundary` (input)
[[nodiscard]] Grid make_grid(std::vector<double> latitudes, std::vector<double> longitudes);

/// Whether the rows lie symmetric about the equator, so that the grid is its own mirror image.
[[nodiscard]] bool is_symmetric(Grid const& grid);

/// `first and last row: pole crossed (row on the pole); longitude periodic`
[[nodiscard]] std::string describe_edges(Grid const& grid);

/// Metres between the rows above and below a row, on a sphere of 6371 km. Negative where coordinates fall.
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

/// Radians in a degree.
inline constexpr double radians = std::numbers::pi / 180;

/// Latitude of row `row`, which may lie beyond the grid: beyond a pole the count goes on (90.75 is 89.25 on the far
/// side), at an edge that repeats cells the last row's latitude is repeated. @pre `-1 <= row <= num_rows()`
[[nodiscard]] double extended_latitude(Grid const& grid, Index row);
/// Likewise for columns; beyond a periodic edge the count goes on.
[[nodiscard]] double extended_longitude(Grid const& grid, Index column);

/// The values of `normalised_rows` in their units: `coriolis` in 1/s. @throws `BadOption` (usage)
[[nodiscard]] std::vector<double> static_rows(std::string const& name, Grid const& grid);

}  // namespace graticule::models
