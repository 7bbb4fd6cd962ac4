// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/grid.hpp>

#include "coordinates.hpp"

namespace graticule::test {

/// Rows from north to south, the first and the last half a spacing from the poles; columns eastwards from 0 degrees.
inline models::Grid globe(Index num_rows, Index num_columns) {
  double const row_step = 180 / double(num_rows);
  return models::make_grid(evenly(90 - row_step / 2, -row_step, num_rows),
                           evenly(0, 360 / double(num_columns), num_columns));
}

}  // namespace graticule::test
