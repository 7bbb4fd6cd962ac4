// SPDX-License-Identifier: BSD-3-Clause
#include "cells.hpp"

#include <algorithm>

namespace graticule::detail {

namespace {

/// Strides of the batch axes of `view`, in order of memory axes.
void add_batch(FieldView const& view, Indices& strides) {
  for (int m = 0; m < view.ndim(); ++m)
    if (std::find(view.grid_axes.begin(), view.grid_axes.end(), Index(m)) == view.grid_axes.end())
      strides.push_back(view.strides[m]);
}

Index grid_stride(FieldView const& view, int axis) { return view.strides[int(view.grid_axes[axis])]; }

Elements elements(FieldView const& view, Index offset, Indices const& strides) {
  return {static_cast<std::byte*>(view.data) + offset * size_of(view.dtype), view.dtype, strides};
}

}  // namespace

Elements target_cells(FieldView const& view, Indices const& cover_lo, Box const& box) {
  Indices strides;
  add_batch(view, strides);
  Index offset = 0;
  for (int a = 0; a < box.ndim(); ++a) {
    offset += (box.lo(a) - cover_lo[a]) * grid_stride(view, a);
    strides.push_back(grid_stride(view, a));
  }
  return elements(view, offset, strides);
}

Elements source_cells(FieldView const& view, Indices const& cover_lo, Transfer const& transfer) {
  Indices strides;
  add_batch(view, strides);
  Index offset = 0;
  for (int a = 0; a < transfer.to.ndim(); ++a) {
    auto const& map = transfer.maps[std::size_t(a)];
    Index const first = map.slope * transfer.to.lo(a) + map.offset;
    offset += (first - cover_lo[map.source_axis]) * grid_stride(view, map.source_axis);
    strides.push_back(map.slope * grid_stride(view, map.source_axis));
  }
  return elements(view, offset, strides);
}

Indices extents_of(FieldView const& view, Box const& box) {
  Indices extents = view.batch_extents();
  for (int a = 0; a < box.ndim(); ++a) extents.push_back(box.extent(a));
  return extents;
}

}  // namespace graticule::detail
