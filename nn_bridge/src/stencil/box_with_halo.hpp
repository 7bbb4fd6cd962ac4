// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

#include <array>
#include <cstddef>

namespace graticule::nn::detail {

/// `owned` and its halo. A shard without cells along one axis still has a halo along the other: its tensor has the
/// sizes that the same code finds on every other rank, so that it can narrow each of them alike.
inline Box box_with_halo(Box const& owned, std::array<Width, 2> const& widths) {
  Box result = owned;
  for (int a = 0; a < 2; ++a)
    if (owned.extent(a) > 0)
      result.set(a, owned.lo(a) - widths[std::size_t(a)].lower, owned.hi(a) + widths[std::size_t(a)].upper);
  return result;
}

}  // namespace graticule::nn::detail
