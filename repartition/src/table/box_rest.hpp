// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

#include <algorithm>
#include <vector>

namespace graticule::detail {

/// Appends the parts of `box` outside `hole`.
inline void append_rest(Box box, Box const& hole, std::vector<Box>& rest) {
  if (intersection(box, hole).empty()) {
    rest.push_back(box);
    return;
  }
  for (int a = 0; a < box.ndim(); ++a) {
    if (box.lo(a) < hole.lo(a)) {
      rest.push_back(box);
      rest.back().set(a, box.lo(a), hole.lo(a));
    }
    if (hole.hi(a) < box.hi(a)) {
      rest.push_back(box);
      rest.back().set(a, hole.hi(a), box.hi(a));
    }
    box.set(a, std::max(box.lo(a), hole.lo(a)), std::min(box.hi(a), hole.hi(a)));
  }
}

}  // namespace graticule::detail
