// SPDX-License-Identifier: BSD-3-Clause
// What the engine asks of a device, in one place: memory, copies, kernels, and waiting for them.
#pragma once

#include <graticule/repartition/detail/devices.hpp>
#include <graticule/repartition/device_queue.hpp>
#include <graticule/repartition/field_view.hpp>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace graticule::detail {

/// Device memory of a process in words that other processes of its node understand: an IPC handle of CUDA or HIP, or
/// what stands for one in tests.
struct DeviceAddress {
  std::array<std::byte, 64> handle{};  ///< of an allocation
  std::int64_t process = 0;            ///< that it belongs to
  std::uint64_t begin = 0;             ///< where it lies there
  std::uint64_t bytes = 0;             ///< its length
  std::uint64_t serial = 0;            ///< distinguishes it from earlier ones in the same place
  std::uint64_t offset = 0;            ///< bytes from its begin
  friend bool operator==(DeviceAddress const&, DeviceAddress const&) = default;
};

/// An event of a process in words that other processes of its node understand.
struct EventAddress {
  std::array<std::byte, 64> handle{};  ///< an IPC handle of CUDA or HIP
  std::int64_t process = 0;            ///< that it belongs to
  friend auto operator<=>(EventAddress const&, EventAddress const&) = default;
};

/// An event that this process has made.
struct OwnEvent {
  void* native = nullptr;
  int device = 0;  ///< whose queues record it
  EventAddress address;
};

/// A device that is used in place of Kokkos' default execution space: the tests' guarded device.
///
/// Copies and kernels return at once and run in order of their queue. Where none is installed, the functions below call
/// Kokkos; the test for that is the load of one pointer, on device fields only.
class DeviceRuntime {
 public:
  DeviceRuntime() = default;
  DeviceRuntime(DeviceRuntime const&) = delete;
  DeviceRuntime& operator=(DeviceRuntime const&) = delete;
  virtual ~DeviceRuntime() = default;

  [[nodiscard]] virtual void* allocate(std::size_t bytes, int device) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// Host memory that copies use.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;
  virtual void copy(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) = 0;
  virtual void launch(DeviceQueue const& queue, std::function<void()> kernel) = 0;
  /// Blocks until all work in the queue has completed.
  virtual void fence(DeviceQueue const& queue) = 0;
  [[nodiscard]] virtual DeviceQueue queue_of_stream(void* stream, int device) = 0;
  [[nodiscard]] virtual std::optional<MemoryOfDevice> memory() const { return std::nullopt; }
  /// MPI may read and write its memory: what the probe finds out, where it is wanted.
  [[nodiscard]] virtual bool mpi_reads_it() const noexcept { return false; }
  [[nodiscard]] virtual std::optional<DeviceAddress> address_of(void const* /*memory*/) { return std::nullopt; }
  [[nodiscard]] virtual std::byte* map(DeviceAddress const& /*address*/, int /*device*/) { return nullptr; }
  virtual void unmap(DeviceAddress const& /*address*/, int /*device*/) noexcept {}
  /// See `SharedEvent`.
  [[nodiscard]] virtual std::optional<OwnEvent> make_event(int /*device*/) { return std::nullopt; }
  virtual void record(DeviceQueue const& /*queue*/, OwnEvent const& /*event*/) {}
  [[nodiscard]] virtual bool wait_for(DeviceQueue const& /*queue*/, EventAddress const& /*event*/) { return false; }
};

/// Null for Kokkos.
[[nodiscard]] DeviceRuntime* installed_device() noexcept;
/// Makes `runtime` the device of this process; null for Kokkos. @pre no device field is in use
void install_device(DeviceRuntime* runtime) noexcept;

/// True where device fields lie in memory that the host cannot read.
[[nodiscard]] bool has_device() noexcept;

/// The queue of a call: the one given, else the one of the thread's scope.
[[nodiscard]] inline DeviceQueue const& queue_of_call(DeviceQueue const& given) noexcept {
  return given.instance() ? given : DeviceQueueScope::current();
}

/// The device on which a call in `queue` has its fields: without an instance the one on which Kokkos was started.
[[nodiscard]] int device_of(DeviceQueue const& queue);

/// The device that memory lies on, where CUDA or HIP knows it.
[[nodiscard]] std::optional<int> device_of_memory(void const* memory);

