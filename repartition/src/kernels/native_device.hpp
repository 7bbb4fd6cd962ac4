// SPDX-License-Identifier: BSD-3-Clause
// What Kokkos does not have: the runtime of CUDA or HIP, called under one set of names. Other back ends have none of
// it.
#pragma once

#include <graticule/repartition/detail/device_launch.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/devices.hpp>

#include <cstddef>
#include <optional>

namespace graticule::detail::native {

/// The device on which Kokkos has started; 0 where it computes on the host. @pre Kokkos has started
[[nodiscard]] int device_of_kokkos();

/// Memory that other processes can map, unlike large blocks of Kokkos, which may come from a memory pool. Null without.
[[nodiscard]] std::byte* allocate(std::size_t bytes, int device);
void release(std::byte* memory, int device);

/// @name see the functions of these names in `device_runtime.hpp`
/// @{
[[nodiscard]] std::optional<int> device_of_memory(void const* memory);
[[nodiscard]] std::optional<DeviceAddress> address_of(void const* memory);
[[nodiscard]] std::byte* map(DeviceAddress const& address, int device);
void unmap(DeviceAddress const& address, int device) noexcept;
[[nodiscard]] std::optional<OwnEvent> make_event(int device);
/// False where it cannot be recorded.
[[nodiscard]] bool record(DeviceQueue const& queue, OwnEvent const& event);
[[nodiscard]] bool wait_for(DeviceQueue const& queue, EventAddress const& event);
[[nodiscard]] DeviceQueue queue_of_stream(void* stream, int device);
/// @}

[[nodiscard]] std::optional<MemoryOfDevice> memory_of(int device);

}  // namespace graticule::detail::native
