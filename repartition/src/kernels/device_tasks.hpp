// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/device_queue.hpp>

#include "kokkos_compat.hpp"

#include <Kokkos_Core.hpp>

#include <span>
#include <vector>

namespace graticule::detail {

using DeviceSpace = Kokkos::DefaultExecutionSpace;

[[nodiscard]] inline DeviceSpace device_space(DeviceQueue const& queue) {
  return queue.instance() ? *static_cast<DeviceSpace const*>(queue.instance()) : DeviceSpace();
}

/// Tasks in the memory of the default execution space, for any number of runs.
///
/// Neighboring tasks whose order does not matter run as one launch, one thread for each cell that is written.
class DeviceTasks {
 public:
  /// Copies the tasks over; waits for `space` first, because earlier copies may still be read. Allocates only to grow.
  void set(std::span<StridedTask const> tasks, DeviceSpace const& space);
  /// Launches on `space` and returns at once.
  void run(DeviceSpace const& space) const;

 private:
  using Tasks = Kokkos::View<StridedTask*, DeviceSpace>;
  using Ends = Kokkos::View<Index*, DeviceSpace>;

  /// Tasks `[first, last)` in one launch of `num_threads`.
  struct Launch {
    Index first;
    Index last;
    Index num_threads;
  };

  Tasks tasks_;
  Ends ends_;  ///< threads of a launch up to the end of each task
  HostMirrorOf<Tasks> host_tasks_;
  HostMirrorOf<Ends> host_ends_;
  std::vector<Launch> launches_;
};

}  // namespace graticule::detail
