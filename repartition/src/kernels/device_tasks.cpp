// SPDX-License-Identifier: BSD-3-Clause
#include "device_tasks.hpp"

#include <graticule/repartition/detail/device_launch.hpp>

#include "transform.hpp"

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
  num_tasks_ = tasks.size();
  std::memcpy(pinned_.data(), tasks.data(), tasks.size_bytes());
  auto* const ends = reinterpret_cast<Index*>(pinned_.data() + tasks.size_bytes());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    bool const joins = t > 0 && !is_ordered(tasks[t]) && !is_ordered(tasks[t - 1]);
    if (!joins) launches_.push_back({Index(t), Index(t), 0});
    auto& launch = launches_.back();
    launch.last = Index(t) + 1;
    launch.num_threads += num_threads_of(tasks[t]);
    ends[t] = launch.num_threads;
  }
  copy_to_device(queue, device_.data(), pinned_.data(), tasks.size() * task_bytes);
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
