// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/layout.hpp>

#include <span>
#include <vector>

namespace graticule::models {

/// A latitude-longitude grid and its boundary rules.
struct Grid {
  std::vector<double> latitudes;   ///< degrees north of all rows, either way
  std::vector<double> longitudes;  ///< degrees east of all columns, either way
  Boundary boundary;

  [[nodiscard]] Index num_rows() const noexcept { return Index(latitudes.size()); }
  [[nodiscard]] Index num_columns() const noexcept { return Index(longitudes.size()); }
  [[nodiscard]] bool is_periodic() const noexcept { return boundary.axes[1].lower == Edge::periodic; }
};

/// Derives the boundary rule of each edge from the coordinates.
///
/// Longitude is periodic when n columns of equal spacing cover 360 degrees. A side reaches the pole when its row lies
/// on it (`pole_row`, within 2e-5 degrees, as f32 rounds; latitudes beyond it become 90) or half a spacing away from it
/// (`pole_face`); poles are crossed where longitude is periodic. Every other edge repeats its last cell. Example: 241
/// rows from 90 to -90, 480 columns from -180 to 179.25: both poles `pole_row`, longitude periodic.
/// @throws `BadCoordinates`, `BadBoundary` (input)
[[nodiscard]] Grid make_grid(std::vector<double> latitudes, std::vector<double> longitudes);

/// Position of a rank's cells, and weights of the rows in means. What it refers to must outlive it.
struct Cells {
  Grid const& grid;
  Layout const& layout;
  Box box;                              ///< this rank's owned box
  std::span<double const> row_weights;  ///< of all rows of the grid

  [[nodiscard]] Index per_sample() const noexcept { return box.extent(0) * box.extent(1); }
};

}  // namespace graticule::models
