// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include <string_view>
#include <vector>

namespace graticule::detail {

/// Values of a coordinate as they are read: latitudes and longitudes in degrees, and latitudes that lie beyond a pole
/// by the rounding of f32 (90.000008) on it.
void to_degrees(FileContents const& contents, std::string_view dimension, std::vector<double>& values);

}  // namespace graticule::detail
