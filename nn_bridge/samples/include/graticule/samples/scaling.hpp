// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace graticule::samples {

/// Scaling of a field's values to numbers of order one: (value - mean) / scale, level by level.
///
/// Where it is computed, components of a vector keep mean 0, because their sign change at a pole must survive; their
/// scale is the root mean square. A level without variation has scale 1.
struct Scaling {
  std::vector<double> mean;   ///< one per level
  std::vector<double> scale;  ///< one per level, positive
};

/// Cells without a value: NaN; in inputs the mean of their channel, in targets NaN; an error.
enum class Missing : std::uint8_t { keep, mean, refuse };

}  // namespace graticule::samples
