// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>

namespace graticule {

/// Where the work on device fields is ordered: an instance of Kokkos' default execution space, such as a CUDA stream.
///
/// Made by `device_queue(instance)` of `kokkos_view.hpp`. Kernels of a call run after what the queue holds already, and
/// what is put into it after `wait()` runs after them; the host waits for them only before messages leave. Without one
/// (`{}`) the default instance is used, and `wait()` returns when its work has ended. Means nothing for host fields.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  explicit DeviceQueue(std::shared_ptr<void const> instance) noexcept : instance_(std::move(instance)) {}

  /// The `Kokkos::DefaultExecutionSpace`; null without one.
  [[nodiscard]] void const* instance() const noexcept { return instance_.get(); }

 private:
  std::shared_ptr<void const> instance_;
};

}  // namespace graticule
