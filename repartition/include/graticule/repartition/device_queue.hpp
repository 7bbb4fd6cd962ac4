// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>

namespace graticule {

/// The queue for work on device fields: an instance of Kokkos' default execution space, such as a CUDA stream.
///
/// Made by `device_queue(instance)` of `kokkos_view.hpp`. Kernels of a call run after the work already in the queue;
/// work queued after `wait()` runs after them. The host waits for them only before messages are sent. Without a queue
/// (`{}`) the default instance is used, and `wait()` returns when its work has completed. No effect on host fields.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  explicit DeviceQueue(std::shared_ptr<void const> instance) noexcept : instance_(std::move(instance)) {}

  /// The `Kokkos::DefaultExecutionSpace`; null without a queue.
  [[nodiscard]] void const* instance() const noexcept { return instance_.get(); }

 private:
  std::shared_ptr<void const> instance_;
};

}  // namespace graticule
