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

}  // namespace graticule::models
