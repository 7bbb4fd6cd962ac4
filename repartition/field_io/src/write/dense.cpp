// SPDX-License-Identifier: BSD-3-Clause
#include "dense.hpp"

#include <cstring>

namespace graticule::detail {

namespace {

Index place_in(Box const& whole, Indices const& cell) {
  Index result = 0;
  for (int axis = 0; axis < whole.ndim(); ++axis) result = result * whole.extent(axis) + cell[axis] - whole.lo(axis);
  return result;
}

/// Calls `visit(first cell in whole, first cell in part, cells)` for each row of `part`.
template <class Visit>
void for_each_row(Box const& whole, Box const& part, Visit const& visit) {
  if (part.empty()) return;
  int const last = part.ndim() - 1;
  Index const length = last >= 0 ? part.extent(last) : 1;
  Index done = 0;
  for (Indices cell = part.lo();;) {
    visit(place_in(whole, cell), done, length);
    done += length;
    int axis = last - 1;
    while (axis >= 0 && ++cell[axis] == part.hi(axis)) {
      cell[axis] = part.lo(axis);
      --axis;
    }
    if (axis < 0) return;
  }
}

}  // namespace

std::optional<Index> run_in(Box const& whole, Box const& part) {
  bool inner_is_whole = true;
  for (int axis = part.ndim() - 1; axis >= 0; --axis) {
    if (!inner_is_whole && part.extent(axis) != 1) return {};
    inner_is_whole = inner_is_whole && part.extent(axis) == whole.extent(axis);
  }
  return place_in(whole, part.lo());
}

void copy_out(Box const& whole, Box const& part, Index value_bytes, void const* from, void* to) {
  auto const* const source = static_cast<std::byte const*>(from);
  auto* const target = static_cast<std::byte*>(to);
  for_each_row(whole, part, [&](Index in_whole, Index in_part, Index count) {
    std::memcpy(target + in_part * value_bytes, source + in_whole * value_bytes, std::size_t(count * value_bytes));
  });
}

void copy_in(Box const& whole, Box const& part, Index value_bytes, void const* from, void* to) {
  auto const* const source = static_cast<std::byte const*>(from);
  auto* const target = static_cast<std::byte*>(to);
  for_each_row(whole, part, [&](Index in_whole, Index in_part, Index count) {
    std::memcpy(target + in_whole * value_bytes, source + in_part * value_bytes, std::size_t(count * value_bytes));
  });
}

}  // namespace graticule::detail
