// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <numbers>

namespace graticule::models {

/// Radians in a degree.
constexpr double radians = std::numbers::pi / 180;

}  // namespace graticule::models
