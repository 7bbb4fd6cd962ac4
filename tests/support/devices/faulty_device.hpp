// SPDX-License-Identifier: BSD-3-Clause
// The guarded device behind an engine that forgets something: what tests of the device must find.
#pragma once

#include "devices/guarded_device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace graticule::test {

/// What is done wrong.
enum class DeviceFault : std::uint8_t {
  none,
  kernels_on_the_host,       ///< a kernel runs as host code
  kernels_in_own_queue,      ///< kernels are put into a queue that nobody else uses
  copies_in_own_queue,       ///< a message is unpacked before it is on the device
  sent_before_it_is_packed,  ///< nobody waits for the copy to host memory
  buffers_reused_too_early,  ///< a call does not wait for what the last one still copies
  peers_not_waited_for,      ///< a queue does not wait for the queue of a peer
  no_memory_left,            ///< a small allocation succeeds, no other
};

/// Passes everything on to the guarded device, except for one fault. Installed as long as it lives.
class FaultyDevice : public detail::DeviceRuntime {
 public:
  explicit FaultyDevice(DeviceFault fault) : fault_(fault), device_(GuardedDevice::instance()) {
    for (int d = 0; d < GuardedDevice::num_devices; ++d) others_[std::size_t(d)] = device_.make_queue(d);
    detail::install_device(this);
  }
  ~FaultyDevice() override {
    if (mpi_reads_) device_.let_mpi_in(false);
    detail::install_device(&device_);
  }

  /// From here on, so that a first call can be right.
  void begin() { begun_ = true; }
  /// No fault any more.
  void end() { begun_ = false; }
  /// Between the host and the device, since `begin()`.
  [[nodiscard]] std::size_t bytes_copied() const noexcept { return bytes_copied_; }
  /// A call begins: its first fence is the one that `buffers_reused_too_early` leaves out.
  void begin_call() { fences_ = 0; }

  void* allocate(std::size_t bytes, int device) override {
    constexpr std::size_t small = 1 << 16;
    return is(DeviceFault::no_memory_left) && bytes > small ? nullptr : device_.allocate(bytes, device);
  }
  void release(void* memory) noexcept override { device_.release(memory); }
  void* allocate_pinned(std::size_t bytes) override { return device_.allocate_pinned(bytes); }
  void release_pinned(void* memory) noexcept override { device_.release_pinned(memory); }
  void copy(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) override {
    if (begun_) bytes_copied_ += bytes;
    device_.copy(is(DeviceFault::copies_in_own_queue) && device_.owns(to) ? other(queue) : queue, to, from, bytes);
  }
  void launch(DeviceQueue const& queue, std::function<void()> kernel) override {
    if (is(DeviceFault::kernels_on_the_host)) {
      // Pointers that it reads on the device are there.
      device_.fence(queue);
      return kernel();
    }
    device_.launch(is(DeviceFault::kernels_in_own_queue) ? other(queue) : queue, std::move(kernel));
  }
  void fence(DeviceQueue const& queue) override {
    int const number = fences_++;
    if (is(DeviceFault::sent_before_it_is_packed)) return;
    if (is(DeviceFault::buffers_reused_too_early) && number == 0) return;
    device_.fence(queue);
  }
  /// Faults of copies, and of waiting for them, show where messages are staged.
  std::optional<detail::DeviceAddress> address_of(void const* memory) override {
    bool const staged = fault_ == DeviceFault::copies_in_own_queue || fault_ == DeviceFault::sent_before_it_is_packed ||
                        fault_ == DeviceFault::buffers_reused_too_early;
    return staged ? std::nullopt : device_.address_of(memory);
  }
  std::byte* map(detail::DeviceAddress const& address, int device) override { return device_.map(address, device); }
  void unmap(detail::DeviceAddress const& address, int device) noexcept override { device_.unmap(address, device); }
  std::optional<detail::OwnEvent> make_event(int device) override { return device_.make_event(device); }
  void record(DeviceQueue const& queue, detail::OwnEvent const& event) override { device_.record(queue, event); }
  bool wait_for(DeviceQueue const& queue, detail::EventAddress const& event) override {
    return is(DeviceFault::peers_not_waited_for) || device_.wait_for(queue, event);
  }
  DeviceQueue queue_of_stream(void* stream, int device) override { return device_.queue_of_stream(stream, device); }
  bool mpi_reads_it() const noexcept override { return mpi_reads_; }
  /// As with an MPI library that reads and writes memory of devices.
  void let_mpi_in() {
    mpi_reads_ = true;
    device_.let_mpi_in(true);
  }

 private:
  [[nodiscard]] bool is(DeviceFault fault) const noexcept { return begun_ && fault_ == fault; }
  [[nodiscard]] DeviceQueue const& other(DeviceQueue const& queue) const {
    return others_[std::size_t(detail::device_of(queue))];
  }

  DeviceFault fault_;
  GuardedDevice& device_;
  std::array<DeviceQueue, GuardedDevice::num_devices> others_;
  bool begun_ = false;
  bool mpi_reads_ = false;
  int fences_ = 0;
  std::size_t bytes_copied_ = 0;
};

}  // namespace graticule::test
