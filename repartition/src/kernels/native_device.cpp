// SPDX-License-Identifier: BSD-3-Clause
#include "native_device.hpp"

#include <graticule/partition/error.hpp>

#include "kokkos_compat.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// The runtimes of CUDA and HIP differ in the first letters of their names.
#if defined(KOKKOS_ENABLE_CUDA)
#define GRATICULE_GPU(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#define GRATICULE_GPU(name) hip##name
#endif

namespace graticule {

namespace detail {

#if defined(GRATICULE_GPU)

namespace {

/// Also forgets the error, which the next call would return.
bool succeeds(GRATICULE_GPU(Error_t) status) {
  if (status == GRATICULE_GPU(Success)) return true;
  (void)GRATICULE_GPU(GetLastError)();
  return false;
}

/// True where this process already works on a device: from CUDA 12 on, to make a device the current one takes hundreds
/// of MB of its memory, for a context.
bool is_in_use([[maybe_unused]] int device) {
#if defined(KOKKOS_ENABLE_CUDA)
  CUdevice handle = 0;
  unsigned flags = 0;
  int active = 0;
  return cuDeviceGet(&handle, device) == CUDA_SUCCESS &&
         cuDevicePrimaryCtxGetState(handle, &flags, &active) == CUDA_SUCCESS && active != 0;
#else
  return true;
#endif
}

/// The only one is always the current one; to ask 16 times in a halo exchange took its host 3 us (H200).
bool is_the_only_device() {
  static bool const is_only = [] {
    int count = 0;
    return succeeds(GRATICULE_GPU(GetDeviceCount)(&count)) && count == 1;
  }();
  return is_only;
}

}  // namespace

void OnDevice::enter(int device) noexcept {
  if (is_the_only_device() || !succeeds(GRATICULE_GPU(GetDevice)(&before_))) {
    before_ = -1;
    return;
  }
  if (before_ != device) (void)succeeds(GRATICULE_GPU(SetDevice)(device));
}

void OnDevice::leave() noexcept {
  int now = before_;
  if (!succeeds(GRATICULE_GPU(GetDevice)(&now)) || now == before_) return;
  if (is_in_use(before_)) (void)succeeds(GRATICULE_GPU(SetDevice)(before_));
}

#else

void OnDevice::enter(int /*device*/) noexcept {}
void OnDevice::leave() noexcept {}

#endif

}  // namespace detail

namespace detail::native {

#if defined(GRATICULE_GPU)

int device_of_kokkos() {
  // Kokkos starts once in a process.
  static int const device = device_of_instance(DeviceSpace());
  return device;
}

std::byte* allocate(std::size_t bytes, int device) {
  OnDevice const scope(device);
  void* memory = nullptr;
  return succeeds(GRATICULE_GPU(Malloc)(&memory, bytes)) ? static_cast<std::byte*>(memory) : nullptr;
}

void release(std::byte* memory, int device) {
  OnDevice const scope(device);
  (void)succeeds(GRATICULE_GPU(Free)(memory));
}

namespace {

using IpcMemory = GRATICULE_GPU(IpcMemHandle_t);
using IpcEvent = GRATICULE_GPU(IpcEventHandle_t);
using NativeEvent = GRATICULE_GPU(Event_t);
using NativeStream = GRATICULE_GPU(Stream_t);

#if defined(KOKKOS_ENABLE_CUDA)

/// The device of memory that lies on one alone.
std::optional<int> owner_of(void const* memory) {
  auto const at = reinterpret_cast<CUdeviceptr>(memory);
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  int managed = 0;
  int device = 0;
  bool const known = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CUDA_SUCCESS &&
                     cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == CUDA_SUCCESS &&
                     cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == CUDA_SUCCESS;
  return known && type == CU_MEMORYTYPE_DEVICE && managed == 0 ? std::optional(device) : std::nullopt;
}

/// The allocation that holds `memory`, which lies on the current device: all but its handle. False where there is none.
bool find_allocation(DeviceAddress& address, void const* memory) {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  unsigned long long serial = 0;
  auto const at = reinterpret_cast<CUdeviceptr>(memory);
  if (cuMemGetAddressRange(&begin, &bytes, at) != CUDA_SUCCESS) return false;
  if (cuPointerGetAttribute(&serial, CU_POINTER_ATTRIBUTE_BUFFER_ID, at) != CUDA_SUCCESS) return false;
  address.begin = begin;
  address.bytes = bytes;
  address.serial = serial;
  address.offset = at - begin;
  return true;
}

#else

std::optional<int> owner_of(void const* memory) {
  hipPointerAttribute_t attributes;
  if (!succeeds(hipPointerGetAttributes(&attributes, memory)) || attributes.isManaged != 0) return std::nullopt;
  return attributes.device;
}

bool find_allocation(DeviceAddress& address, void const* memory) {
  hipDeviceptr_t begin = nullptr;
  std::size_t bytes = 0;
  if (!succeeds(hipMemGetAddressRange(&begin, &bytes, const_cast<void*>(memory)))) return false;
  address.begin = reinterpret_cast<std::uint64_t>(begin);
  address.bytes = bytes;
  address.offset = reinterpret_cast<std::uint64_t>(memory) - address.begin;
  return true;
}

#endif

/// Memory of other processes that is mapped here, for each device that reads it.
class Mappings {
 public:
  std::byte* find(DeviceAddress const& address, int device) {
    std::lock_guard const lock(mutex_);
    auto const at = find_known(address, device);
    if (at != known_.end()) return at->begin + address.offset;
    // While what lay in the same place is mapped, CUDA does not map what lies there now.
    auto const stale = std::stable_partition(known_.begin(), known_.end(), [&](Known const& known) {
      auto const& of = known.address;
      bool const apart = of.begin >= address.begin + address.bytes || address.begin >= of.begin + of.bytes;
      return of.process != address.process || apart || (of.handle == address.handle && of.serial == address.serial);
    });
    close_from(stale);
    OnDevice const scope(device);
    IpcMemory handle;
    static_assert(sizeof handle == sizeof address.handle);
    std::memcpy(&handle, &address.handle, sizeof handle);
    void* begin = nullptr;
    if (!succeeds(GRATICULE_GPU(IpcOpenMemHandle)(&begin, handle, GRATICULE_GPU(IpcMemLazyEnablePeerAccess))))
      return nullptr;
    known_.push_back({address, device, static_cast<std::byte*>(begin)});
    return known_.back().begin + address.offset;
  }
  /// @pre no work uses it
  void forget(DeviceAddress const& address, int device) {
    std::lock_guard const lock(mutex_);
    auto const at = find_known(address, device);
    if (at == known_.end()) return;
    close(*at);
    known_.erase(at);
  }
  void clear() {
    std::lock_guard const lock(mutex_);
    close_from(known_.begin());
  }

