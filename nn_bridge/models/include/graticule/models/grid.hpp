// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/indices.hpp>

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

}  // namespace graticule::models
