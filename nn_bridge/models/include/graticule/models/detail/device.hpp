// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <optional>
#include <string>

namespace graticule::models {

/// Version of LibTorch, for a program that does not include its headers.
[[nodiscard]] std::string torch_version();

/// LibTorch's devices of a kind.
struct TorchDevices {
  int count = 0;             ///< that this process sees
  std::string missing = {};  ///< without any: what is missing
};

/// @param kind `cuda` or `hip`
[[nodiscard]] TorchDevices torch_devices(std::string const& kind);

/// As LibTorch calls a device: `cuda:1` for `hip:1`, whose builds for ROCm keep CUDA's name; others stay as they are.
[[nodiscard]] std::string torch_device_name(std::string const& name);

/// What LibTorch has used of a device, in bytes.
struct TorchDeviceMemory {
  Index total_bytes = 0;     ///< of the device; 0: not known
  Index free_bytes = 0;      ///< now, of all programs that use it
  Index peak_bytes = 0;      ///< largest sum of this process' tensors
  Index reserved_bytes = 0;  ///< most that its allocator has taken
};

/// None for the host, and where LibTorch does not count (before 2.9).
[[nodiscard]] std::optional<TorchDeviceMemory> torch_device_memory(std::string const& name);

}  // namespace graticule::models
