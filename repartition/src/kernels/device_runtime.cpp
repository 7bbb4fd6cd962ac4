// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/device_launch.hpp>
#include <graticule/repartition/devices.hpp>

#include "kokkos_compat.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace graticule {

namespace {

thread_local DeviceQueue queue_of_thread;

}  // namespace

DeviceQueueScope::DeviceQueueScope(DeviceQueue queue) noexcept
    : outer_(std::exchange(queue_of_thread, std::move(queue))) {}

DeviceQueueScope::~DeviceQueueScope() { queue_of_thread = std::move(outer_); }

DeviceQueue const& DeviceQueueScope::current() noexcept { return queue_of_thread; }

namespace detail {

namespace {

using DeviceMemory = DeviceSpace::memory_space;

#if defined(KOKKOS_ENABLE_CUDA)
int device_of_kokkos() { return DeviceSpace().cuda_device(); }
#elif defined(KOKKOS_ENABLE_HIP)
int device_of_kokkos() { return DeviceSpace().hip_device(); }
#endif

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

/// The device of Kokkos is the current one of this thread until the end of the scope.
class OnDeviceOfKokkos {
 public:
#if defined(KOKKOS_ENABLE_CUDA)
  OnDeviceOfKokkos() {
    (void)cudaGetDevice(&before_);
    (void)cudaSetDevice(device_of_kokkos());
  }
  ~OnDeviceOfKokkos() { (void)cudaSetDevice(before_); }
#else
  OnDeviceOfKokkos() {
    (void)hipGetDevice(&before_);
    (void)hipSetDevice(device_of_kokkos());
  }
  ~OnDeviceOfKokkos() { (void)hipSetDevice(before_); }
#endif
  OnDeviceOfKokkos(OnDeviceOfKokkos const&) = delete;
  OnDeviceOfKokkos& operator=(OnDeviceOfKokkos const&) = delete;

