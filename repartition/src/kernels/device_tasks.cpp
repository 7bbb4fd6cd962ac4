// SPDX-License-Identifier: BSD-3-Clause
#include "device_tasks.hpp"

#include <graticule/repartition/detail/device_launch.hpp>

#include "transform.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace graticule::detail {

namespace {

/// Calls `term(to, from)` with the offsets of one cell of `to` and of each element that goes there, in order.
template <class Term>
KOKKOS_INLINE_FUNCTION void for_each_term(StridedTask const& task, Index element, Term const& term) {
  Index to = 0;
  Index from = 0;
  int const num_free = task.ndim - task.num_sum_axes;
  for (int a = num_free - 1; a >= 0; --a) {
    Index const at = element % task.extent[a];
    element /= task.extent[a];
    to += at * task.to_stride[a];
    from += at * task.from_stride[a];
  }
  Index terms = 1;
  for (int a = num_free; a < task.ndim; ++a) terms *= task.extent[a];
  for (Index t = 0; t < terms; ++t) {
    Index source = from;
    Index rest = t;
    for (int a = task.ndim - 1; a >= num_free; --a) {
      source += rest % task.extent[a] * task.from_stride[a];
      rest /= task.extent[a];
    }
    term(to, source);
  }
}

/// One thread for each cell of `to`; the sum axes run inside it, in order.
template <class T>
KOKKOS_INLINE_FUNCTION void run_element(StridedTask const& task, Index element) {
  for_each_term(task, element, [&](Index to, Index from) {
    T& cell = static_cast<T*>(task.to)[to];
    T const* value = static_cast<T const*>(task.from) + from;
    switch (task.op) {
      case StridedOp::copy: cell = *value; break;
      case StridedOp::negate: combine<StridedOp::negate>(cell, *value); break;
      case StridedOp::add: combine<StridedOp::add>(cell, *value); break;
      case StridedOp::subtract: combine<StridedOp::subtract>(cell, *value); break;
      case StridedOp::fill: cell = from_double<T>(task.value); break;
      case StridedOp::transform: break;
    }
    if (task.clear_from) *const_cast<T*>(value) = T{};
  });
}

/// As `run_element`, for transforms.
KOKKOS_INLINE_FUNCTION void transform_element(StridedTask const& task, Index element) {
  auto const& transform = task.transform;
  bool const packed = !is_complex(task.dtype);
  double const from_fill = packed ? rounded_fill(transform.from, task.from_dtype) : 0;
  bool const reads = transform.beta[0] != 0 || transform.beta[1] != 0;
  Wide sum{0, 0};
  Index cell = 0;
  bool first = true;
  for_each_term(task, element, [&](Index to, Index from) {
    cell = to;
    Wide value = load_element(task.from_dtype, task.from, from);
    if (packed) value.real = unpacked(transform.from, from_fill, value.real);
    if (transform.conjugate) value.imag = -value.imag;
    value = times(transform.alpha, value);
    if (first && reads) {
      sum = load_element(task.dtype, task.to, to);
      if (packed) sum.real = unpacked(transform.to, rounded_fill(transform.to, task.dtype), sum.real);
      sum = times(transform.beta, sum);
    }
    sum = first && !reads ? value : Wide{sum.real + value.real, sum.imag + value.imag};
    first = false;
    if (task.clear_from) store_element(task.from_dtype, const_cast<void*>(task.from), from, {0, 0});
  });
  if (packed) sum.real = packed_as(transform.to, sum.real);
  store_element(task.dtype, task.to, cell, sum);
}

Index num_threads_of(StridedTask const& task) {
  Index result = 1;
  for (int a = 0; a < task.ndim - task.num_sum_axes; ++a) result *= task.extent[std::size_t(a)];
  return task.num_elements() == 0 ? 0 : result;
}

/// Bytes from the first to the last element of one side of a task.
struct Reach {
  std::intptr_t begin = 0;
  std::intptr_t end = 0;

