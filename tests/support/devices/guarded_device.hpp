// SPDX-License-Identifier: BSD-3-Clause
// A device for tests on any machine: memory that the host cannot touch, and queues whose work runs late.
#pragma once

#include <graticule/repartition/detail/device_runtime.hpp>

#include "devices/gpu_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::test {

/// When work that was put into a queue runs. Always in order of its queue, on a thread of the queue.
enum class Schedule : std::uint8_t {
  late,       ///< when somebody waits for it, not before: what waits for too little reads old values
  at_random,  ///< after a pause of up to 200 microseconds that a seed chooses
  soon,       ///< before the call that queues it returns: what is queued too early reads old values
};

class GuardedQueue;
class GuardedEvents;

/// A point in the work of a queue.
struct QueuePoint {
  std::shared_ptr<GuardedQueue> queue;
  std::uint64_t number = 0;
};

/// Stands behind `MemorySpace::device`, in place of Kokkos' default execution space.
///
/// Its pages are closed but while device work runs. An access of the host is noted with what was touched and by which
/// functions, and goes on, on an open page; a test in which one was noted fails, unless it asked for what was noted
/// (`take_accesses`). Work on one device that touches memory of another is noted, too.
/// Test code reads and writes fields itself after `open_to_host`.
/// Memory holds the bytes 0xff (NaN) when it is allocated.
class GuardedDevice : public detail::DeviceRuntime {
 public:
  static constexpr int num_devices = 2;

  /// The one of this process; the first call installs it. `GRATICULE_TEST_DEVICE` is its schedule: `late` (default),
  /// `soon`, or the seed of random pauses.
  static GuardedDevice& instance();
  /// True where `GRATICULE_TEST_MEMORY` is `device`.
  [[nodiscard]] static bool is_wanted();

  void set_schedule(Schedule schedule, std::uint64_t seed = 1);
  [[nodiscard]] Schedule schedule() const noexcept;
  /// Accesses of the host since the last call, in words.
  [[nodiscard]] std::vector<std::string> take_accesses();
  /// MPI may read and write the memory, as one that knows of devices does; it sees what device work has written so far.
  void let_mpi_in(bool allowed);
  [[nodiscard]] bool owns(void const* memory) const noexcept;

  /// A new queue, as a stream of a device.
  [[nodiscard]] DeviceQueue make_queue(int device = 0);
  [[nodiscard]] QueuePoint record(DeviceQueue const& queue);
  /// Work that is put into `queue` later runs after `point`. Returns at once.
  void wait(DeviceQueue const& queue, QueuePoint const& point);
  /// True when the work up to there has run. Asking counts as waiting: it may run now.
  [[nodiscard]] bool has_passed(QueuePoint const& point);
  /// Blocks until the work up to there has run.
  void wait_for(QueuePoint const& point);
  /// Waits for all queues of a device.
  void fence_all(int device);
  /// Frees memory in order of a queue: work that is queued later, or elsewhere, no longer finds its values there.
  void release_in_order(DeviceQueue const& queue, void* memory);
  /// Work put into a queue and not yet waited for, of all queues.
  [[nodiscard]] std::size_t num_pending() const;

  [[nodiscard]] void* allocate(std::size_t bytes, int device) override;
  void release(void* memory) noexcept override;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* memory) noexcept override;
  void copy(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) override;
  void launch(DeviceQueue const& queue, std::function<void()> kernel) override;
  void fence(DeviceQueue const& queue) override;
  /// Peers map the memory of this process, and their work may touch it; so may the work of this one with theirs.
  [[nodiscard]] std::optional<detail::DeviceAddress> address_of(void const* memory) override;
  [[nodiscard]] std::byte* map(detail::DeviceAddress const& address, int device) override;
  /// Counts only: an arena stays mapped.
  void unmap(detail::DeviceAddress const& /*address*/, int /*device*/) noexcept override { ++num_unmapped_; }
  [[nodiscard]] int num_unmapped() const noexcept { return num_unmapped_; }
  /// A peer that waits for an event counts as somebody who waits for the work before it.
  [[nodiscard]] std::optional<detail::OwnEvent> make_event(int device) override;
  void record(DeviceQueue const& queue, detail::OwnEvent const& event) override;
  [[nodiscard]] bool wait_for(DeviceQueue const& queue, detail::EventAddress const& event) override;
  /// @param stream as `stream_of` gives it
  [[nodiscard]] DeviceQueue queue_of_stream(void* stream, int device) override;
  /// Null for a queue that is none.
  [[nodiscard]] static void* stream_of(DeviceQueue const& queue) noexcept;

  /// Opens the memory of all devices to the host, for test code; the next use of the device closes it.
  void open_to_host();
  void close_to_host();

 private:
  GuardedDevice();
  struct State;
  std::unique_ptr<State> state_;
  std::atomic<int> num_unmapped_{0};
};

/// Sets a schedule of the guarded device until the end of the scope. A GPU has its own.
class Scheduled {
 public:
  explicit Scheduled(Schedule schedule) {
    if (gpu_is_wanted()) return;
    before_ = GuardedDevice::instance().schedule();
    GuardedDevice::instance().set_schedule(schedule, 3);
  }
  Scheduled(Scheduled const&) = delete;
  Scheduled& operator=(Scheduled const&) = delete;
  ~Scheduled() {
    if (!gpu_is_wanted()) GuardedDevice::instance().set_schedule(before_);
  }

 private:
  Schedule before_ = Schedule::late;
};

}  // namespace graticule::test
