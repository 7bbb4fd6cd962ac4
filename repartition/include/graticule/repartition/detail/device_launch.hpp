// SPDX-License-Identifier: BSD-3-Clause
// Launches on Kokkos' default execution space, or on the device that is installed in its place.
#pragma once

#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/device_queue.hpp>

#include <Kokkos_Core.hpp>

namespace graticule::detail {

using DeviceSpace = Kokkos::DefaultExecutionSpace;

[[nodiscard]] inline DeviceSpace device_space(DeviceQueue const& queue) {
  return queue.instance() ? *static_cast<DeviceSpace const*>(queue.instance()) : DeviceSpace();
}

/// The number of the device that an instance works on; 0 where Kokkos computes on the host.
[[nodiscard]] inline int device_of_instance([[maybe_unused]] DeviceSpace const& instance) {
#if defined(KOKKOS_ENABLE_CUDA)
  return instance.cuda_device();
#elif defined(KOKKOS_ENABLE_HIP)
  return instance.hip_device();
#else
  return 0;
#endif
}

/// Calls `body(i)` for all i below `count`, each in a thread of the device, in order of `queue`; returns at once.
/// `body`, of at most 4 KiB less 200 bytes, holds pointers to device memory, not to that of the host.
template <class Body>
void launch(DeviceQueue const& queue, char const* name, Index count, Body const& body) {
  if (auto* const device = installed_device())
    return device->launch(queue, [count, body] {
      for (Index i = 0; i < count; ++i) body(i);
    });
  // As an argument of the kernel: of more than 512 bytes Kokkos makes a constant, of which there is one, and waits for
  // the last kernel that had it.
  static_assert(sizeof(Body) <= 4096 - 200);
  OnDevice const scope(device_of(queue));
  Kokkos::RangePolicy<DeviceSpace> const all(device_space(queue), 0, count);
  Kokkos::parallel_for(
      name, Kokkos::Experimental::require(all, Kokkos::Experimental::WorkItemProperty::HintLightWeight), body);
}

}  // namespace graticule::detail
