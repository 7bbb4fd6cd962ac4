// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>

namespace graticule {

/// The queue for work on device fields: an instance of Kokkos' default execution space, such as a CUDA stream.
///
/// Made by `device_queue(instance)` of `kokkos_view.hpp`, or from a stream of another library by `queue_of_stream`.
/// Kernels of a call run after the work already in the queue; work queued after `wait()` runs after them. The host
/// waits for them only before messages are sent. Without a queue (`{}`) the one of a `DeviceQueueScope` is used, else
/// the default instance, and then `wait()` returns when its work has completed. No effect on host fields.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  /// `device` is the number of the device that the queue belongs to, where fields of its calls lie.
  DeviceQueue(std::shared_ptr<void const> instance, int device) noexcept
      : instance_(std::move(instance)), device_(device) {}

  /// The `Kokkos::DefaultExecutionSpace`; null without a queue.
  [[nodiscard]] void const* instance() const noexcept { return instance_.get(); }
  /// Of a queue.
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  std::shared_ptr<void const> instance_;
  int device_ = 0;
};

/// The queue of a stream that another library has made: a `cudaStream_t` or `hipStream_t` of `device`, such as
/// `c10::Stream::native_handle()`; null is the default stream of `device`. The stream outlives the calls in it. Queues
/// are kept, each with the scratch memory of a Kokkos instance, so that asking again costs a search among them.
/// @throws `WrongState` before Kokkos starts and after it has ended; `Unsupported` for a stream of another device; for
///         a device other than the one on which Kokkos was started, where its version has only one (before 4.3 for
///         CUDA; for HIP before 4.6, or with ROCm before 5.6); for a build without devices; and while the stream is
///         captured into a graph, which messages of MPI cannot be part of
[[nodiscard]] DeviceQueue queue_of_stream(void* stream, int device);

/// Makes `queue` the one of this thread's calls that are made without one, until the end of the scope.
///
/// Example: `DeviceQueueScope const scope(queue); plan.apply(from, to);` moves device fields in order of `queue`.
/// A call in flight keeps the queue that it was started with. Scopes may be nested.
class DeviceQueueScope {
 public:
  explicit DeviceQueueScope(DeviceQueue queue) noexcept;
  DeviceQueueScope(DeviceQueueScope const&) = delete;
  DeviceQueueScope& operator=(DeviceQueueScope const&) = delete;
  ~DeviceQueueScope();

  /// The queue of the innermost scope of this thread; `{}` outside of any.
  [[nodiscard]] static DeviceQueue const& current() noexcept;

 private:
  DeviceQueue outer_;
};

}  // namespace graticule
