// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/grid.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/layout.hpp>

#include <span>

namespace graticule::models {

/// Position of a rank's cells, and weights of the rows in means. What it refers to must outlive it.
struct Cells {
  Grid const& grid;
  Layout const& layout;
  Box box;                              ///< this rank's owned box
  std::span<double const> row_weights;  ///< of all rows of the grid

  [[nodiscard]] Index per_sample() const noexcept { return box.extent(0) * box.extent(1); }
};

}  // namespace graticule::models
