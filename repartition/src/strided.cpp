// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/strided.hpp>

#include "element.hpp"
#include "kokkos_compat.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
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

/// Slowest axis first: by distance in `to`, then in `from`; axes that do not move in `to` come last, in the order given,
/// so that the order of a sum does not depend on how its terms lie in memory.
bool slower(Axis const& a, Axis const& b) {
  if (a.to == 0 || b.to == 0) return a.to != 0;
  if (std::abs(a.to) != std::abs(b.to)) return std::abs(a.to) > std::abs(b.to);
  return std::abs(a.from) > std::abs(b.from);
}

bool mergeable(Axis const& outer, Axis const& inner) {
  return (outer.to == 0) == (inner.to == 0) && outer.to == inner.to * inner.extent &&
         outer.from == inner.from * inner.extent;
}

}  // namespace

StridedTask make_strided(StridedOp op, DType dtype, Indices const& extents, void* to, Indices const& to_strides,
                         void const* from, Indices const& from_strides, double value) {
  std::array<Axis, max_ndim> axes{};
  int count = 0;
  bool empty = false;
  for (int a = 0; a < extents.size(); ++a) {
    if (extents[a] <= 0) empty = true;
    if (extents[a] == 1) continue;
    axes[std::size_t(count++)] = {extents[a], to_strides[a], op == StridedOp::fill ? 0 : from_strides[a]};
  }
  // Insertion sort: stable, and free of the warnings that std::sort draws on arrays this short.
  for (int i = 1; i < count; ++i)
    for (int j = i; j > 0 && slower(axes[std::size_t(j)], axes[std::size_t(j) - 1]); --j)
      std::swap(axes[std::size_t(j)], axes[std::size_t(j) - 1]);
  StridedTask task;
  task.to = to;
  task.from = from;
  task.dtype = dtype;
  task.op = op;
  task.value = value;
  if (empty) {
    task.ndim = 1;
    return task;
  }
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
  return task;
}

namespace {

/// Elements below which starting threads costs more than it saves.
constexpr Index parallel_threshold = 65536;

template <class T, StridedOp op>
void run_row(T* to, T const* from, Index count, Index to_stride, Index from_stride, T value) {
  if constexpr (op == StridedOp::copy) {
    if (to_stride == 1 && from_stride == 1 && count >= 8) {
      std::memcpy(to, from, std::size_t(count) * sizeof(T));
      return;
    }
    for (Index i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  } else if constexpr (op == StridedOp::fill) {
    for (Index i = 0; i < count; ++i) to[i * to_stride] = value;
  } else if (to_stride == 1 && from_stride == 1) {
    for (Index i = 0; i < count; ++i) combine<op>(to[i], from[i]);
  } else {
    for (Index i = 0; i < count; ++i) combine<op>(to[i * to_stride], from[i * from_stride]);
  }
}

/// As `run_row`, and zeroes what it has read.
template <class T, StridedOp op>
void run_clearing_row(T* to, T* from, Index count, std::pair<Index, Index> strides) {
  auto const move = [](T& target, T& source) {
    if constexpr (op == StridedOp::copy)
      target = source;
    else if constexpr (op != StridedOp::fill)
      combine<op>(target, source);
    source = T{};
  };
  if (strides == std::pair<Index, Index>(1, 1)) {
    // Two passes over a row, the second in the cache: each of them is vectorised.
    run_row<T, op>(to, from, count, 1, 1, T{});
    std::memset(static_cast<void*>(from), 0, std::size_t(count) * sizeof(T));
    return;
  }
  for (Index i = 0; i < count; ++i) move(to[i * strides.first], from[i * strides.second]);
}

/// Rows `[first, last)` of a task, where a row is its fastest axis.
template <class T, StridedOp op>
void run_rows(StridedTask const& task, Index first, Index last) {
  auto const inner = std::size_t(task.ndim) - 1;
  std::array<Index, max_ndim> at{};
  Index to = 0;
  Index from = 0;
  Index rest = first;
  for (int a = task.ndim - 2; a >= 0; --a) {
    auto const k = std::size_t(a);
    at[k] = rest % task.extent[k];
    rest /= task.extent[k];
    to += at[k] * task.to_stride[k];
    from += at[k] * task.from_stride[k];
  }
  T const value = op == StridedOp::fill ? from_double<T>(task.value) : T{};
  for (Index row = first; row < last; ++row) {
    auto* const write = static_cast<T*>(task.to) + to;
    auto const* const read = static_cast<T const*>(task.from) + from;
    auto const strides = std::pair(task.to_stride[inner], task.from_stride[inner]);
    if (task.clear_from)
      run_clearing_row<T, op>(write, const_cast<T*>(read), task.extent[inner], strides);
    else
      run_row<T, op>(write, read, task.extent[inner], strides.first, strides.second, value);
    for (int a = task.ndim - 2; a >= 0; --a) {
      auto const k = std::size_t(a);
      to += task.to_stride[k];
      from += task.from_stride[k];
      if (++at[k] < task.extent[k]) break;
      to -= task.extent[k] * task.to_stride[k];
      from -= task.extent[k] * task.from_stride[k];
      at[k] = 0;
    }
  }
}

/// Splits one long row in two axes, so that threads can share it.
StridedTask split_row(StridedTask const& task) {
  constexpr Index piece = 16384;
  if (task.ndim != 1 || task.num_sum_axes > 0 || task.extent[0] % piece != 0) return task;
  StridedTask result = task;
  result.ndim = 2;
  result.extent = {task.extent[0] / piece, piece};
  result.to_stride = {task.to_stride[0] * piece, task.to_stride[0]};
  result.from_stride = {task.from_stride[0] * piece, task.from_stride[0]};
  return result;
}

template <class T, StridedOp op>
void run_task(StridedTask task) {
  if (task.ndim == 0) {
    task.ndim = 1;
    task.extent[0] = 1;
  }
  Index const elements = task.num_elements();
  if (elements == 0) return;
  bool const parallel = elements >= parallel_threshold && Kokkos::is_initialized() && host_concurrency() > 1;
  if (parallel) task = split_row(task);
  auto const inner = std::size_t(task.ndim) - 1;
  Index const rows = elements / task.extent[inner];
  // Rows that add to the same cells stay with one thread.
  Index rows_together = 1;
  for (int a = task.ndim - task.num_sum_axes; a < task.ndim - 1; ++a) rows_together *= task.extent[std::size_t(a)];
  if (!parallel || rows == rows_together) {
    run_rows<T, op>(task, 0, rows);
    return;
  }
  Index const groups = rows / rows_together;
  Index const chunks = std::min<Index>(groups, Index(host_concurrency()) * 4);
  Kokkos::parallel_for(
      "graticule::strided", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, chunks), [=](Index const chunk) {
        run_rows<T, op>(task, chunk * groups / chunks * rows_together, (chunk + 1) * groups / chunks * rows_together);
      });
  Kokkos::DefaultHostExecutionSpace().fence();
}

void run_copy(StridedTask const& task) {
  switch (size_of(task.dtype)) {
    case 1: return run_task<std::uint8_t, StridedOp::copy>(task);
    case 2: return run_task<std::uint16_t, StridedOp::copy>(task);
    case 4: return run_task<std::uint32_t, StridedOp::copy>(task);
    case 8: return run_task<std::uint64_t, StridedOp::copy>(task);
    default: return run_task<Complex<double>, StridedOp::copy>(task);
  }
}

template <class T>
void run_typed(StridedTask const& task) {
  switch (task.op) {
    case StridedOp::negate: return run_task<T, StridedOp::negate>(task);
    case StridedOp::add: return run_task<T, StridedOp::add>(task);
    case StridedOp::subtract: return run_task<T, StridedOp::subtract>(task);
    case StridedOp::fill: return run_task<T, StridedOp::fill>(task);
    case StridedOp::copy: return;
  }
}

}  // namespace

