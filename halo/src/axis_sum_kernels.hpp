// SPDX-License-Identifier: BSD-3-Clause
// Memory and kernels of ring sums, on host and device.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/repartition/detail/device_launch.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/field_view.hpp>

#include "exact_sum.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>

namespace graticule::detail {

using HostSpace = Kokkos::DefaultHostExecutionSpace;

/// Memory of one space that grows and is kept.
class Scratch {
 public:
  /// @pre work in other queues than `queue` does not use it
  void* resize(std::size_t bytes, MemorySpace space, DeviceQueue const& queue) {
    if (bytes_ > 0 && bytes <= bytes_ && space == space_ && device_of(queue) == device_) return memory_.data();
    if (space_ == MemorySpace::device && bytes_ > 0) fence(queue);
    bytes_ = std::max<std::size_t>(bytes, 64);
    space_ = space;
    device_ = device_of(queue);
    memory_ = Buffer(bytes_, space == MemorySpace::device ? Buffer::Kind::device : Buffer::Kind::host, device_);
    return memory_.data();
  }

 private:
  Buffer memory_;
  std::size_t bytes_ = 0;
  MemorySpace space_ = MemorySpace::host;
  int device_ = 0;
};

/// Where the rows of a field lie: one row for each cell and batch element of the sums, in the order of `Rows::number`.
struct Rows {
  void* data = nullptr;
  // Functions of std::array are none of a device.
  Index extents[max_ndim] = {};
  Index strides[max_ndim] = {};
  int ndim = 0;
  Index number = 1;
  Index row_extent = 1;
  Index row_stride = 0;

  /// Elements from the first one to that of row `row`.
  KOKKOS_INLINE_FUNCTION Index offset(Index row) const {
    Index result = 0;
    for (int a = ndim - 1; a >= 0; --a) {
      result += row % extents[a] * strides[a];
      row /= extents[a];
    }
    return result;
  }
};

/// Grid axes of `part` except the sum axis, then batch axes; the last varies fastest.
inline Rows rows_of(FieldView const& view, Box const& cover, Box const& part, int sum_axis) {
  Rows rows;
  auto const add = [&](Index extent, Index stride) {
    rows.extents[rows.ndim] = extent;
    rows.strides[rows.ndim++] = stride;
    rows.number *= extent;
  };
  Index first = 0;
  for (int a = 0; a < part.ndim(); ++a) {
    Index const stride = view.strides[int(view.grid_axes[a])];
    first += (part.lo(a) - cover.lo(a)) * stride;
    if (a != sum_axis) {
      add(part.extent(a), stride);
      continue;
    }
    rows.row_extent = part.extent(a);
    rows.row_stride = stride;
  }
  for (int m = 0; m < view.ndim(); ++m)
    if (std::find(view.grid_axes.begin(), view.grid_axes.end(), Index(m)) == view.grid_axes.end())
      add(view.extents[m], view.strides[m]);
  if (part.empty()) rows.number = 0;
  rows.data = static_cast<std::byte*>(view.data) + (part.empty() ? 0 : first * size_of(view.dtype));
  return rows;
}

/// Calls `body(i)` for all i below `count` on the space's processors: on the host before it returns, on a device in
/// order of `queue`.
template <class Body>
void for_each_index(MemorySpace space, DeviceQueue const& queue, Index count, Index work_each, Body const& body) {
  if (count == 0) return;
  if (space == MemorySpace::device) {
    launch(queue, "graticule::ring", count, body);
  } else if (count * work_each >= 65536 && Kokkos::is_initialized()) {
    Kokkos::parallel_for("graticule::ring", Kokkos::RangePolicy<HostSpace>(0, count), body);
    HostSpace().fence();
  } else {
    for (Index i = 0; i < count; ++i) body(i);
  }
}

template <class T>
struct SumExactly {
  Rows rows;
  std::int64_t* words;
  KOKKOS_INLINE_FUNCTION void operator()(Index row) const {
    ExactSum<T> sum;
    sum.add(static_cast<T const*>(rows.data) + rows.offset(row), rows.row_extent, rows.row_stride);
    sum.store(words + row * ExactSum<T>::num_words);
  }
};

/// Sums of `together` rows, each in the order of its cells: additions of one row wait for one another.
template <class T, int together>
struct SumPlainly {
  Rows rows;
  double* sums;
  KOKKOS_INLINE_FUNCTION void operator()(Index group) const {
    Index const first = group * together;
    if (first + together <= rows.number) return add<together>(first);
    for (Index row = first; row < rows.number; ++row) add<1>(row);
  }

 private:
  template <int count>
  KOKKOS_INLINE_FUNCTION void add(Index row) const {
    T const* values[count];
    double sum[count];
    for (int r = 0; r < count; ++r) {
      values[r] = static_cast<T const*>(rows.data) + rows.offset(row + r);
      sum[r] = 0;
    }
    for (Index i = 0; i < rows.row_extent; ++i)
      for (int r = 0; r < count; ++r) sum[r] += double(values[r][i * rows.row_stride]);
    for (int r = 0; r < count; ++r) sums[row + r] = sum[r];
  }
};

template <class T>
void sum_plainly(MemorySpace space, DeviceQueue const& queue, Rows const& rows, double* sums) {
  constexpr int together = 8;
  if (space == MemorySpace::device)
    for_each_index(space, queue, rows.number, rows.row_extent, SumPlainly<T, 1>{rows, sums});
  else
    for_each_index(space, queue, (rows.number + together - 1) / together, together * rows.row_extent,
                   SumPlainly<T, together>{rows, sums});
}

/// Totals to values of the field's type, divided by `divisor`.
template <class T>
struct RoundTotals {
  void const* totals;
  T* values;
  double divisor;
  bool exact;
  KOKKOS_INLINE_FUNCTION void operator()(Index row) const {
    T sum;
    if (exact)
      sum = ExactSum<T>(static_cast<std::int64_t const*>(totals) + row * ExactSum<T>::num_words).rounded();
    else
      sum = T(static_cast<double const*>(totals)[row]);
    values[row] = divisor == 1 ? sum : T(double(sum) / divisor);
  }
};

/// Exact totals to double precision.
template <class T>
struct RoundToDouble {
  std::int64_t const* words;
  double* values;
  KOKKOS_INLINE_FUNCTION void operator()(Index row) const {
    values[row] = ExactSum<T>(words + row * ExactSum<T>::num_words).rounded_to_double();
  }
};

/// Rows of one element each to dense values, divided by `divisor`.
template <class T>
struct DivideRows {
  Rows rows;
  T* values;
  double divisor;
  KOKKOS_INLINE_FUNCTION void operator()(Index row) const {
    values[row] = T(double(static_cast<T const*>(rows.data)[rows.offset(row)]) / divisor);
  }
};

/// Calls `action` with a null pointer of the type. @throws `WrongType`
template <class Action>
void with_float(DType dtype, Action const& action) {
  if (dtype == DType::f32) return action(static_cast<float*>(nullptr));
  if (dtype == DType::f64) return action(static_cast<double*>(nullptr));
  throw Error("WrongType", "ring sums of " + to_string(dtype) + ": fields are f32 or f64");
}

}  // namespace graticule::detail
