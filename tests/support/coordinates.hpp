// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <vector>

namespace graticule::test {

/// Numbers of equal spacing, such as the degrees of rows.
inline std::vector<double> evenly(double first, double step, Index count) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(first + step * double(i));
  return values;
}

}  // namespace graticule::test