namespace {

void run_one(StridedTask const& task) {
  if (task.op == StridedOp::copy)
    run_copy(task);
  else
    with_type(task.dtype, [&]<class T>(T*) { run_typed<T>(task); });
}

/// Rows so short or so scattered that whole cache lines are moved for single elements.
bool has_thin_rows(StridedTask const& task) {
  if (task.ndim == 0 || task.num_sum_axes > 0 || task.num_elements() == 0) return false;
  constexpr Index short_row = 8;
  auto const inner = std::size_t(task.ndim) - 1;
  bool const scattered = task.to_stride[inner] != 1 || (task.op != StridedOp::fill && task.from_stride[inner] != 1);
  return scattered || (task.ndim > 1 && task.extent[inner] < short_row);
}

}  // namespace

bool is_thin(StridedTask const& task) { return !is_ordered(task) && has_thin_rows(task); }

namespace {

bool alike(StridedTask const& a, StridedTask const& b) {
  return a.ndim == b.ndim && a.extent == b.extent && is_thin(b);
}

/// Thin tasks of one shape, slab by slab: the west and the east column of a row often share cache lines, which are then
/// moved once instead of once a task.
void run_together(std::span<StridedTask const> tasks) {
  constexpr Index slab_elements = 2048;
  auto const& shape = tasks.front();
  Index const outer = shape.extent[0];
  Index const step = std::clamp<Index>(slab_elements * outer / std::max<Index>(shape.num_elements(), 1), 1, outer);
  auto const run_slab = [=](Index const slab) {
    Index const first = slab * step;
    for (auto task : tasks) {
      Index const bytes = size_of(task.dtype);
      task.extent[0] = std::min(step, outer - first);
      task.to = static_cast<std::byte*>(task.to) + first * task.to_stride[0] * bytes;
      if (task.from) task.from = static_cast<std::byte const*>(task.from) + first * task.from_stride[0] * bytes;
      run_one(task);
    }
  };
  Index const num_slabs = (outer + step - 1) / step;
  if (shape.num_elements() >= parallel_threshold && Kokkos::is_initialized() && host_concurrency() > 1) {
    Kokkos::parallel_for("graticule::strided_together",
                         Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, num_slabs), run_slab);
    Kokkos::DefaultHostExecutionSpace().fence();
    return;
  }
  for (Index slab = 0; slab < num_slabs; ++slab) run_slab(slab);
}

}  // namespace

void run_strided_host(std::span<StridedTask const> tasks) {
  for (std::size_t first = 0; first < tasks.size();) {
    std::size_t last = first + 1;
    if (is_thin(tasks[first]))
      while (last < tasks.size() && alike(tasks[first], tasks[last])) ++last;
    if (last - first > 1)
      run_together(tasks.subspan(first, last - first));
    else
      run_one(tasks[first]);
    first = last;
  }
}

}  // namespace graticule::detail