 private:
  int before_ = 0;
};

#endif

/// Kokkos may take large blocks from a memory pool, which other processes cannot map.
std::byte* allocate_device(std::size_t bytes) {
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  OnDeviceOfKokkos const scope;
  void* memory = nullptr;
#if defined(KOKKOS_ENABLE_CUDA)
  bool const found = cudaMalloc(&memory, bytes) == cudaSuccess;
  if (!found) (void)cudaGetLastError();
#else
  bool const found = hipMalloc(&memory, bytes) == hipSuccess;
  if (!found) (void)hipGetLastError();
#endif
  return found ? static_cast<std::byte*>(memory) : nullptr;
#else
  return static_cast<std::byte*>(Kokkos::kokkos_malloc<DeviceMemory>("graticule", bytes));
#endif
}

void free_device(std::byte* memory) {
#if defined(KOKKOS_ENABLE_CUDA)
  (void)cudaFree(memory);
#elif defined(KOKKOS_ENABLE_HIP)
  (void)hipFree(memory);
#else
  Kokkos::kokkos_free<DeviceMemory>(memory);
#endif
}

/// Cache lines, so that messages begin at one.
constexpr std::size_t buffer_alignment = 64;

std::atomic<DeviceRuntime*> device_in_place{nullptr};

template <class To, class From>
void copy_in_order(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (auto* const device = installed_device()) return device->copy(queue, to, from, bytes);
  Kokkos::deep_copy(
      device_space(queue), Kokkos::View<std::byte*, To, Kokkos::MemoryUnmanaged>(static_cast<std::byte*>(to), bytes),
      Kokkos::View<std::byte const*, From, Kokkos::MemoryUnmanaged>(static_cast<std::byte const*>(from), bytes));
}

}  // namespace

DeviceRuntime* installed_device() noexcept { return device_in_place.load(std::memory_order_acquire); }

void install_device(DeviceRuntime* runtime) noexcept { device_in_place.store(runtime, std::memory_order_release); }

bool has_device() noexcept { return kokkos_has_device || installed_device() != nullptr; }

Buffer::Buffer(std::size_t bytes, Kind kind, int device) : kind_(kind) {
  if (bytes == 0) return;
  auto* const runtime = kind == Kind::host ? nullptr : installed_device();
  if (kind == Kind::host)
    data_ = static_cast<std::byte*>(
        std::aligned_alloc(buffer_alignment, (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment));
  else if (runtime)
    data_ = static_cast<std::byte*>(kind == Kind::device ? runtime->allocate(bytes, device)
                                                         : runtime->allocate_pinned(bytes));
  else if (kind == Kind::device)
    data_ = allocate_device(bytes);
  else
    data_ = static_cast<std::byte*>(Kokkos::kokkos_malloc<PinnedSpace>("graticule", bytes));
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), kind_(other.kind_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(kind_, other.kind_);
  return *this;
}

Buffer::~Buffer() {
  if (kind_ == Kind::host) {
    std::free(data_);
    return;
  }
  if (data_ == nullptr) return;
  if (auto* const device = installed_device()) {
    if (kind_ == Kind::device)
      device->release(data_);
    else
      device->release_pinned(data_);
    return;
  }
  if (!Kokkos::is_initialized()) return;
  if (kind_ == Kind::device)
    free_device(data_);
  else
    Kokkos::kokkos_free<PinnedSpace>(data_);
}

void copy_to_host(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  copy_in_order<Kokkos::HostSpace, DeviceMemory>(queue, to, from, bytes);
}

void copy_to_device(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  copy_in_order<DeviceMemory, Kokkos::HostSpace>(queue, to, from, bytes);
}

void fence(DeviceQueue const& queue) {
  if (auto* const device = installed_device()) return device->fence(queue);
  if (Kokkos::is_initialized()) device_space(queue).fence();
}

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

namespace {

#if defined(KOKKOS_ENABLE_CUDA)

using IpcHandle = cudaIpcMemHandle_t;

/// The allocation that holds `memory`: all but its handle. False where there is none.
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

bool get_handle(IpcHandle& handle, void* begin) {
  bool const found = cudaIpcGetMemHandle(&handle, begin) == cudaSuccess;
  if (!found) (void)cudaGetLastError();
  return found;
}

void* open_handle(IpcHandle const& handle) {
  void* begin = nullptr;
  if (cudaIpcOpenMemHandle(&begin, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess) return begin;
  (void)cudaGetLastError();
  return nullptr;
}

void close_handle(void* begin) { (void)cudaIpcCloseMemHandle(begin); }

#else

using IpcHandle = hipIpcMemHandle_t;

bool find_allocation(DeviceAddress& address, void const* memory) {
  hipDeviceptr_t begin = nullptr;
  std::size_t bytes = 0;
  if (hipMemGetAddressRange(&begin, &bytes, const_cast<void*>(memory)) != hipSuccess) {
    (void)hipGetLastError();
    return false;
  }
  address.begin = reinterpret_cast<std::uint64_t>(begin);
  address.bytes = bytes;
  address.offset = reinterpret_cast<std::uint64_t>(memory) - address.begin;
  return true;
}

bool get_handle(IpcHandle& handle, void* begin) {
  bool const found = hipIpcGetMemHandle(&handle, begin) == hipSuccess;
  if (!found) (void)hipGetLastError();
  return found;
}

void* open_handle(IpcHandle const& handle) {
  void* begin = nullptr;
  if (hipIpcOpenMemHandle(&begin, handle, hipIpcMemLazyEnablePeerAccess) == hipSuccess) return begin;
  (void)hipGetLastError();
  return nullptr;
}

void close_handle(void* begin) { (void)hipIpcCloseMemHandle(begin); }

#endif

/// Memory of other processes that is mapped here.
class Mappings {
 public:
  std::byte* map(DeviceAddress const& address) {
    std::lock_guard const lock(mutex_);
    auto const at = std::find_if(known_.begin(), known_.end(), [&](Known const& known) {
      auto const& of = known.address;
      return of.handle == address.handle && of.process == address.process && of.serial == address.serial;
    });
    if (at != known_.end()) return at->begin + address.offset;
    OnDeviceOfKokkos const scope;
    // While what lay in the same place is mapped, CUDA does not map what lies there now.
    auto const stale = std::stable_partition(known_.begin(), known_.end(), [&](Known const& known) {
      auto const& of = known.address;
      return of.process != address.process || of.begin >= address.begin + address.bytes ||
             address.begin >= of.begin + of.bytes;
    });
    close_from(stale);
    IpcHandle native;
    static_assert(sizeof native == sizeof address.handle);
    std::memcpy(&native, &address.handle, sizeof native);
    auto* const begin = static_cast<std::byte*>(open_handle(native));
    if (begin == nullptr) return nullptr;
    known_.push_back({address, begin});
    return begin + address.offset;
  }
  void clear() {
    std::lock_guard const lock(mutex_);
    close_from(known_.begin());
  }

 private:
  struct Known {
    DeviceAddress address;
    std::byte* begin;
  };

  void close_from(std::vector<Known>::iterator first) {
    if (first == known_.end()) return;
    Kokkos::fence();  // kernels may still read there
    std::for_each(first, known_.end(), [](Known const& known) { close_handle(known.begin); });
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

}  // namespace

std::optional<DeviceAddress> address_of_device_memory(void const* memory) {
  if (auto* const device = installed_device()) return device->address_of(memory);
  if (!Kokkos::is_initialized()) return std::nullopt;
  OnDeviceOfKokkos const scope;
  DeviceAddress address;
  IpcHandle handle;
  if (!find_allocation(address, memory) || !get_handle(handle, reinterpret_cast<void*>(address.begin)))
    return std::nullopt;
  std::memcpy(&address.handle, &handle, sizeof handle);
  address.process = getpid();
  return address;
}

std::byte* map_device_memory(DeviceAddress const& address) {
  if (auto* const device = installed_device()) return device->map(address);
  return Kokkos::is_initialized() ? mappings().map(address) : nullptr;
}

#else

std::optional<DeviceAddress> address_of_device_memory(void const* memory) {
  auto* const device = installed_device();
  return device ? device->address_of(memory) : std::nullopt;
}

std::byte* map_device_memory(DeviceAddress const& address) {
  auto* const device = installed_device();
  return device ? device->map(address) : nullptr;
}

#endif

namespace {

#if defined(KOKKOS_ENABLE_CUDA)

std::optional<OwnEvent> make_native_event() {
  OnDeviceOfKokkos const scope;
  cudaEvent_t event = nullptr;
  cudaIpcEventHandle_t handle;
  bool made = cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess) == cudaSuccess;
  made = made && cudaIpcGetEventHandle(&handle, event) == cudaSuccess;
  if (!made) {
    (void)cudaGetLastError();
    return std::nullopt;
  }
  OwnEvent result{event, {{}, getpid()}};
  static_assert(sizeof handle == sizeof result.address.handle);
  std::memcpy(&result.address.handle, &handle, sizeof handle);
  return result;
}

void* open_native_event(EventAddress const& address) {
  cudaEvent_t event = nullptr;
  cudaIpcEventHandle_t handle;
  std::memcpy(&handle, &address.handle, sizeof handle);
  if (cudaIpcOpenEventHandle(&event, handle) == cudaSuccess) return event;
  (void)cudaGetLastError();
  return nullptr;
}

void close_native_event(void* event) { (void)cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

bool record_native(DeviceQueue const& queue, void* event) {
  return cudaEventRecord(static_cast<cudaEvent_t>(event), device_space(queue).cuda_stream()) == cudaSuccess;
}

bool wait_for_native(DeviceQueue const& queue, void* event) {
  return cudaStreamWaitEvent(device_space(queue).cuda_stream(), static_cast<cudaEvent_t>(event), 0) == cudaSuccess;
}

#elif defined(KOKKOS_ENABLE_HIP)

std::optional<OwnEvent> make_native_event() {
  OnDeviceOfKokkos const scope;
  hipEvent_t event = nullptr;
  hipIpcEventHandle_t handle;
  bool made = hipEventCreateWithFlags(&event, hipEventDisableTiming | hipEventInterprocess) == hipSuccess;
  made = made && hipIpcGetEventHandle(&handle, event) == hipSuccess;
  if (!made) {
    (void)hipGetLastError();
    return std::nullopt;
  }
  OwnEvent result{event, {{}, getpid()}};
  static_assert(sizeof handle == sizeof result.address.handle);
  std::memcpy(&result.address.handle, &handle, sizeof handle);
  return result;
}

void* open_native_event(EventAddress const& address) {
  hipEvent_t event = nullptr;
  hipIpcEventHandle_t handle;
  std::memcpy(&handle, &address.handle, sizeof handle);
  if (hipIpcOpenEventHandle(&event, handle) == hipSuccess) return event;
  (void)hipGetLastError();
  return nullptr;
}

void close_native_event(void* event) { (void)hipEventDestroy(static_cast<hipEvent_t>(event)); }

bool record_native(DeviceQueue const& queue, void* event) {
  return hipEventRecord(static_cast<hipEvent_t>(event), device_space(queue).hip_stream()) == hipSuccess;
}

bool wait_for_native(DeviceQueue const& queue, void* event) {
  return hipStreamWaitEvent(device_space(queue).hip_stream(), static_cast<hipEvent_t>(event), 0) == hipSuccess;
}

#else

std::optional<OwnEvent> make_native_event() { return std::nullopt; }
void* open_native_event(EventAddress const& /*address*/) { return nullptr; }
void close_native_event(void* /*event*/) {}
bool record_native(DeviceQueue const& /*queue*/, void* /*event*/) { return false; }
bool wait_for_native(DeviceQueue const& /*queue*/, void* /*event*/) { return false; }

#endif

/// Events of peers that are open here: until Kokkos ends, because the driver ends before objects of static duration do,
/// and a peer's process before this one, perhaps.
class OpenEvents {
 public:
  /// Null where it cannot be opened.
  [[nodiscard]] void* find(EventAddress const& address) {
    std::lock_guard const lock(mutex_);
    auto const at = open_.find(address);
    if (at != open_.end()) return at->second;
    auto* const native = open_native_event(address);
    if (native) open_.emplace(address, native);
    return native;
  }
  void clear() {
    std::lock_guard const lock(mutex_);
    for (auto const& [address, native] : open_) close_native_event(native);
    open_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<EventAddress, void*> open_;
};

OpenEvents& open_events() {
  static auto* const all = [] {
    auto* const made = new OpenEvents;
    Kokkos::push_finalize_hook([made] { made->clear(); });
    return made;
  }();
  return *all;
}

/// Events that nobody has at present. They are never destroyed: peers may have them open.
struct IdleEvents {
  std::mutex mutex;
  std::vector<OwnEvent> events;
};

IdleEvents& idle_events() {
  static auto* const idle = new IdleEvents;
  return *idle;
}

}  // namespace

std::optional<SharedEvent> SharedEvent::make() {
  auto& idle = idle_events();
  {
    std::lock_guard const lock(idle.mutex);
    if (!idle.events.empty()) {
      auto const event = idle.events.back();
      idle.events.pop_back();
      return SharedEvent(event);
    }
  }
  auto* const device = installed_device();
  if (!device && !Kokkos::is_initialized()) return std::nullopt;
  auto const event = device ? device->make_event() : make_native_event();
  return event ? std::optional(SharedEvent(*event)) : std::nullopt;
}

SharedEvent::SharedEvent(SharedEvent&& other) noexcept : event_(std::exchange(other.event_, {})) {}

SharedEvent& SharedEvent::operator=(SharedEvent&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

SharedEvent::~SharedEvent() {
  if (!event_.native) return;
  auto& idle = idle_events();
  std::lock_guard const lock(idle.mutex);
  idle.events.push_back(event_);
}

void SharedEvent::record(DeviceQueue const& queue) {
  if (auto* const device = installed_device()) return device->record(queue, event_);
  if (!record_native(queue, event_.native)) fence(queue);
}

bool wait_for_event(DeviceQueue const& queue, EventAddress const& event) {
  if (auto* const device = installed_device()) return device->wait_for(queue, event);
  if (!Kokkos::is_initialized()) return false;
  auto* const native = open_events().find(event);
  return native && wait_for_native(queue, native);
}

QueueOfCalls::~QueueOfCalls() {
  try {
    if (used_) fence(queue_);
  } catch (...) {
    // The device has failed, and says so in the next call.
  }
}

void QueueOfCalls::enter(MemorySpace space) {
  if (space == MemorySpace::host) return;
  auto const& queue = DeviceQueueScope::current();
  if (used_ && queue.instance() != queue_.instance()) fence(queue_);
  used_ = true;
  queue_ = queue;
}

void QueueOfCalls::leave(MemorySpace space) const {
  if (space == MemorySpace::device && queue_.instance() == nullptr) fence(queue_);
}

namespace {

#if defined(KOKKOS_ENABLE_CUDA)

using NativeStream = cudaStream_t;
/// The default stream by its own handle: no instance is made of a null pointer.
DeviceSpace instance_of(NativeStream stream) { return DeviceSpace(stream ? stream : cudaStreamLegacy); }
bool is_captured(NativeStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

#elif defined(KOKKOS_ENABLE_HIP)

using NativeStream = hipStream_t;
DeviceSpace instance_of(NativeStream stream) { return DeviceSpace(stream); }
bool is_captured(NativeStream stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  return hipStreamIsCapturing(stream, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
}

#endif

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

/// An instance of Kokkos holds scratch memory: those of the last streams are kept, the oldest given back first.
DeviceQueue kept_queue(NativeStream stream, int device) {
  static constexpr std::size_t most_queues = 64;
  struct Kept {
    NativeStream stream;
    DeviceQueue queue;
  };
  static std::mutex mutex;
  static std::vector<Kept> queues;
  static bool const cleared = [] {
    Kokkos::push_finalize_hook([] { queues.clear(); });
    return true;
  }();
  (void)cleared;
  std::lock_guard const lock(mutex);
  auto const at = std::find_if(queues.begin(), queues.end(), [&](Kept const& kept) { return kept.stream == stream; });
  if (at != queues.end()) {
    std::rotate(at, at + 1, queues.end());
    return queues.back().queue;
  }
  if (queues.size() == most_queues) queues.erase(queues.begin());
  return queues
      .emplace_back(Kept{stream, DeviceQueue(std::make_shared<DeviceSpace const>(instance_of(stream)), device)})
      .queue;
}

DeviceQueue queue_of_native(void* native, int device) {
  auto const stream = static_cast<NativeStream>(native);
  if (device != device_of_kokkos())
    throw Error("Unsupported", "a field on device " + std::to_string(device) + "; Kokkos was started on device " +
                                   std::to_string(device_of_kokkos()) +
                                   ", the only one that this process uses for fields");
  if (is_captured(stream))
    throw Error("Unsupported",
                "a call on a stream that is captured into a graph: messages of MPI cannot be replayed with it; end the "
                "capture before the call");
  return kept_queue(stream, device);
}

#else

DeviceQueue queue_of_native(void* /*native*/, int device) {
  throw Error("Unsupported", "a field on device " + std::to_string(device) +
                                 ": Kokkos was built without a back end for devices with streams (CUDA, HIP)");
}

#endif

}  // namespace

}  // namespace detail

BackendDevices devices_of_backend() {
  BackendDevices found;
#if defined(KOKKOS_ENABLE_CUDA)
  found.kind = "cuda";
  auto const status = cudaGetDeviceCount(&found.count);
  if (status == cudaSuccess) return found;
  (void)cudaGetLastError();
  return {found.kind, 0, cudaGetErrorString(status)};
#elif defined(KOKKOS_ENABLE_HIP)
  found.kind = "hip";
  auto const status = hipGetDeviceCount(&found.count);
  if (status == hipSuccess) return found;
  (void)hipGetLastError();
  return {found.kind, 0, hipGetErrorString(status)};
#else
  return found;
#endif
}

void require_device(BackendDevices const& found) {
  if (found.kind.empty() || found.count > 0) return;
  std::string const name = found.kind == "cuda" ? "CUDA" : "HIP";
  throw Error(Fault::usage, "NoDevice",
              "this build computes on " + name + " devices and none is visible here" +
                  (found.reason.empty() ? "" : " (" + found.reason + ")") + "; use a build for the host");
}

std::string bus_address([[maybe_unused]] int device) {
  std::array<char, 32> text{};
#if defined(KOKKOS_ENABLE_CUDA)
  if (cudaDeviceGetPCIBusId(text.data(), int(text.size()), device) == cudaSuccess) return text.data();
  (void)cudaGetLastError();
#elif defined(KOKKOS_ENABLE_HIP)
  if (hipDeviceGetPCIBusId(text.data(), int(text.size()), device) == hipSuccess) return text.data();
  (void)hipGetLastError();
#endif
  return {};
}

std::optional<MemoryOfDevice> memory_of_device() {
  if (auto* const device = detail::installed_device()) return device->memory();
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  detail::OnDeviceOfKokkos const scope;
  MemoryOfDevice memory;
#if defined(KOKKOS_ENABLE_CUDA)
  if (cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes) == cudaSuccess) return memory;
  (void)cudaGetLastError();
#else
  if (hipMemGetInfo(&memory.free_bytes, &memory.total_bytes) == hipSuccess) return memory;
  (void)hipGetLastError();
#endif
#endif
  return std::nullopt;
}

DeviceQueue queue_of_stream(void* stream, int device) {
  if (auto* const installed = detail::installed_device()) return installed->queue_of_stream(stream, device);
  return detail::queue_of_native(stream, device);
}

}  // namespace graticule
