// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/grid.hpp>
#include <graticule/partition/comm.hpp>

#include <string>
#include <vector>

namespace graticule::forecasting {

/// Whether latitudes or longitudes are the same to 1e-4 degrees and whole circles: files and checkpoints may hold them
/// in f32, and longitudes may pass 360 degrees.
[[nodiscard]] bool same_places(std::vector<double> const& a, std::vector<double> const& b);

/// Fields that are the same at all times, such as orography, on this rank's box and mirrored, in units.
struct StaticFields {
  std::vector<std::string> names;
  std::vector<std::vector<double>> values;    ///< [row][column] each; NaN where missing
  std::vector<std::vector<double>> mirrored;  ///< of the rows n-1-i
};

/// Reads variables of the grid from a file; axes other than latitude and longitude have one entry. Collective.
/// @throws `BadInput` (input) for another grid
[[nodiscard]] StaticFields read_statics(Comm const& comm, std::string const& file,
                                        std::vector<std::string> const& names, models::Grid const& grid,
                                        Box const& box);

}  // namespace graticule::forecasting
