// SPDX-License-Identifier: BSD-3-Clause
#include "device_tasks.hpp"

#include <graticule/repartition/detail/device_launch.hpp>

#include "transform.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace graticule::detail {

namespace {

/// Division by a constant, of numbers below 2^31, by a product and a shift: integer division takes tens of instructions
/// on a GPU.
struct Divisor {
  std::uint32_t factor = 0;
  std::uint32_t shift = 0;
};

/// @pre 0 < divisor < 2^31
Divisor divisor_of(Index divisor) {
  // factor = 2^shift / divisor, rounded up; the excess, below 2^(shift - 31) in the product, never reaches the
  // quotient.
  auto const bits = std::uint32_t(std::bit_width(std::uint64_t(divisor - 1)));
  auto const shift = 31 + bits;
  return {std::uint32_t(((std::uint64_t(1) << shift) + std::uint64_t(divisor) - 1) / std::uint64_t(divisor)), shift};
}

KOKKOS_INLINE_FUNCTION std::uint32_t quotient(std::uint32_t number, Divisor const& by) {
  return std::uint32_t((std::uint64_t(number) * by.factor) >> by.shift);
}

/// Axes of plain copies whose offsets are found without a loop, with what they need in registers.
constexpr int num_short_axes = 3;
/// Elements of a task that are counted by `Divisor`.
constexpr Index most_narrow = (Index(1) << 31U) - 1;

/// A task as kernels read it: without std::array, whose functions are none of a device.
struct DeviceTask {
  void* to = nullptr;
  void const* from = nullptr;
  Index extent[max_ndim] = {};  ///< of a plain copy, in words, as strides
  Index to_stride[max_ndim] = {};
  Index from_stride[max_ndim] = {};
  Divisor by[max_ndim] = {};
  Index num_elements = 0;  ///< that are written
  std::int32_t ndim = 0;
  std::int32_t num_sum_axes = 0;
  std::int32_t word = 0;  ///< bytes of a word of a plain copy; 0: another task
  bool narrow = false;    ///< `by` may be used
  bool is_short = false;  ///< may be a `ShortTask`
  bool clear_from = false;
  bool continues = false;  ///< the next task adds to the same cells: the same threads run it afterwards
  DType dtype = DType::f64;
  DType from_dtype = DType::f64;
  StridedOp op = StridedOp::copy;
  double value = 0;
  Unfit* unfit = nullptr;
  Transform transform;
};

/// A task of at most `num_short_axes` axes without conversion, of which many fit into the arguments of a launch.
struct ShortTask {
  void* to = nullptr;
  void const* from = nullptr;
  double value = 0;
  Index to_stride[num_short_axes] = {};
  Index from_stride[num_short_axes] = {};
  Divisor by[num_short_axes] = {};
  std::uint32_t extent[num_short_axes] = {};
  DType dtype = DType::f64;
  StridedOp op = StridedOp::copy;
  std::uint8_t word = 0;  ///< as in `DeviceTask`, as what follows
  bool clear_from = false;
  bool continues = false;
};

/// Offsets of one element, free axes only.
struct Offsets {
  Index to = 0;
  Index from = 0;
};

KOKKOS_INLINE_FUNCTION Offsets offsets_of(DeviceTask const& task, Index element) {
  Offsets result;
  if (task.narrow) {
    auto rest = std::uint32_t(element);
    for (int a = task.ndim - task.num_sum_axes - 1; a > 0; --a) {
      auto const next = quotient(rest, task.by[a]);
      auto const at = Index(rest - next * std::uint32_t(task.extent[a]));
      result.to += at * task.to_stride[a];
      result.from += at * task.from_stride[a];
      rest = next;
    }
    if (task.ndim > task.num_sum_axes) {
      result.to += Index(rest) * task.to_stride[0];
      result.from += Index(rest) * task.from_stride[0];
    }
    return result;
  }
  for (int a = task.ndim - task.num_sum_axes - 1; a >= 0; --a) {
    Index const at = element % task.extent[a];
    element /= task.extent[a];
    result.to += at * task.to_stride[a];
    result.from += at * task.from_stride[a];
  }
  return result;
}

/// Calls `term(to, from)` with the offsets of one cell of `to` and of each element that goes there, in order.
template <class Term>
KOKKOS_INLINE_FUNCTION void for_each_term(DeviceTask const& task, Index element, Term const& term) {
  auto const offsets = offsets_of(task, element);
  int const num_free = task.ndim - task.num_sum_axes;
  Index terms = 1;
  for (int a = num_free; a < task.ndim; ++a) terms *= task.extent[a];
  for (Index i = 0; i < terms; ++i) {
    Index source = offsets.from;
    Index rest = i;
    for (int a = task.ndim - 1; a >= num_free; --a) {
      source += rest % task.extent[a] * task.from_stride[a];
      rest /= task.extent[a];
    }
    term(offsets.to, source);
  }
}

/// The offsets in a task of `num_short_axes` axes.
struct ShortOffsets {
  Divisor by2;
  Divisor by1;
  std::uint32_t extent2;
  std::uint32_t extent1;
  Index to[num_short_axes];
  Index from[num_short_axes];

