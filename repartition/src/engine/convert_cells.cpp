// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/convert_cells.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include <algorithm>

namespace graticule::detail {

namespace {

/// Calls `visit(offset in from, offset in to)` for each element.
template <class Visit>
void for_each_element(FieldView const& from, FieldView const& to, Visit&& visit) {
  auto at = Indices::filled(from.ndim(), 0);
  if (std::any_of(from.extents.begin(), from.extents.end(), [](Index n) { return n == 0; })) return;
  for (Index read = 0, written = 0;;) {
    visit(read, written);
    int m = from.ndim() - 1;
    for (; m >= 0; --m) {
      read += from.strides[m];
      written += to.strides[m];
      if (++at[m] < from.extents[m]) break;
      read -= at[m] * from.strides[m];
      written -= at[m] * to.strides[m];
      at[m] = 0;
    }
    if (m < 0) return;
  }
}

template <class From, class To>
void convert(FieldView const& from, FieldView const& to) {
  auto const* const source = static_cast<From const*>(from.data);
  auto* const target = static_cast<To*>(to.data);
  for_each_element(from, to, [&](Index read, Index written) { target[written] = To(source[read]); });
}

}  // namespace

void convert_cells(FieldView const& from, FieldView const& to) {
  if (from.extents != to.extents || from.space != MemorySpace::host || to.space != MemorySpace::host)
    throw Error("FieldMismatch", "a conversion of " + to_string(from.extents) + " to " + to_string(to.extents) +
                                     " elements; both must be alike, in host memory");
  auto const is_real = [](DType dtype) { return dtype == DType::f32 || dtype == DType::f64; };
  if (!is_real(from.dtype) || !is_real(to.dtype))
    throw Error("WrongType", "a conversion of " + to_string(from.dtype) + " to " + to_string(to.dtype) +
                                 "; f32 and f64 are converted");
  if (from.dtype == DType::f32)
    to.dtype == DType::f32 ? convert<float, float>(from, to) : convert<float, double>(from, to);
  else
    to.dtype == DType::f32 ? convert<double, float>(from, to) : convert<double, double>(from, to);
}

DenseField::DenseField(FieldView const& like, DType dtype) : view_(like) {
  Index elements = 1;
  for (Index const extent : like.extents) elements *= extent;
  memory_.resize(std::size_t(elements * size_of(dtype)));
  view_.data = memory_.data();
  view_.dtype = dtype;
  view_.strides = row_major_strides(like.extents);
}

}  // namespace graticule::detail
