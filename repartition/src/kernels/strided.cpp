// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/strided.hpp>

#include "element.hpp"
#include "kokkos_compat.hpp"
#include "strided_rows.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define GRATICULE_WIDE_LOOPS 1
#endif
#define GRATICULE_INLINE inline __attribute__((always_inline))

namespace graticule::detail {

namespace {

/// Elements below which starting threads costs more than it saves.
constexpr Index parallel_threshold = 65536;

/// Adds, subtracts or negates a contiguous row. With `clears`, zeroes what it has read.
template <class T, StridedOp op, bool clears>
GRATICULE_INLINE void combine_row(T* to, T* from, Index count) {
  for (Index i = 0; i < count; ++i) {
    T const value = from[i];
    if constexpr (op == StridedOp::copy)
      to[i] = value;
    else
      combine<op>(to[i], value);
    if constexpr (clears) from[i] = T{};
  }
}

#ifdef GRATICULE_WIDE_LOOPS
/// The same operations, element by element, in wider registers.
template <class T, StridedOp op, bool clears>
__attribute__((target("avx2"))) void combine_row_wide(T* to, T* from, Index count) {
  combine_row<T, op, clears>(to, from, count);
}
#endif

/// True where rows of `T` are faster in wider registers: numbers that are added as they are stored.
template <class T>
bool has_wide_rows() {
#ifdef GRATICULE_WIDE_LOOPS
  return !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16> && __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

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
#ifdef GRATICULE_WIDE_LOOPS
    if (has_wide_rows<T>()) return combine_row_wide<T, op, false>(to, const_cast<T*>(from), count);
#endif
    combine_row<T, op, false>(to, const_cast<T*>(from), count);
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
#ifdef GRATICULE_WIDE_LOOPS
    if constexpr (op != StridedOp::fill)
      if (has_wide_rows<T>()) return combine_row_wide<T, op, true>(to, from, count);
#endif
    // Two passes over a row, the second in the cache: each of them is vectorised.
    run_row<T, op>(to, from, count, 1, 1, T{});
    std::memset(static_cast<void*>(from), 0, std::size_t(count) * sizeof(T));
    return;
  }
  for (Index i = 0; i < count; ++i) move(to[i * strides.first], from[i * strides.second]);
}

/// One side of the rows of a plane: the first row, and the distance to the next.
template <class T>
struct PlaneSide {
  T* first;
  Index step;
};

/// Rows of `length` neighbors: each is loaded whole before it is stored, in a few instructions.
template <class T, StridedOp op, int length>
void run_short_rows(PlaneSide<T> to, PlaneSide<T> from, Index count, bool clear) {
  for (Index row = 0; row < count; ++row) {
    auto* const write = to.first + row * to.step;
    auto* const read = from.first + row * from.step;
    std::array<T, std::size_t(length)> values;
    for (int i = 0; i < length; ++i) values[std::size_t(i)] = read[i];
    if constexpr (op != StridedOp::copy)
      for (int i = 0; i < length; ++i) {
        T result = write[i];
        combine<op>(result, values[std::size_t(i)]);
        values[std::size_t(i)] = result;
      }
    if (clear)
      for (int i = 0; i < length; ++i) read[i] = T{};
    for (int i = 0; i < length; ++i) write[i] = values[std::size_t(i)];
  }
}

/// Runs rows of 1 to 8 elements, known to the compiler; false where rows are longer or scattered.
template <class T, StridedOp op>
bool run_if_short(StridedTask const& task, PlaneSide<T> to, PlaneSide<T> from, Index count) {
  auto const inner = std::size_t(task.ndim) - 1;
  if constexpr (op == StridedOp::fill) return false;
  if (task.to_stride[inner] != 1 || task.from_stride[inner] != 1) return false;
  switch (task.extent[inner]) {
    case 1: return run_short_rows<T, op, 1>(to, from, count, task.clear_from), true;
    case 2: return run_short_rows<T, op, 2>(to, from, count, task.clear_from), true;
    case 3: return run_short_rows<T, op, 3>(to, from, count, task.clear_from), true;
    case 4: return run_short_rows<T, op, 4>(to, from, count, task.clear_from), true;
    case 5: return run_short_rows<T, op, 5>(to, from, count, task.clear_from), true;
    case 6: return run_short_rows<T, op, 6>(to, from, count, task.clear_from), true;
    case 7: return run_short_rows<T, op, 7>(to, from, count, task.clear_from), true;
    case 8: return run_short_rows<T, op, 8>(to, from, count, task.clear_from), true;
    default: return false;
  }
}

/// Fetches the beginning of the row that comes next: hardware fetches ahead within a row, and rows of a halo lie planes
/// apart. What is overwritten is not read.
template <class T, StridedOp op>
void fetch_row(T const* to, T const* from, Index count) {
  constexpr Index line = 64 / Index(sizeof(T));
  constexpr Index most_lines = 16;
  if (op == StridedOp::fill || count < most_lines * line) return;
  for (Index i = 0; i < most_lines * line; i += line) __builtin_prefetch(from + i);
  if constexpr (op != StridedOp::copy)
    for (Index i = 0; i < most_lines * line; i += line) __builtin_prefetch(to + i, 1);
}

/// Rows of a plane, `step` apart.
template <class T, StridedOp op>
void run_plane(StridedTask const& task, PlaneSide<T> to, PlaneSide<T> from, Index count) {
  if (run_if_short<T, op>(task, to, from, count)) return;
  auto const inner = std::size_t(task.ndim) - 1;
  auto const strides = std::pair(task.to_stride[inner], task.from_stride[inner]);
  T const value = op == StridedOp::fill ? from_double<T>(task.value) : T{};
  for (Index row = 0; row < count; ++row) {
    auto* const write = to.first + row * to.step;
    auto* const read = from.first + row * from.step;
    if (row + 1 < count && strides == std::pair<Index, Index>(1, 1))
      fetch_row<T, op>(write + to.step, read + from.step, task.extent[inner]);
    if (task.clear_from)
      run_clearing_row<T, op>(write, read, task.extent[inner], strides);
    else
      run_row<T, op>(write, read, task.extent[inner], strides.first, strides.second, value);
  }
}

/// Rows `[first, last)` of a task, plane by plane.
template <class T, StridedOp op>
void run_rows(StridedTask const& task, Index first, Index last) {
  auto* const to = static_cast<T*>(task.to);
  auto* const from = const_cast<T*>(static_cast<T const*>(task.from));
  if (task.ndim == 1) return run_plane<T, op>(task, {to, 0}, {from, 0}, last - first);
  auto const across = std::size_t(task.ndim) - 2;
  Index const extent = task.extent[across];
  Index const to_step = task.to_stride[across];
  Index const from_step = task.from_stride[across];
  RowWalk walk(task, first / extent, 2);
  for (Index row = first; row < last; walk.next()) {
    Index const at = row % extent;
    Index const count = std::min(extent - at, last - row);
    run_plane<T, op>(task, {to + walk.to() + at * to_step, to_step}, {from + walk.from() + at * from_step, from_step},
                     count);
    row += count;
  }
}

Index num_rows(StridedTask const& task, Index elements) { return elements / task.extent[std::size_t(task.ndim) - 1]; }

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

/// Calls `run(first, last)` for parts of `[0, count)`, in parallel if asked for.
template <class Run>
void in_parts(bool parallel, Index count, Run const& run) {
  if (!parallel || count == 1) return run(0, count);
  Index const parts = std::min<Index>(count, Index(host_concurrency()) * 4);
  Kokkos::parallel_for("graticule::strided", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, parts),
                       [=](Index const part) { run(part * count / parts, (part + 1) * count / parts); });
  Kokkos::DefaultHostExecutionSpace().fence();
}