  template <class Task>
  KOKKOS_INLINE_FUNCTION explicit ShortOffsets(Task const& task)
      : by2(task.by[2]),
        by1(task.by[1]),
        extent2(std::uint32_t(task.extent[2])),
        extent1(std::uint32_t(task.extent[1])),
        to{task.to_stride[0], task.to_stride[1], task.to_stride[2]},
        from{task.from_stride[0], task.from_stride[1], task.from_stride[2]} {}

  KOKKOS_INLINE_FUNCTION Offsets operator()(Index element) const {
    auto const number = std::uint32_t(element);
    auto const row = quotient(number, by2);
    auto const plane = quotient(row, by1);
    auto const i2 = Index(number - row * extent2);
    auto const i1 = Index(row - plane * extent1);
    return {plane * to[0] + i1 * to[1] + i2 * to[2], plane * from[0] + i1 * from[1] + i2 * from[2]};
  }
};

/// One word. Several in a thread, with their loads under way together, take registers for which fewer threads run: on
/// an H200, 2 words were 9 % slower, 4 words 25 %.
template <class Word, class Task>
KOKKOS_INLINE_FUNCTION void copy_word(Task const& task, Offsets const& offsets) {
  static_cast<Word*>(task.to)[offsets.to] = static_cast<Word const*>(task.from)[offsets.from];
}

struct alignas(16) TwoWords {
  std::uint64_t words[2];
};

template <class Task>
KOKKOS_INLINE_FUNCTION void copy_any_word(Task const& task, Offsets const& offsets) {
  switch (task.word) {
    case 1: return copy_word<std::uint8_t>(task, offsets);
    case 2: return copy_word<std::uint16_t>(task, offsets);
    case 4: return copy_word<std::uint32_t>(task, offsets);
    case 8: return copy_word<std::uint64_t>(task, offsets);
    default: return copy_word<TwoWords>(task, offsets);
  }
}

KOKKOS_INLINE_FUNCTION void copy_word(DeviceTask const& task, Index thread) {
  copy_any_word(task, task.is_short ? ShortOffsets(task)(thread) : offsets_of(task, thread));
}

/// One element that goes to one cell.
template <class T, class Task>
KOKKOS_INLINE_FUNCTION void apply(Task const& task, Offsets const& offsets) {
  T& cell = static_cast<T*>(task.to)[offsets.to];
  T const* value = static_cast<T const*>(task.from) + offsets.from;
  switch (task.op) {
    case StridedOp::copy: cell = *value; break;
    case StridedOp::negate: combine<StridedOp::negate>(cell, *value); break;
    case StridedOp::add: combine<StridedOp::add>(cell, *value); break;
    case StridedOp::subtract: combine<StridedOp::subtract>(cell, *value); break;
    case StridedOp::fill: cell = from_double<T>(task.value); break;
    case StridedOp::transform: break;
  }
  if (task.clear_from) *const_cast<T*>(value) = T{};
}

/// One cell of `to`; the sum axes run inside it, in order.
template <class T>
KOKKOS_INLINE_FUNCTION void run_element(DeviceTask const& task, Index element) {
  for_each_term(task, element, [&](Index to, Index from) { apply<T>(task, Offsets{to, from}); });
}

/// As `run_element`, for transforms.
KOKKOS_INLINE_FUNCTION void transform_element(DeviceTask const& task, Index element) {
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
  if (packed) {
    double const stored = scaled(transform.to, sum.real);
    if (task.unfit)
      with_type(task.dtype, [&]<class T>(T*) {
        if constexpr (std::is_integral_v<T>)
          note_unfit<T>(*task.unfit, transform.to.has_fill, rounded_fill(transform.to, task.dtype), stored);
      });
    sum.real = filled(transform.to, stored);
  }
  store_element(task.dtype, task.to, cell, sum);
}

/// The longest word, in bytes, in which a plain copy can be made; 0 for other tasks.
int word_of(StridedTask const& task) {
  if (task.op != StridedOp::copy || task.clear_from || task.num_sum_axes > 0) return 0;
  auto const size = size_of(task.dtype);
  std::uint64_t together = reinterpret_cast<std::uintptr_t>(task.to) | reinterpret_cast<std::uintptr_t>(task.from);
  bool const in_rows = task.ndim > 0 && task.to_stride[std::size_t(task.ndim - 1)] == 1 &&
                       task.from_stride[std::size_t(task.ndim - 1)] == 1;
  int const num_outer = in_rows ? task.ndim - 1 : task.ndim;
  for (int a = 0; a < num_outer; ++a)
    together |=
        std::uint64_t(task.to_stride[std::size_t(a)] * size) | std::uint64_t(task.from_stride[std::size_t(a)] * size);
  together |= std::uint64_t(in_rows ? task.extent[std::size_t(num_outer)] * size : size);
  constexpr std::uint64_t longest = 16;
  return int(std::min(longest, together & (~together + 1)));
}

/// Extents and strides of a plain copy of elements of `size` bytes, in its words.
void count_in_words(DeviceTask& task, Index size) {
  // Strides that are not 1 are whole words; of shorter words than an element, those of one element are an axis.
  auto const in_words = [&](Index& number) { number = number * size / task.word; };
  int const last = task.ndim - 1;
  bool const in_rows = last >= 0 && task.to_stride[last] == 1 && task.from_stride[last] == 1;
  if (!in_rows && task.ndim == max_ndim) {
    task.word = 0;
    return;
  }
  for (int a = 0; a < (in_rows ? last : task.ndim); ++a) {
    in_words(task.to_stride[a]);
    in_words(task.from_stride[a]);
  }
  if (in_rows) return in_words(task.extent[last]);
  task.extent[task.ndim] = size / task.word;
  task.to_stride[task.ndim] = task.from_stride[task.ndim] = 1;
  ++task.ndim;
}

/// Axes of one cell before those of a task that has fewer than `num_short_axes`.
void lengthen(DeviceTask& task) {
  int const added = num_short_axes - task.ndim;
  for (int a = num_short_axes - 1; a >= 0; --a) {
    bool const is_new = a < added;
    task.extent[a] = is_new ? 1 : task.extent[a - added];
    task.to_stride[a] = is_new ? 0 : task.to_stride[a - added];
    task.from_stride[a] = is_new ? 0 : task.from_stride[a - added];
  }
  task.ndim = num_short_axes;
}

DeviceTask device_task(StridedTask const& task) {
  DeviceTask result;
  result.to = task.to;
  result.from = task.from;
  result.ndim = task.ndim;
  result.num_sum_axes = task.num_sum_axes;
  result.clear_from = task.clear_from;
  result.dtype = task.dtype;
  result.from_dtype = task.from_dtype;
  result.op = task.op;
  result.value = task.value;
  result.unfit = task.unfit;
  result.transform = task.transform;
  for (int a = 0; a < task.ndim; ++a) {
    result.extent[a] = task.extent[std::size_t(a)];
    result.to_stride[a] = task.to_stride[std::size_t(a)];
    result.from_stride[a] = task.from_stride[std::size_t(a)];
  }
  result.word = word_of(task);
  if (result.word > 0 && result.word != size_of(task.dtype)) count_in_words(result, size_of(task.dtype));
  if (result.num_sum_axes == 0 && result.ndim < num_short_axes) lengthen(result);
  result.num_elements = task.num_elements() == 0 ? 0 : 1;
  int const num_free = result.ndim - result.num_sum_axes;
  for (int a = 0; a < num_free; ++a) result.num_elements *= result.extent[a];
  result.narrow = result.num_elements <= most_narrow;
  for (int a = 0; result.narrow && result.num_elements > 0 && a < num_free; ++a)
    result.by[a] = divisor_of(result.extent[a]);
  result.is_short =
      result.op != StridedOp::transform && result.narrow && result.num_sum_axes == 0 && result.ndim == num_short_axes;
  return result;
}

/// @pre `task.is_short`
ShortTask short_task(DeviceTask const& task) {
  ShortTask result;
  result.to = task.to;
  result.from = task.from;
  result.value = task.value;
  for (int a = 0; a < num_short_axes; ++a) {
    result.to_stride[a] = task.to_stride[a];
    result.from_stride[a] = task.from_stride[a];
    result.by[a] = task.by[a];
    result.extent[a] = std::uint32_t(task.extent[a]);
  }
  result.dtype = task.dtype;
  result.op = task.op;
  result.word = std::uint8_t(task.word);
  result.clear_from = task.clear_from;
  result.continues = task.continues;
  return result;
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

/// The tasks from `first` on that are alike: whose order matters, or does not. Those that follow one are like it.
std::span<StridedTask const> next_run(std::span<StridedTask const> tasks, std::size_t first) {
  auto last = first + 1;
  while (last < tasks.size() && is_ordered(tasks[last]) == is_ordered(tasks[first])) ++last;
  return tasks.subspan(first, last - first);
}

/// Tasks of a launch, of which each has the threads up to its end.
struct TasksOfLaunch {
  DeviceTask const* tasks;
  Index const* ends;
  Index number;
};

/// The task of a thread, and its number there.
struct Share {
  DeviceTask const* task;
  Index number;
};

/// The first of `number` tasks whose end lies behind `thread`.
template <class Number>
KOKKOS_INLINE_FUNCTION Number task_of(Number thread, Number const* ends, Number number) {
  Number low = 0;
  Number high = number - 1;
  while (low < high) {
    Number const middle = (low + high) / 2;
    if (thread < ends[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

KOKKOS_INLINE_FUNCTION Share share_of(TasksOfLaunch const& launch, Index thread) {
  auto const task = task_of(thread, launch.ends, launch.number);
  return {launch.tasks + task, task == 0 ? thread : thread - launch.ends[task - 1]};
}

/// Bytes of tasks that a launch takes as arguments: all may have 4 KiB.
constexpr std::size_t most_argument_bytes = 3600;
constexpr int most_arguments = int(most_argument_bytes / (sizeof(DeviceTask) + sizeof(Index)));

/// Tasks that a launch brings along.
template <int most>
struct FewTasks {
  DeviceTask tasks[std::size_t(most)];
  Index ends[std::size_t(most)];
  Index number;
};

/// Short tasks that a launch brings along.
constexpr int most_short = int(most_argument_bytes / (sizeof(ShortTask) + sizeof(std::uint32_t)));
struct ShortTasks {
  ShortTask tasks[std::size_t(most_short)];
  std::uint32_t ends[std::size_t(most_short)];
  std::uint32_t number;
};

KOKKOS_INLINE_FUNCTION Share share_of(FewTasks<1> const& launch, Index thread) { return {launch.tasks, thread}; }

KOKKOS_INLINE_FUNCTION Share share_of(FewTasks<most_arguments> const& launch, Index thread) {
  int task = 0;
  Index begin = 0;
  for (int t = 1; t < most_arguments; ++t)
    if (t < launch.number && thread >= launch.ends[t - 1]) {
      task = t;
      begin = launch.ends[t - 1];
    }
  return {launch.tasks + task, thread - begin};
}

template <class Tasks>
struct RunTasks {
  Tasks launch;

  KOKKOS_INLINE_FUNCTION void operator()(Index thread) const {
    auto const share = share_of(launch, thread);
    for (auto const* task = share.task;; ++task) {
      if (task->word > 0)
        copy_word(*task, share.number);
      else if (task->op == StridedOp::transform)
        transform_element(*task, share.number);
      else
        with_type(task->dtype, [&]<class T>(T*) { run_element<T>(*task, share.number); });
      if (!task->continues) return;
    }
  }
};

/// For launches of plain copies.
template <class Tasks>
struct CopyTasks {
  Tasks launch;

  KOKKOS_INLINE_FUNCTION void operator()(Index thread) const {
    auto const share = share_of(launch, thread);
    copy_word(*share.task, share.number);
  }
};

/// Plain copies alone take fewer registers.
template <bool copies>
struct RunShortTasks {
  ShortTasks launch;

  KOKKOS_INLINE_FUNCTION void operator()(Index thread) const {
    auto const number = std::uint32_t(thread);
    auto t = task_of(number, launch.ends, launch.number);
    auto const element = t == 0 ? number : number - launch.ends[t - 1];
    for (;; ++t) {
      ShortTask const& task = launch.tasks[t];
      ShortOffsets const offsets(task);
      if constexpr (copies) return copy_any_word(task, offsets(element));
      if (task.word > 0)
        copy_any_word(task, offsets(element));
      else
        with_type(task.dtype, [&]<class T>(T*) { apply<T>(task, offsets(element)); });
      if (!task.continues) return;
    }
  }
};

}  // namespace

void DeviceTasks::set(std::span<StridedTask const> tasks, DeviceQueue const& queue) {
  if (std::equal(tasks.begin(), tasks.end(), tasks_.begin(), tasks_.end())) {
    in_use_ = in_use_ || in_memory_;
    return;
  }
  tasks_.assign(tasks.begin(), tasks.end());
  launches_.clear();
  in_memory_ = false;
  if (tasks.empty()) return;
  constexpr std::size_t task_bytes = sizeof(DeviceTask) + sizeof(Index);
  static_assert(std::is_trivially_copyable_v<DeviceTask>);
  static_assert(sizeof(DeviceTask) % alignof(Index) == 0 && alignof(DeviceTask) <= alignof(Index));
  host_.resize(tasks.size() * task_bytes);
  num_tasks_ = 0;
  while (num_tasks_ < tasks.size()) add_launches(tasks, next_run(tasks, num_tasks_));
  in_memory_ = std::any_of(launches_.begin(), launches_.end(), [](Launch const& launch) {
    return launch.last - launch.first > (launch.are_short ? most_short : most_arguments);
  });
  if (!in_memory_) return;
  if (in_use_) fence(queue);
  in_use_ = true;
  if (capacity_ < tasks.size()) {
    device_ = Buffer(tasks.size() * task_bytes, Buffer::Kind::device, device_of(queue));
    pinned_ = Buffer(tasks.size() * task_bytes, Buffer::Kind::pinned);
    capacity_ = tasks.size();
  }
  std::memcpy(pinned_.data(), host_.data(), host_.size());
  copy_to_device(queue, device_.data(), pinned_.data(), host_.size());
}

void DeviceTasks::add_launches(std::span<StridedTask const> all, std::span<StridedTask const> tasks) {
  auto const launch_of = is_ordered(tasks.front()) ? launches_of(tasks) : std::vector<std::size_t>(tasks.size(), 0);
  auto* const held = reinterpret_cast<DeviceTask*>(host_.data());
  auto* const ends = reinterpret_cast<Index*>(host_.data() + all.size() * sizeof(DeviceTask));
  auto const num_launches = *std::max_element(launch_of.begin(), launch_of.end()) + 1;
  for (std::size_t number = 0; number < num_launches; ++number) {
    launches_.push_back({Index(num_tasks_), Index(num_tasks_), 0, true, true});
    auto& launch = launches_.back();
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (launch_of[t] != number) continue;
      auto task = device_task(tasks[t]);
      task.continues = t + 1 < tasks.size() && tasks[t + 1].follows;
      std::memcpy(static_cast<void*>(held + num_tasks_), &task, sizeof task);
      if (!tasks[t].follows) launch.num_threads += task.num_elements;
      launch.copies = launch.copies && task.word > 0;
      launch.are_short = launch.are_short && task.is_short && launch.num_threads <= most_narrow;
      ends[num_tasks_] = launch.num_threads;
      launch.last = Index(++num_tasks_);
    }
  }
}

namespace {

template <class Tasks>
void launch_tasks(DeviceQueue const& queue, Index num_threads, bool copies, Tasks const& tasks) {
  if (copies)
    launch(queue, "graticule::copy", num_threads, CopyTasks<Tasks>{tasks});
  else
    launch(queue, "graticule::strided", num_threads, RunTasks<Tasks>{tasks});
}

}  // namespace

void DeviceTasks::run(DeviceQueue const& queue) const {
  auto const* const held = reinterpret_cast<DeviceTask const*>(host_.data());
  auto const* const held_ends = reinterpret_cast<Index const*>(held + num_tasks_);
  auto const* const tasks = reinterpret_cast<DeviceTask const*>(device_.data());
  for (auto const& group : launches_) {
    if (group.num_threads == 0) continue;
    Index const number = group.last - group.first;
    if (number == 1) {
      launch_tasks(queue, group.num_threads, group.copies, FewTasks<1>{{held[group.first]}, {group.num_threads}, 1});
    } else if (group.are_short && number <= most_short) {
      ShortTasks few{};
      std::transform(held + group.first, held + group.last, few.tasks, short_task);
      std::transform(held_ends + group.first, held_ends + group.last, few.ends,
                     [](Index end) { return std::uint32_t(end); });
      few.number = std::uint32_t(number);
      if (group.copies)
        launch(queue, "graticule::copy", group.num_threads, RunShortTasks<true>{few});
      else
        launch(queue, "graticule::strided", group.num_threads, RunShortTasks<false>{few});
    } else if (number <= most_arguments) {
      FewTasks<most_arguments> few{};
      std::copy(held + group.first, held + group.last, few.tasks);
      std::copy(held_ends + group.first, held_ends + group.last, few.ends);
      few.number = number;
      launch_tasks(queue, group.num_threads, group.copies, few);
    } else {
      auto const* const ends = reinterpret_cast<Index const*>(tasks + num_tasks_);
      launch_tasks(queue, group.num_threads, group.copies,
                   TasksOfLaunch{tasks + group.first, ends + group.first, number});
    }
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
