// SPDX-License-Identifier: BSD-3-Clause
// Copies between host memory and the memory of the default execution space, in order of an instance of it.
#pragma once

#include "device_tasks.hpp"

#include <cstddef>

namespace graticule::detail {

using DeviceMemory = DeviceSpace::memory_space;

inline void copy_to_host(DeviceSpace const& space, std::byte* to, std::byte const* from, std::size_t bytes) {
  Kokkos::deep_copy(space, Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(to, bytes),
                    Kokkos::View<std::byte const*, DeviceMemory, Kokkos::MemoryUnmanaged>(from, bytes));
}

inline void copy_to_device(DeviceSpace const& space, std::byte* to, std::byte const* from, std::size_t bytes) {
  Kokkos::deep_copy(space, Kokkos::View<std::byte*, DeviceMemory, Kokkos::MemoryUnmanaged>(to, bytes),
                    Kokkos::View<std::byte const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(from, bytes));
}

}  // namespace graticule::detail
