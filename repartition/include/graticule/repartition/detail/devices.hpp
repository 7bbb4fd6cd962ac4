// SPDX-License-Identifier: BSD-3-Clause
// The devices of a process, before Kokkos starts on one of them, and the memory of that one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace graticule {

/// The devices of the back end that Kokkos was built for.
struct BackendDevices {
  std::string kind = {};    ///< `cuda` or `hip`; empty: Kokkos computes on the host
  int count = 0;            ///< that this process sees
  std::string reason = {};  ///< without any: the runtime's text
};

/// Kokkos may not have started.
[[nodiscard]] BackendDevices devices_of_backend();

/// Kokkos starts its back end whatever a program computes on, and aborts where that has no device.
/// @throws `NoDevice` (usage) where it would
void require_device(BackendDevices const& found);

/// Where a device of the back end sits on its node, such as `0000:3b:00.0`, whatever number a process has for it; empty
/// where that is not known. Kokkos may not have started.
[[nodiscard]] std::string bus_address(int device);

/// Bytes of a device, of all programs that use it.
struct MemoryOfDevice {
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
};

/// Of the device that fields lie on; nothing without one. @pre Kokkos has started
[[nodiscard]] std::optional<MemoryOfDevice> memory_of_device();

}  // namespace graticule
