// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/device.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/devices.hpp>

#include "devices/faulty_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

using namespace graticule;

namespace {

/// The guarded device, which counts its memory.
class CountedDevice : public test::FaultyDevice {
 public:
  static constexpr std::size_t total_bytes = 1 << 20;
  CountedDevice() : FaultyDevice(test::DeviceFault::none) {}

  void* allocate(std::size_t bytes, int device) override {
    auto* const memory = FaultyDevice::allocate(bytes, device);
    sizes_[memory] = bytes;
    used_bytes_ += bytes;
    return memory;
  }
  void release(void* memory) noexcept override {
    used_bytes_ -= sizes_[memory];
    FaultyDevice::release(memory);
  }
  std::optional<MemoryOfDevice> memory() const override {
    return MemoryOfDevice{total_bytes, total_bytes - used_bytes_};
  }

 private:
  std::map<void*, std::size_t> sizes_;
  std::size_t used_bytes_ = 0;
};

/// The text of the usage error, or nothing.
std::string refusal(BackendDevices const& found) {
  try {
    require_device(found);
    return {};
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "NoDevice");
    EXPECT_EQ(error.fault(), Fault::usage);
    return error.text();
  }
}

}  // namespace

TEST(DeviceOption, a_build_for_devices_is_refused_where_none_is_visible) {
  EXPECT_EQ(refusal({"cuda", 0, "no CUDA-capable device is detected"}),
            "this build computes on CUDA devices and none is visible here (no CUDA-capable device is detected); use a "
            "build for the host");
  EXPECT_EQ(refusal({"hip", 0, ""}),
            "this build computes on HIP devices and none is visible here; use a build for the host");
  EXPECT_EQ(refusal({"cuda", 2, ""}), "");
  EXPECT_EQ(refusal({"", 0, ""}), "");
}

TEST(DeviceOption, ranks_share_a_device_where_its_address_is_the_same) {
  auto const comm = Comm::world();

  EXPECT_EQ(app::num_devices_of_node(comm, "0000:3b:00.0"), 1);
  // Each rank calls its own cuda:0.
  EXPECT_EQ(app::num_devices_of_node(comm, "0000:3b:00." + std::to_string(comm.rank())), comm.num_node_ranks());
  EXPECT_EQ(app::num_devices_of_node(comm, "0000:3b:00." + std::to_string(comm.node_rank() % 2)),
            std::min(2, comm.num_node_ranks()));
}

TEST(DeviceOption, memory_is_that_of_the_engines_device) {
  CountedDevice const device;
  detail::Buffer const buffer(4096, detail::Buffer::Kind::device);

  auto const alone = app::memory_of_device();
  auto const with_library = app::memory_of_device(app::DeviceMemory{1, 2, 300, 400});

  EXPECT_EQ(alone.total_bytes, Index(CountedDevice::total_bytes));
  EXPECT_EQ(alone.free_bytes, Index(CountedDevice::total_bytes - 4096));
  EXPECT_EQ(alone.peak_bytes, 0);
  EXPECT_EQ(with_library.free_bytes, alone.free_bytes);
  EXPECT_EQ(with_library.peak_bytes, 300);
  EXPECT_EQ(with_library.reserved_bytes, 400);
}

TEST(DeviceOption, memory_is_that_of_the_library_where_the_engine_knows_none) {
  test::FaultyDevice const device(test::DeviceFault::none);

  auto const memory = app::memory_of_device(app::DeviceMemory{100, 20, 3, 4});

  EXPECT_EQ(memory.total_bytes, 100);
  EXPECT_EQ(memory.free_bytes, 20);
  EXPECT_EQ(app::memory_of_device().total_bytes, 0);
}
