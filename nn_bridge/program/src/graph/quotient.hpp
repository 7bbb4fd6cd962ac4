// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/detail/division.hpp>

#include <cstdint>
#include <limits>

namespace graticule::program::detail {

/// Stores `a / b`, rounded down, like `__builtin_add_overflow`: returns true if there is no such 64-bit integer.
[[nodiscard]] inline bool quotient_overflow(std::int64_t a, std::int64_t b, std::int64_t* result) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) {
    return true;
  }
  *result = graticule::detail::floor_div(a, b);
  return false;
}

}  // namespace graticule::program::detail
