// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/box.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/copy_cells.hpp>
#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/field_view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace graticule {

Index size_of(DType dtype) noexcept { return enum_row(dtype).bytes; }

std::string to_string(DType dtype) { return detail::enum_name(dtype); }

Indices FieldView::batch_extents() const {
  Indices result;
  for (int m = 0; m < ndim(); ++m)
    if (std::find(grid_axes.begin(), grid_axes.end(), Index(m)) == grid_axes.end()) result.push_back(extents[m]);
  return result;
}

Index FieldView::num_batch() const noexcept {
  Index result = 1;
  for (int m = 0; m < ndim(); ++m)
    if (std::find(grid_axes.begin(), grid_axes.end(), Index(m)) == grid_axes.end()) result *= extents[m];
  return result;
}

FieldView FieldView::without_cells() const {
  FieldView result = *this;
  for (Index const axis : grid_axes)
    if (axis >= 0 && axis < ndim()) result.extents[int(axis)] = 0;
  result.data = nullptr;
  return result;
}

FieldView FieldView::part(Box const& covered, Box const& box) const {
  auto const fail = [&](std::string const& why) {
    throw Error("FieldMismatch", "the part " + to_string(box) + " of a field of " + to_string(extents) +
                                     " that covers " + to_string(covered) + ": " + why);
  };
  if (strides.size() != ndim())
    fail("a stride is needed for each of " + std::to_string(ndim()) + " axes, got " + std::to_string(strides.size()));
  if (grid_axes.size() != covered.ndim() || box.ndim() != covered.ndim())
    fail("the field has " + std::to_string(grid_axes.size()) + " grid axes");
  if (!covered.contains(box)) fail("it has cells outside");
  FieldView result = *this;
  Index offset = 0;
  for (int a = 0; a < box.ndim(); ++a) {
    Index const axis = grid_axes[a];
    if (axis < 0 || axis >= ndim() || std::count(grid_axes.begin(), grid_axes.end(), axis) != 1)
      fail("its grid axes must be different ones of its " + std::to_string(ndim()) + " axes, got " +
           to_string(grid_axes));
    auto const m = int(axis);
    if (!covered.empty() && extents[m] != covered.extent(a))
      fail(detail::axis_text(m, ndim()) + " has " + std::to_string(extents[m]) + " cells");
    result.extents[m] = box.extent(a);
    offset += (box.lo(a) - covered.lo(a)) * strides[m];
  }
  if (data != nullptr && !box.empty()) result.data = static_cast<std::byte*>(data) + offset * size_of(dtype);
  return result;
}

void copy_cells(FieldView const& from, FieldView const& to) {
  if (from.dtype != to.dtype || from.extents != to.extents || from.space != MemorySpace::host ||
      to.space != MemorySpace::host)
    throw Error("FieldMismatch", "a copy from a field of " + to_string(from.dtype) + " " + to_string(from.extents) +
                                     " to one of " + to_string(to.dtype) + " " + to_string(to.extents) +
                                     (from.dtype == to.dtype && from.extents == to.extents ? ", not on the host" : ""));
  auto const task = detail::make_strided(detail::StridedOp::copy, from.dtype, from.extents, to.data, to.strides,
                                         from.data, from.strides);
  detail::run_strided_host(std::span(&task, 1));
}

Indices row_major_strides(Indices const& extents) {
  auto strides = Indices::filled(extents.size(), 1);
  for (int m = extents.size() - 2; m >= 0; --m) strides[m] = strides[m + 1] * std::max<Index>(extents[m + 1], 1);
  return strides;
}

}  // namespace graticule
