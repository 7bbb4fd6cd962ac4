// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

namespace graticule {

/// Calls `visit(cell)` with the coordinates of each cell of `box`, in row-major order; never for an empty box.
template <class Visit>
void for_each_cell(Box const& box, Visit&& visit) {
  if (box.empty()) return;
  auto cell = box.lo();
  while (true) {
    visit(static_cast<Indices const&>(cell));
    int a = box.ndim() - 1;
    while (a >= 0 && ++cell[a] == box.hi(a)) {
      cell[a] = box.lo(a);
      --a;
    }
    if (a < 0) return;
  }
}

}  // namespace graticule
