// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/device_launch.hpp>
#include <graticule/repartition/detail/devices.hpp>

#include "kokkos_compat.hpp"
#include "native_device.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
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

std::byte* allocate_pinned(std::size_t bytes) {
  OnDevice const scope(native::device_of_kokkos());
  return static_cast<std::byte*>(Kokkos::kokkos_malloc<PinnedSpace>("graticule", bytes));
}

void release_pinned(std::byte* memory) {
  OnDevice const scope(native::device_of_kokkos());
  Kokkos::kokkos_free<PinnedSpace>(memory);
}

/// Cache lines, so that messages begin at one.
constexpr std::size_t buffer_alignment = 64;

std::atomic<DeviceRuntime*> device_in_place{nullptr};

template <class To, class From>
void copy_in_order(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (auto* const device = installed_device()) return device->copy(queue, to, from, bytes);
  OnDevice const scope(device_of(queue));
  Kokkos::deep_copy(
      device_space(queue), Kokkos::View<std::byte*, To, Kokkos::MemoryUnmanaged>(static_cast<std::byte*>(to), bytes),
      Kokkos::View<std::byte const*, From, Kokkos::MemoryUnmanaged>(static_cast<std::byte const*>(from), bytes));
}

}  // namespace

DeviceRuntime* installed_device() noexcept { return device_in_place.load(std::memory_order_acquire); }

void install_device(DeviceRuntime* runtime) noexcept { device_in_place.store(runtime, std::memory_order_release); }

bool has_device() noexcept { return kokkos_has_device || installed_device() != nullptr; }

int device_of(DeviceQueue const& queue) {
  if (queue.instance()) return queue.device();
  return installed_device() || !Kokkos::is_initialized() ? 0 : native::device_of_kokkos();
}

std::optional<int> device_of_memory(void const* memory) {
  return installed_device() || !Kokkos::is_initialized() ? std::nullopt : native::device_of_memory(memory);
}

Buffer::Buffer(std::size_t bytes, Kind kind, int device) : kind_(kind), device_(device) {
  if (bytes == 0) return;
  auto* const runtime = kind == Kind::host ? nullptr : installed_device();
  if (kind == Kind::host)
    data_ = static_cast<std::byte*>(
        std::aligned_alloc(buffer_alignment, (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment));
  else if (runtime)
    data_ = static_cast<std::byte*>(kind == Kind::device ? runtime->allocate(bytes, device)
                                                         : runtime->allocate_pinned(bytes));
  else if (kind == Kind::device)
    data_ = native::allocate(bytes, device);
  else
    data_ = allocate_pinned(bytes);
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), kind_(other.kind_), device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(kind_, other.kind_);
  std::swap(device_, other.device_);
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
    native::release(data_, device_);
  else
    release_pinned(data_);
}

void copy_to_host(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  copy_in_order<Kokkos::HostSpace, DeviceMemory>(queue, to, from, bytes);
}

void copy_to_device(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  copy_in_order<DeviceMemory, Kokkos::HostSpace>(queue, to, from, bytes);
}

void fence(DeviceQueue const& queue) {
  if (auto* const device = installed_device()) return device->fence(queue);
  if (!Kokkos::is_initialized()) return;
  // An instance on the default stream waits for that of the current device.
  OnDevice const scope(device_of(queue));
  device_space(queue).fence();
}

std::optional<DeviceAddress> address_of_device_memory(void const* memory) {
  if (auto* const device = installed_device()) return device->address_of(memory);
  return Kokkos::is_initialized() ? native::address_of(memory) : std::nullopt;
}

std::byte* map_device_memory(DeviceAddress const& address, int device) {
  if (auto* const installed = installed_device()) return installed->map(address, device);
  return Kokkos::is_initialized() ? native::map(address, device) : nullptr;
}

void unmap_device_memory(DeviceAddress const& address, int device) noexcept {
  if (auto* const installed = installed_device()) return installed->unmap(address, device);
  if (Kokkos::is_initialized()) native::unmap(address, device);
}

namespace {

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

std::optional<SharedEvent> SharedEvent::make(int device) {
  auto& idle = idle_events();
  {
    std::lock_guard const lock(idle.mutex);
    auto const at = std::find_if(idle.events.rbegin(), idle.events.rend(),
                                 [&](OwnEvent const& event) { return event.device == device; });
    if (at != idle.events.rend()) {
      auto const event = *at;
      idle.events.erase(std::next(at).base());
      return SharedEvent(event);
    }
  }
  auto* const installed = installed_device();
  if (!installed && !Kokkos::is_initialized()) return std::nullopt;
  auto const event = installed ? installed->make_event(device) : native::make_event(device);
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
  if (!native::record(queue, event_)) fence(queue);
}

bool wait_for_event(DeviceQueue const& queue, EventAddress const& event) {
  if (auto* const device = installed_device()) return device->wait_for(queue, event);
  return Kokkos::is_initialized() && native::wait_for(queue, event);
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

}  // namespace detail

void require_device(BackendDevices const& found) {
  if (found.kind.empty() || found.count > 0) return;
  std::string const name = found.kind == "cuda" ? "CUDA" : "HIP";
  throw Error(Fault::usage, "NoDevice",
              "this build computes on " + name + " devices and none is visible here" +
                  (found.reason.empty() ? "" : " (" + found.reason + ")") + "; use a build for the host");
}

std::optional<MemoryOfDevice> memory_of_device() {
  if (auto const* const device = detail::installed_device()) return device->memory();
  return detail::native::memory_of(detail::native::device_of_kokkos());
}

DeviceQueue queue_of_stream(void* stream, int device) {
  if (auto* const installed = detail::installed_device()) return installed->queue_of_stream(stream, device);
  return detail::native::queue_of_stream(stream, device);
}

}  // namespace graticule