 private:
  struct Known {
    DeviceAddress address;
    int device;
    std::byte* begin;
  };

  std::vector<Known>::iterator find_known(DeviceAddress const& address, int device) {
    return std::find_if(known_.begin(), known_.end(), [&](Known const& known) {
      auto const& of = known.address;
      return of.handle == address.handle && of.process == address.process && of.serial == address.serial &&
             known.device == device;
    });
  }
  static void close(Known const& known) {
    OnDevice const scope(known.device);
    (void)succeeds(GRATICULE_GPU(IpcCloseMemHandle)(known.begin));
  }
  void close_from(std::vector<Known>::iterator first) {
    if (first == known_.end()) return;
    {
      OnDevice const scope(device_of_kokkos());
      Kokkos::fence();  // of all devices: kernels may still read there
    }
    std::for_each(first, known_.end(), close);
    known_.erase(first, known_.end());
  }

  std::mutex mutex_;
  std::vector<Known> known_;
};

Mappings& mappings() {
  static Mappings all;
  static bool const cleared = [] {
    Kokkos::push_finalize_hook([] { all.clear(); });
    return true;
  }();
  (void)cleared;
  return all;
}

/// Events of peers that are open here: until Kokkos ends, because the driver ends before objects of static duration do,
/// and a peer's process before this one, perhaps.
class OpenEvents {
 public:
  /// Null where it cannot be opened.
  [[nodiscard]] NativeEvent find(EventAddress const& address) {
    std::lock_guard const lock(mutex_);
    auto const at = open_.find(address);
    if (at != open_.end()) return at->second;
    // Queues of all devices may wait for it.
    OnDevice const scope(device_of_kokkos());
    NativeEvent event = nullptr;
    IpcEvent handle;
    std::memcpy(&handle, &address.handle, sizeof handle);
    if (!succeeds(GRATICULE_GPU(IpcOpenEventHandle)(&event, handle))) return nullptr;
    open_.emplace(address, event);
    return event;
  }
  void clear() {
    std::lock_guard const lock(mutex_);
    for (auto const& [address, event] : open_) (void)succeeds(GRATICULE_GPU(EventDestroy)(event));
    open_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<EventAddress, NativeEvent> open_;
};

OpenEvents& open_events() {
  static auto* const all = [] {
    auto* const made = new OpenEvents;
    Kokkos::push_finalize_hook([made] { made->clear(); });
    return made;
  }();
  return *all;
}

NativeStream stream_of(DeviceQueue const& queue) {
#if defined(KOKKOS_ENABLE_CUDA)
  return device_space(queue).cuda_stream();
#else
  return device_space(queue).hip_stream();
#endif
}

}  // namespace

std::optional<int> device_of_memory(void const* memory) { return owner_of(memory); }

std::optional<DeviceAddress> address_of(void const* memory) {
  // CUDA finds an allocation only where its device is the current one.
  OnDevice const scope(owner_of(memory).value_or(device_of_kokkos()));
  DeviceAddress address;
  IpcMemory handle;
  if (!find_allocation(address, memory) ||
      !succeeds(GRATICULE_GPU(IpcGetMemHandle)(&handle, reinterpret_cast<void*>(address.begin))))
    return std::nullopt;
  std::memcpy(&address.handle, &handle, sizeof handle);
  address.process = getpid();
  return address;
}

std::byte* map(DeviceAddress const& address, int device) { return mappings().find(address, device); }

void unmap(DeviceAddress const& address, int device) noexcept { mappings().forget(address, device); }

std::optional<OwnEvent> make_event(int device) {
  OnDevice const scope(device);
  NativeEvent event = nullptr;
  IpcEvent handle;
  auto const flags = GRATICULE_GPU(EventDisableTiming) | GRATICULE_GPU(EventInterprocess);
  if (!succeeds(GRATICULE_GPU(EventCreateWithFlags)(&event, flags))) return std::nullopt;
  if (!succeeds(GRATICULE_GPU(IpcGetEventHandle)(&handle, event))) {
    (void)succeeds(GRATICULE_GPU(EventDestroy)(event));
    return std::nullopt;
  }
  OwnEvent result{event, device, {{}, getpid()}};
  static_assert(sizeof handle == sizeof result.address.handle);
  std::memcpy(&result.address.handle, &handle, sizeof handle);
  return result;
}

bool record(DeviceQueue const& queue, OwnEvent const& event) {
  OnDevice const scope(device_of(queue));
  return succeeds(GRATICULE_GPU(EventRecord)(static_cast<NativeEvent>(event.native), stream_of(queue)));
}

bool wait_for(DeviceQueue const& queue, EventAddress const& event) {
  auto* const opened = open_events().find(event);
  OnDevice const scope(device_of(queue));
  return opened && succeeds(GRATICULE_GPU(StreamWaitEvent)(stream_of(queue), opened, 0));
}

namespace {

/// Instances of Kokkos compute on the device of their stream, whatever Kokkos was started on: from these versions on.
#if defined(KOKKOS_ENABLE_CUDA)
constexpr bool has_several_devices = KOKKOS_VERSION >= 40300;
constexpr char const* needed_for_several = "Kokkos 4.3";
#else
constexpr bool has_several_devices =
    KOKKOS_VERSION >= 40600 && (HIP_VERSION_MAJOR > 5 || (HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR >= 6));
constexpr char const* needed_for_several = "Kokkos 4.6 and ROCm 5.6";
#endif

/// The default stream by its own handle: no instance of CUDA is made of a null pointer.
DeviceSpace instance_of(NativeStream stream) {
#if defined(KOKKOS_ENABLE_CUDA)
  return DeviceSpace(stream ? stream : cudaStreamLegacy);
#else
  return DeviceSpace(stream);
#endif
}

bool is_captured(NativeStream stream) {
  auto status = GRATICULE_GPU(StreamCaptureStatusNone);
  return !succeeds(GRATICULE_GPU(StreamIsCapturing)(stream, &status)) ||
         status != GRATICULE_GPU(StreamCaptureStatusNone);
}

/// An instance of Kokkos for each stream of a device. Never destroyed: that would use the stream, which may be gone,
/// and plans may hold the instance longer than Kokkos allows. An instance serves all streams that have the same handle,
/// one after the other.
struct KeptQueues {
  struct Kept {
    NativeStream stream;
    DeviceQueue queue;
  };
  std::mutex mutex;
  std::vector<Kept> all;
};

KeptQueues& kept_queues() {
  static auto* const all = new KeptQueues;
  return *all;
}

}  // namespace

DeviceQueue queue_of_stream(void* stream, int device) {
  if (!Kokkos::is_initialized())
    throw Error("WrongState", "a field on device " + std::to_string(device) +
                                  " while Kokkos has not started or has ended: it computes there from the making of a "
                                  "graticule::Runtime to its end");
  if (!has_several_devices && device != device_of_kokkos())
    throw Error("Unsupported", "a field on device " + std::to_string(device) + ": Kokkos was started on device " +
                                   std::to_string(device_of_kokkos()) +
                                   ", and a process computes on several devices only from " + needed_for_several +
                                   " on");
  // The default stream is that of the current device.
  OnDevice const scope(device);
  auto* const native = static_cast<NativeStream>(stream);
  if (is_captured(native))
    throw Error("Unsupported",
                "a call on a stream that is captured into a graph: messages of MPI cannot be replayed with it; end the "
                "capture before the call");
  auto& kept = kept_queues();
  std::lock_guard const lock(kept.mutex);
  auto const at = std::find_if(kept.all.begin(), kept.all.end(), [&](KeptQueues::Kept const& one) {
    return one.stream == native && one.queue.device() == device;
  });
  if (at != kept.all.end()) return at->queue;
  auto const instance = std::make_shared<DeviceSpace const>(instance_of(native));
  if (int const of_stream = device_of_instance(*instance); of_stream != device)
    throw Error("Unsupported",
                "a field on device " + std::to_string(device) + " in a stream of device " + std::to_string(of_stream));
  kept.all.push_back({native, DeviceQueue(instance, device)});
  return kept.all.back().queue;
}

std::optional<MemoryOfDevice> memory_of(int device) {
  OnDevice const scope(device);
  MemoryOfDevice memory;
  if (!succeeds(GRATICULE_GPU(MemGetInfo)(&memory.free_bytes, &memory.total_bytes))) return std::nullopt;
  return memory;
}

#else

int device_of_kokkos() { return 0; }
std::byte* allocate(std::size_t bytes, int /*device*/) {
  return static_cast<std::byte*>(Kokkos::kokkos_malloc<DeviceSpace::memory_space>("graticule", bytes));
}
void release(std::byte* memory, int /*device*/) { Kokkos::kokkos_free<DeviceSpace::memory_space>(memory); }
std::optional<int> device_of_memory(void const* /*memory*/) { return std::nullopt; }
std::optional<DeviceAddress> address_of(void const* /*memory*/) { return std::nullopt; }
std::byte* map(DeviceAddress const& /*address*/, int /*device*/) { return nullptr; }
void unmap(DeviceAddress const& /*address*/, int /*device*/) noexcept {}
std::optional<OwnEvent> make_event(int /*device*/) { return std::nullopt; }
bool record(DeviceQueue const& /*queue*/, OwnEvent const& /*event*/) { return false; }
bool wait_for(DeviceQueue const& /*queue*/, EventAddress const& /*event*/) { return false; }
DeviceQueue queue_of_stream(void* /*stream*/, int device) {
  throw Error("Unsupported", "a field on device " + std::to_string(device) +
                                 ": Kokkos was built without a back end for devices with streams (CUDA, HIP)");
}
std::optional<MemoryOfDevice> memory_of(int /*device*/) { return std::nullopt; }

#endif

}  // namespace detail::native

BackendDevices devices_of_backend() {
#if defined(GRATICULE_GPU)
  BackendDevices found;
#if defined(KOKKOS_ENABLE_CUDA)
  found.kind = "cuda";
#else
  found.kind = "hip";
#endif
  auto const status = GRATICULE_GPU(GetDeviceCount)(&found.count);
  if (detail::succeeds(status)) return found;
  return {found.kind, 0, GRATICULE_GPU(GetErrorString)(status)};
#else
  return {};
#endif
}

std::string bus_address([[maybe_unused]] int device) {
#if defined(GRATICULE_GPU)
  std::array<char, 32> text{};
  if (detail::succeeds(GRATICULE_GPU(DeviceGetPCIBusId)(text.data(), int(text.size()), device))) return text.data();
#endif
  return {};
}

}  // namespace graticule
