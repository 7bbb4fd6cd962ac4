// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/strided.hpp>

#include "element.hpp"
#include "strided_rows.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace graticule::detail {

Index StridedTask::num_elements() const noexcept {
  Index result = 1;
  for (int a = 0; a < ndim; ++a) result *= extent[std::size_t(a)];
  return result;
}

namespace {

struct Axis {
  Index extent;
  Index to;
  Index from;
};

/// Slowest axis first: by distance in `to`, then in `from`; axes that do not move in `to` come last, in the order
/// given, so that the order of a sum does not depend on how its terms lie in memory.
bool slower(Axis const& a, Axis const& b) {
  if (a.to == 0 || b.to == 0) return a.to != 0;
  if (std::abs(a.to) != std::abs(b.to)) return std::abs(a.to) > std::abs(b.to);
  return std::abs(a.from) > std::abs(b.from);
}

bool mergeable(Axis const& outer, Axis const& inner) {
  return (outer.to == 0) == (inner.to == 0) && outer.to == inner.to * inner.extent &&
         outer.from == inner.from * inner.extent;
}

/// Sorts and merges the axes of a box into `task`.
void set_axes(StridedTask& task, Indices const& extents, Indices const& to_strides, Indices const& from_strides) {
  std::array<Axis, max_ndim> axes{};
  int count = 0;
  for (int a = 0; a < extents.size(); ++a) {
    if (extents[a] <= 0) {
      task.ndim = 1;  // of extent 0
      return;
    }
    if (extents[a] == 1) continue;
    axes[std::size_t(count++)] = {extents[a], to_strides[a], task.op == StridedOp::fill ? 0 : from_strides[a]};
  }
  // Insertion sort: stable, and free of the warnings that std::sort draws on arrays this short.
  for (int i = 1; i < count; ++i)
    for (int j = i; j > 0 && slower(axes[std::size_t(j)], axes[std::size_t(j) - 1]); --j)
      std::swap(axes[std::size_t(j)], axes[std::size_t(j) - 1]);
  for (int i = 0; i < count; ++i) {
    auto const& axis = axes[std::size_t(i)];
    auto const last = std::size_t(task.ndim) - 1;
    if (task.ndim > 0 && mergeable({task.extent[last], task.to_stride[last], task.from_stride[last]}, axis)) {
      task.extent[last] *= axis.extent;
      task.to_stride[last] = axis.to;
      task.from_stride[last] = axis.from;
    } else {
      task.extent[last + 1] = axis.extent;
      task.to_stride[last + 1] = axis.to;
      task.from_stride[last + 1] = axis.from;
      ++task.ndim;
    }
  }
  for (int a = 0; a < task.ndim; ++a) task.num_sum_axes += task.to_stride[std::size_t(a)] == 0 ? 1 : 0;
}

bool is_real(double const (&factor)[2], double value) { return factor[0] == value && factor[1] == 0; }

/// The plain operation that a transform is, if it is one.
StridedOp simplified(Transform const& transform, DType to, DType from) {
  bool const plain = transform.from.is_trivial() && transform.to.is_trivial();
  if (to != from || transform.conjugate || !(plain || transform.from == transform.to)) return StridedOp::transform;
  bool const overwrites = is_real(transform.beta, 0);
  if (overwrites && is_real(transform.alpha, 1)) return StridedOp::copy;
  if (!plain) return StridedOp::transform;
  if (overwrites && is_real(transform.alpha, -1)) return StridedOp::negate;
  if (is_real(transform.beta, 1) && is_real(transform.alpha, 1)) return StridedOp::add;
  if (is_real(transform.beta, 1) && is_real(transform.alpha, -1)) return StridedOp::subtract;
  return StridedOp::transform;
}

/// The rules of `make_transform`.
void check(Transform const& transform, DType to, DType from) {
  if (is_complex(to) != is_complex(from))
    throw Error("Conversion", to_string(from) + " cannot become " + to_string(to));
  if (!is_complex(to) && (transform.alpha[1] != 0 || transform.beta[1] != 0))
    throw Error("Conversion", "factors of " + to_string(from) + " must be real, got a complex one");
  if (is_complex(to) && !(transform.from.is_trivial() && transform.to.is_trivial()))
    throw Error("Conversion", "complex numbers cannot be packed");
}

}  // namespace

StridedTask make_strided(StridedOp op, DType dtype, Indices const& extents, void* to, Indices const& to_strides,
                         void const* from, Indices const& from_strides, double value) {
  StridedTask task;
  task.to = to;
  task.from = from;
  task.dtype = dtype;
  task.from_dtype = dtype;
  task.op = op;
  task.value = value;
  set_axes(task, extents, to_strides, from_strides);
  return task;
}

StridedTask make_transform(Transform const& transform, Indices const& extents, Elements const& to,
                           Elements const& from) {
  check(transform, to.dtype, from.dtype);
  StridedTask task;
  task.to = to.first;
  task.from = from.first;
  task.dtype = to.dtype;
  task.from_dtype = from.dtype;
  task.transform = transform;
  task.transform.conjugate = transform.conjugate && is_complex(to.dtype);
  task.op = simplified(task.transform, to.dtype, from.dtype);
  set_axes(task, extents, to.strides, from.strides);
  if (task.num_sum_axes > 0 && !is_real(transform.beta, 1))
    throw Error("Conversion", "sums need a beta of 1, got " + std::to_string(transform.beta[0]));
  return task;
}

/// Rows so short or so scattered that whole cache lines are moved for single elements.
bool is_thin(StridedTask const& task) {
  if (is_ordered(task) || task.ndim == 0 || task.num_sum_axes > 0 || task.num_elements() == 0 || is_permuted(task))
    return false;
  constexpr Index short_row = 8;
  auto const inner = std::size_t(task.ndim) - 1;
  bool const scattered = task.to_stride[inner] != 1 || (task.op != StridedOp::fill && task.from_stride[inner] != 1);
  return scattered || (task.ndim > 1 && task.extent[inner] < short_row);
}

}  // namespace graticule::detail
