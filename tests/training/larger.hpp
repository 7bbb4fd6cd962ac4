// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>

namespace graticule::test {

/// The larger of two differences; NaN where either is one, which `std::max` would hide.
inline double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

}  // namespace graticule::test
