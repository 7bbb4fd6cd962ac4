// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/device_queue.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace graticule::detail {

/// Tasks for a device, for any number of runs.
///
/// Launches bring a few tasks along as their arguments, so that nothing is copied and nothing is waited for; longer
/// lists lie in device memory. Neighboring tasks whose order does not matter run as one launch. Of those whose order
/// matters, the ones that share no memory run as one, such as additions to several fields. Tasks that follow another,
/// with as many elements, run in its threads. A plain copy moves the longest words that both sides are aligned to.
class DeviceTasks {
 public:
  /// Takes the tasks. Long lists are copied to the device, unless they are those of the last call; where there were
  /// others, `queue` is waited for first, because they may still be read. Allocates only to grow.
  /// @pre runs in other queues have completed
  void set(std::span<StridedTask const> tasks, DeviceQueue const& queue);
  /// Launches in `queue` and returns at once.
  void run(DeviceQueue const& queue) const;
  /// All runs have completed: the next `set` does not wait.
  void completed() noexcept { in_use_ = false; }

 private:
  /// Tasks `[first, last)` in one launch of `num_threads`.
  struct Launch {
    Index first;
    Index last;
    Index num_threads;
    bool copies;     ///< all of them plain
    bool are_short;  ///< all of them have few axes and no conversion
  };

  void add_launches(std::span<StridedTask const> all, std::span<StridedTask const> tasks);

  // The tasks, in order of launches, then for each the threads of its launch up to its end.
  std::vector<std::byte> host_;
  Buffer device_;  ///< the same where a launch is long
  Buffer pinned_;
  std::size_t capacity_ = 0;  ///< tasks for which there is room
  std::size_t num_tasks_ = 0;
  std::vector<StridedTask> tasks_;  ///< as they were given
  bool in_memory_ = false;          ///< of the device: some launch is long
  bool in_use_ = false;             ///< a copy or a kernel may read that memory
  std::vector<Launch> launches_;
};

}  // namespace graticule::detail