  [[nodiscard]] bool meets(Reach const& other) const noexcept { return begin < other.end && other.begin < end; }
};

Reach reach_of(StridedTask const& task, void const* first, std::array<Index, max_ndim> const& strides, DType dtype) {
  auto const size = std::intptr_t(size_of(dtype));
  auto const start = reinterpret_cast<std::intptr_t>(first);
  if (task.num_elements() == 0) return {start, start};
  Reach reach{start, start + size};
  for (int a = 0; a < task.ndim; ++a) {
    auto const length = std::intptr_t((task.extent[std::size_t(a)] - 1) * strides[std::size_t(a)]) * size;
    (length < 0 ? reach.begin : reach.end) += length;
  }
  return reach;
}

/// Of each of some tasks whose order matters, the first launch that it may be part of: one after all earlier tasks
/// whose memory it may share.
std::vector<std::size_t> launches_of(std::span<StridedTask const> tasks) {
  // Compared in pairs; so many tasks fill a device by themselves.
  constexpr std::size_t most_compared = 1024;
  std::vector<std::size_t> launch(tasks.size());
  std::vector<Reach> written;
  std::vector<Reach> read;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    auto const& task = tasks[t];
    written.push_back(reach_of(task, task.to, task.to_stride, task.dtype));
    read.push_back(reach_of(task, task.from, task.from_stride, task.from_dtype));
    launch[t] = tasks.size() > most_compared ? t : 0;
    for (std::size_t e = 0; e < t && tasks.size() <= most_compared; ++e) {
      bool const clears = task.clear_from || tasks[e].clear_from;
      bool const shares = written[t].meets(written[e]) || written[t].meets(read[e]) || read[t].meets(written[e]) ||
                          (clears && read[t].meets(read[e]));
      if (shares) launch[t] = std::max(launch[t], launch[e] + 1);
    }
  }
  return launch;
}

/// The tasks from `first` on that are alike: whose order matters, or does not.
std::span<StridedTask const> next_run(std::span<StridedTask const> tasks, std::size_t first) {
  auto last = first + 1;
  while (last < tasks.size() && is_ordered(tasks[last]) == is_ordered(tasks[first])) ++last;
  return tasks.subspan(first, last - first);
}

/// Thread `i` of a launch: finds its task, and the cell in it.
struct RunTasks {
  StridedTask const* tasks;
  Index const* ends;
  Index first;
  Index last;

  KOKKOS_INLINE_FUNCTION void operator()(Index thread) const {
    Index low = first;
    Index high = last - 1;
    while (low < high) {
      Index const middle = (low + high) / 2;
      if (thread < ends[middle])
        high = middle;
      else
        low = middle + 1;
    }
    StridedTask const& task = tasks[low];
    Index const element = low == first ? thread : thread - ends[low - 1];
    if (task.op == StridedOp::transform)
      transform_element(task, element);
    else
      with_type(task.dtype, [&]<class T>(T*) { run_element<T>(task, element); });
  }
};

}  // namespace

void DeviceTasks::set(std::span<StridedTask const> tasks, DeviceQueue const& queue) {
  launches_.clear();
  if (tasks.empty()) return;
  fence(queue);
  constexpr std::size_t task_bytes = sizeof(StridedTask) + sizeof(Index);
  if (capacity_ < tasks.size()) {
    device_ = Buffer(tasks.size() * task_bytes, Buffer::Kind::device, queue.device());
    pinned_ = Buffer(tasks.size() * task_bytes, Buffer::Kind::pinned);
    capacity_ = tasks.size();
  }
  static_assert(std::is_trivially_copyable_v<StridedTask>);
  static_assert(sizeof(StridedTask) % alignof(Index) == 0 && alignof(StridedTask) <= alignof(Index));
  num_tasks_ = 0;
  while (num_tasks_ < tasks.size()) add_launches(tasks, next_run(tasks, num_tasks_));
  copy_to_device(queue, device_.data(), pinned_.data(), tasks.size() * task_bytes);
}

void DeviceTasks::add_launches(std::span<StridedTask const> all, std::span<StridedTask const> tasks) {
  auto const launch_of = is_ordered(tasks.front()) ? launches_of(tasks) : std::vector<std::size_t>(tasks.size(), 0);
  auto* const held = reinterpret_cast<StridedTask*>(pinned_.data());
  auto* const ends = reinterpret_cast<Index*>(pinned_.data() + all.size_bytes());
  auto const num_launches = *std::max_element(launch_of.begin(), launch_of.end()) + 1;
  for (std::size_t number = 0; number < num_launches; ++number) {
    launches_.push_back({Index(num_tasks_), Index(num_tasks_), 0});
    auto& launch = launches_.back();
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (launch_of[t] != number) continue;
      std::memcpy(held + num_tasks_, &tasks[t], sizeof tasks[t]);
      launch.num_threads += num_threads_of(tasks[t]);
      ends[num_tasks_] = launch.num_threads;
      launch.last = Index(++num_tasks_);
    }
  }
}

void DeviceTasks::run(DeviceQueue const& queue) const {
  auto const* const tasks = reinterpret_cast<StridedTask const*>(device_.data());
  for (auto const& group : launches_) {
    if (group.num_threads == 0) continue;
    auto const* const ends = reinterpret_cast<Index const*>(tasks + num_tasks_);
    launch(queue, "graticule::strided", group.num_threads, RunTasks{tasks, ends, group.first, group.last});
  }
}

void run_strided_device(std::span<StridedTask const> tasks, DeviceQueue const& queue) {
  auto const& order = queue_of_call(queue);
  DeviceTasks on_device;
  on_device.set(tasks, order);
  on_device.run(order);
  fence(order);
}

}  // namespace graticule::detail
