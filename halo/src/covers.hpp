// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/repartition/field_view.hpp>

#include <algorithm>
#include <string>

namespace graticule::detail {

/// A field whose grid axes have exactly the cells of a box. @param role `cells` or `sums`, for the message
/// @throws `FieldMismatch`
inline void check_covers(FieldView const& view, Box const& box, char const* role) {
  auto const fail = [&](std::string const& what) {
    throw Error("FieldMismatch",
                std::string(role) + " of " + to_string(view.dtype) + " " + to_string(view.extents) + ": " + what);
  };
  if (view.strides.size() != view.ndim())
    fail("a stride is needed for each of " + std::to_string(view.extents.size()) + " axes, got " +
         std::to_string(view.strides.size()));
  if (view.grid_axes.size() != box.ndim())
    fail("the plan has " + std::to_string(box.ndim()) + " grid axes, got " + std::to_string(view.grid_axes.size()));
  for (Index const axis : view.grid_axes)
    if (axis < 0 || axis >= view.ndim() || std::count(view.grid_axes.begin(), view.grid_axes.end(), axis) != 1)
      fail("its grid axes must be different ones of its " + std::to_string(view.ndim()) + " axes, got " +
           to_string(view.grid_axes));
  if (box.empty()) return;
  for (int a = 0; a < box.ndim(); ++a)
    if (view.extents[int(view.grid_axes[a])] != box.extent(a)) fail("it does not cover " + to_string(box));
  if (view.data == nullptr && view.num_batch() > 0) fail("its memory is null");
}

}  // namespace graticule::detail
