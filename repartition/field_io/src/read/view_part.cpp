// SPDX-License-Identifier: BSD-3-Clause
#include "view_part.hpp"

#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include <algorithm>
#include <cstdlib>

namespace graticule {

Indices FileSelection::counts() const {
  if (steps.size() != 0 && steps.size() != box.ndim())
    throw Error("BadSelection", "a step is needed for each of " + std::to_string(box.ndim()) + " axes, got " +
                                    std::to_string(steps.size()));
  Indices result = box.extents();
  for (int axis = 0; axis < steps.size(); ++axis) {
    // The most negative number has no absolute value.
    if (steps[axis] == 0 || steps[axis] < -std::numeric_limits<Index>::max())
      throw Error("BadSelection", "a step must not be 0, got " + std::to_string(steps[axis]) + " along " +
                                      detail::axis_text(axis, steps.size()));
    if (result[axis] > 0) result[axis] = (result[axis] - 1) / std::abs(steps[axis]) + 1;
  }
  return result;
}

namespace detail {

namespace {

void require_axes(std::string const& described, FileSelection const& selection, FieldView const& field) {
  auto const ndim = selection.box.ndim();
  auto const bad = [&](std::string const& what) {
    throw Error("BadSelection", what + ", for " + described + " and a field of " + to_string(field.extents));
  };
  if (field.strides.size() != field.ndim()) bad("not one stride per axis of the field");
  if (selection.offset.size() != 0 && selection.offset.size() != field.ndim()) bad("not one offset per axis");
  if (selection.axes.size() == 0 && field.ndim() != ndim) bad("the field has another number of axes");
  if (selection.axes.size() != 0 && selection.axes.size() != field.ndim()) bad("not one of `axes` per axis");
  for (int m = 0; m < selection.axes.size(); ++m) {
    auto const axis = selection.axes[m];
    if (axis < -1 || axis >= ndim) bad("there is no " + detail::axis_text(axis, ndim));
    for (int other = 0; other < m; ++other)
      if (axis >= 0 && selection.axes[other] == axis) bad(detail::axis_text(axis, ndim) + " is given twice");
  }
}

/// Places the field's axes under the variable's.
void set_memory(std::string const& described, FileSelection const& selection, FieldView const& field, ViewPart& part) {
  require_axes(described, selection, field);
  auto const ndim = selection.box.ndim();
  auto left = part.slab.counts;
  Index origin = 0;
  part.strides = Indices::filled(ndim, 0);
  for (int m = 0; m < field.ndim(); ++m) {
    auto const axis = selection.axes.size() != 0 ? selection.axes[m] : Index(m);
    auto const offset = selection.offset.size() != 0 ? selection.offset[m] : 0;
    auto const count = axis >= 0 ? part.slab.counts[int(axis)] : 1;
    if (offset < 0 || offset > field.extents[m] - count)
      throw Error("ShapeMismatch", std::to_string(count) + " cells from element " +
                                       std::to_string(detail::place_number(offset)) + " on do not fit " +
                                       detail::axis_text(m, field.ndim()) + " of a field of " +
                                       to_string(field.extents) + ", for " + described);
    bool const reversed = axis >= 0 && selection.steps.size() != 0 && selection.steps[int(axis)] < 0;
    origin += field.strides[m] * (reversed ? offset + count - 1 : offset);
    if (axis < 0) continue;
    part.strides[int(axis)] = reversed ? -field.strides[m] : field.strides[m];
    left[int(axis)] = 1;
  }
  for (int axis = 0; axis < ndim; ++axis)
    if (left[axis] != 1)
      throw Error("BadSelection", std::to_string(left[axis]) + " cells along " + detail::axis_text(axis, ndim) +
                                      ", which the field does not have, for " + described);
  if (field.data == nullptr) throw Error("ShapeMismatch", "the memory of the field for " + described + " is null");
  part.first = static_cast<std::byte*>(field.data) + origin * size_of(field.dtype);
}

}  // namespace

ViewPart view_part(std::string const& described, Indices const& extents, FileSelection const& selection,
                   FieldView const& field) {
  auto const& box = selection.box;
  if (box.ndim() != extents.size() || !Box::from_extents(extents).contains(box))
    throw Error("OutOfRange", "the cells must lie in " + described + ", got " + to_string(box));
  if (field.dtype == DType::c64 || field.dtype == DType::c128)
    throw Error("WrongType", described + " holds no complex numbers, got a field of them");
  ViewPart part;
  part.dtype = field.dtype;
  part.slab.counts = selection.counts();
  part.slab.steps = Indices::filled(box.ndim(), 1);
  part.slab.start = box.lo();
  part.cells = box;
  if (box.empty()) return part;
  if (field.space != MemorySpace::host)
    throw Error("Unsupported",
                described + " is read into host memory, got a field in device memory; copy it to the host first");
  for (int axis = 0; axis < selection.steps.size(); ++axis) {
    auto const step = selection.steps[axis];
    auto const count = part.slab.counts[axis];
    part.slab.steps[axis] = std::abs(step);
    // Counted from the last cell backwards, read forwards.
    if (step < 0) part.slab.start[axis] = box.hi(axis) - 1 - (count - 1) * -step;
    if (std::abs(step) != 1) part.cells.set(axis, 0, count);
  }
  set_memory(described, selection, field, part);
  return part;
}

bool ViewPart::is_dense() const {
  auto const dense = row_major_strides(slab.counts);
  for (int axis = 0; axis < strides.size(); ++axis)
    if (slab.counts[axis] != 1 && strides[axis] != dense[axis]) return false;
  return true;
}

namespace {

std::byte* element_of(ViewPart const& part, Box const& piece) {
  Index place = 0;
  for (int axis = 0; axis < piece.ndim(); ++axis) place += (piece.lo(axis) - part.cells.lo(axis)) * part.strides[axis];
  return part.first + place * size_of(part.dtype);
}

}  // namespace

void ViewPart::scatter(Box const& piece, void const* dense) const {
  auto const extents = piece.extents();
  auto const task = make_strided(StridedOp::copy, dtype, extents, element_of(*this, piece), strides, dense,
                                 row_major_strides(extents));
  run_strided_host({&task, 1});
}

void ViewPart::gather(Box const& piece, void* dense) const {
  auto const extents = piece.extents();
  auto const task = make_strided(StridedOp::copy, dtype, extents, dense, row_major_strides(extents),
                                 element_of(*this, piece), strides);
  run_strided_host({&task, 1});
}

Indices chunk_for(ViewPart const& part, Indices const& chunk) {
  Indices result = chunk;
  for (int axis = 0; axis < result.size(); ++axis)
    if (part.slab.steps[axis] != 1) result[axis] = 1;
  return result;
}

}  // namespace detail

}  // namespace graticule
