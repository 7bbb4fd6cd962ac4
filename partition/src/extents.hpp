// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule::detail {

/// Product of the extents of all axes.
inline Index product(Indices const& extents) {
  Index result = 1;
  for (Index const extent : extents) result *= extent;
  return result;
}

}  // namespace graticule::detail