/// Runs all rows of a task of at least one element and one axis, in parallel where that pays.
void run_task(StridedTask task, Rows rows) {
  Index const elements = task.num_elements();
  bool const parallel = elements >= parallel_threshold && Kokkos::is_initialized() && host_concurrency() > 1;
  if (is_permuted(task)) {
    Tiles const tiles(task);
    return in_parts(parallel, tiles.num_patches(),
                    [tiles, rows](Index first, Index last) { tiles.run(rows, first, last); });
  }
  if (parallel) task = split_row(task);
  Index const together = rows_of_one_sum(task);
  Index const groups = num_rows(task, elements) / together;
  in_parts(parallel, groups, [=](Index first, Index last) { rows(task, first * together, last * together); });
}

Rows copy_rows(Index element_bytes) {
  switch (element_bytes) {
    case 1: return run_rows<std::uint8_t, StridedOp::copy>;
    case 2: return run_rows<std::uint16_t, StridedOp::copy>;
    case 4: return run_rows<std::uint32_t, StridedOp::copy>;
    case 8: return run_rows<std::uint64_t, StridedOp::copy>;
    default: return run_rows<Complex<double>, StridedOp::copy>;
  }
}

template <class T>
Rows rows_of(StridedOp op) {
  switch (op) {
    case StridedOp::copy: return copy_rows(sizeof(T));
    case StridedOp::negate: return run_rows<T, StridedOp::negate>;
    case StridedOp::add: return run_rows<T, StridedOp::add>;
    case StridedOp::subtract: return run_rows<T, StridedOp::subtract>;
    case StridedOp::fill: return run_rows<T, StridedOp::fill>;
    case StridedOp::transform: return run_transform_rows;
  }
  return nullptr;
}

Rows rows_of(StridedTask const& task) {
  Rows rows = nullptr;
  with_type(task.dtype, [&]<class T>(T*) { rows = rows_of<T>(task.op); });
  return rows;
}

void run_one(StridedTask const& task) {
  if (task.ndim == 0) {
    auto one = task;
    one.ndim = 1;
    one.extent[0] = 1;
    return rows_of(one)(one, 0, 1);
  }
  Index const elements = task.num_elements();
  if (elements == 0) return;
  // A short task costs little more than its cells: it is neither copied nor asked how it might run faster.
  if (elements < fewest_permuted) return rows_of(task)(task, 0, num_rows(task, elements));
  if (!can_stream(task)) return run_task(task, rows_of(task));
  run_task(is_permuted(task) ? task : in_order_of_source(task), stream_rows);
}

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
      task.extent[0] = std::min(step, outer - first);
      task.to = static_cast<std::byte*>(task.to) + first * task.to_stride[0] * size_of(task.dtype);
      if (task.from)
        task.from = static_cast<std::byte const*>(task.from) + first * task.from_stride[0] * size_of(task.from_dtype);
      run_one(task);
    }
  };
  Index const num_slabs = (outer + step - 1) / step;
  if (num_slabs == 1) {
    for (auto const& task : tasks) run_one(task);
    return;
  }
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