/// Makes `device` the current one of this thread for CUDA or HIP, until the end of the scope: the one before is current
/// again then, whatever Kokkos has made current, because other libraries launch kernels on the one that they have set.
/// A device that this process does not use is not returned to. Without effect for a negative number, on an installed
/// device, and where Kokkos has neither back end.
class OnDevice {
 public:
  explicit OnDevice(int device) noexcept {
    if (device >= 0) enter(device);
  }
  OnDevice(OnDevice const&) = delete;
  OnDevice& operator=(OnDevice const&) = delete;
  ~OnDevice() {
    if (before_ >= 0) leave();
  }

 private:
  void enter(int device) noexcept;
  void leave() noexcept;
  int before_ = -1;
};

/// Memory that is freed with the object: of the host, for MPI, pinned where it is staged from or to a device, or of a
/// device, for packing kernels.
class Buffer {
 public:
  enum class Kind : std::uint8_t { host, pinned, device };

  Buffer() = default;
  /// @param device that memory of `Kind::device` belongs to
  Buffer(std::size_t bytes, Kind kind, int device = 0);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  /// @pre no work of a queue uses it
  ~Buffer();
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_ = nullptr;
  Kind kind_ = Kind::host;
  int device_ = 0;
};

/// In order of `queue`; the host memory stays as it is, and is not used, until the queue is fenced.
void copy_to_host(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes);
void copy_to_device(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes);
/// Blocks until all work in the queue has completed.
void fence(DeviceQueue const& queue);

/// Where device memory lies for other processes of the node; nothing where the back end, or the allocator that the
/// memory is from, cannot share it (memory pools of CUDA). Takes microseconds.
[[nodiscard]] std::optional<DeviceAddress> address_of_device_memory(void const* memory);
/// Memory of another process, for kernels of `device` in this one; null where it cannot be mapped. A mapping stays
/// until the owner has other memory in its place, or Kokkos ends; only then does memory that the owner has freed return
/// to the device.
[[nodiscard]] std::byte* map_device_memory(DeviceAddress const& address, int device);
/// Ends a mapping, so that memory which its owner frees returns to the device. @pre no work uses it, and nobody else in
/// this process has mapped memory of the same allocation
void unmap_device_memory(DeviceAddress const& address, int device) noexcept;

/// A point in a queue of this process that queues of others on the node wait for, whatever their device.
///
/// Events go from one owner to the next, and none is ever destroyed, so that an address stays that of one event. A late
/// waiter may wait for the event's next owner; this delays it but cannot deadlock, because the work before a point is
/// in queues when the point is recorded.
class SharedEvent {
 public:
  /// Nothing where the back end, or the device, has none that other processes can use.
  [[nodiscard]] static std::optional<SharedEvent> make(int device);
  SharedEvent(SharedEvent&& other) noexcept;
  SharedEvent& operator=(SharedEvent&& other) noexcept;
  /// @pre the work before the last point has completed
  ~SharedEvent();
  /// The point after the work that is in `queue` now. @pre `queue` belongs to the event's device
  void record(DeviceQueue const& queue);
  [[nodiscard]] EventAddress const& address() const noexcept { return event_.address; }

 private:
  explicit SharedEvent(OwnEvent const& event) : event_(event) {}
  OwnEvent event_;
};

/// Work that is put into `queue` later runs after the last point that another process has recorded. Returns at once;
/// false where the event cannot be opened.
[[nodiscard]] bool wait_for_event(DeviceQueue const& queue, EventAddress const& event);

/// The queue of an object's calls, whose memory passes from one call to the next.
class QueueOfCalls {
 public:
  QueueOfCalls() = default;
  QueueOfCalls(QueueOfCalls const&) = delete;
  QueueOfCalls& operator=(QueueOfCalls const&) = delete;
  /// Waits for the last call, whose memory may be freed next.
  ~QueueOfCalls();
  /// A new call on fields in `space`: in the queue of the thread's scope. Work in another queue is waited for first.
  void enter(MemorySpace space);
  [[nodiscard]] DeviceQueue const& queue() const noexcept { return queue_; }
  /// The end of a call: without a queue its work has then completed.
  void leave(MemorySpace space) const;

 private:
  DeviceQueue queue_;
  bool used_ = false;
};

}  // namespace graticule::detail
