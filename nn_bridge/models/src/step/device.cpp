// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/device.hpp>
#include <graticule/models/threads.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/torch.h>

#if __has_include(<c10/core/CachingDeviceAllocator.h>)
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <cstddef>

namespace graticule::models {

namespace {

/// LibTorch's builds for ROCm call themselves CUDA; those that cannot say whether they are one are not.
template <class Hooks>
bool is_for_rocm(Hooks const& hooks) {
  if constexpr (requires { hooks.hasROCM(); })
    return hooks.hasROCM();
  else
    return false;
}

/// Of an allocator that counts; LibTorch 2.9 and later have a common interface for them.
template <class Type>
std::optional<TorchDeviceMemory> counted_memory(Type const& type, c10::DeviceIndex index) {
#if __has_include(<c10/core/CachingDeviceAllocator.h>)
  if constexpr (requires { getDeviceAllocator(type); }) {
    using Allocator = std::remove_pointer_t<decltype(getDeviceAllocator(type))>;
    auto* const allocator = dynamic_cast<Allocator*>(c10::GetAllocator(type));
    if (allocator == nullptr || !allocator->initialized()) return std::nullopt;
    auto const stats = allocator->getDeviceStats(index);
    TorchDeviceMemory result{0, 0, Index(stats.allocated_bytes[0].peak), Index(stats.reserved_bytes[0].peak)};
    if constexpr (requires { allocator->getMemoryInfo(index); }) {
      try {
        auto const [free, total] = allocator->getMemoryInfo(index);
        result.free_bytes = Index(free);
        result.total_bytes = Index(total);
      } catch (c10::Error const&) {
        // Some allocators cannot say.
      }
    }
    return result;
  }
#endif
  return std::nullopt;
}

}  // namespace

std::string torch_version() { return TORCH_VERSION; }

void use_torch_threads(int num_threads) {
  at::set_num_threads(num_threads);
  // May be set once in a process, and one thread is enough: this library runs one operation at a time.
  static bool const once = (at::set_num_interop_threads(1), true);
  static_cast<void>(once);
}

TorchDevices torch_devices(std::string const& kind) {
  std::string const version = std::string("LibTorch ") + TORCH_VERSION;
  bool const wants_rocm = kind == "hip";
  std::string const name = wants_rocm ? "HIP (ROCm)" : "CUDA";
  auto const& hooks = at::detail::getCUDAHooks();
  bool const is_built = at::globalContext().hasCUDART();
  if (!is_built || is_for_rocm(hooks) != wants_rocm) return {0, version + " was built without " + name};
  int const count = int(torch::cuda::device_count());
  if (count == 0) return {0, version + " sees no " + name + " device"};
  return {count, {}};
}

std::string torch_device_name(std::string const& name) {
  return name.starts_with("hip") ? "cuda" + name.substr(3) : name;
}

std::optional<TorchDeviceMemory> torch_device_memory(std::string const& name) {
  torch::Device const device(torch_device_name(name));
  if (device.is_cpu()) return std::nullopt;
  return counted_memory(device.type(), device.has_index() ? device.index() : c10::DeviceIndex(0));
}

}  // namespace graticule::models
