// SPDX-License-Identifier: BSD-3-Clause
// The device that stands behind device fields in tests: what it finds, and in which order it works.
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/device_queue.hpp>

#include "devices/guarded_device.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

using namespace graticule;
using test::GuardedDevice;
using test::Schedule;

namespace {

/// The guarded device with a schedule, until the end of a test.
class GuardedDeviceTest : public testing::Test {
 protected:
  GuardedDeviceTest() : device_(GuardedDevice::instance()), before_(device_.schedule()) {
    device_.set_schedule(Schedule::late);
  }
  ~GuardedDeviceTest() override { device_.set_schedule(before_); }

  /// An `int` on a device.
  int* make_number(int value, int device = 0) {
    auto* const memory = static_cast<int*>(device_.allocate(sizeof(int), device));
    auto const queue = device_.make_queue(device);
    device_.launch(queue, [memory, value] { *memory = value; });
    device_.fence(queue);
    return memory;
  }
  int value_of(int const* memory, DeviceQueue const& queue) {
    int result = 0;
    device_.copy(queue, &result, memory, sizeof(int));
    device_.fence(queue);
    return result;
  }

  GuardedDevice& device_;
  Schedule before_;
};

TEST_F(GuardedDeviceTest, notes_what_the_host_reads_and_writes) {
  auto* const number = make_number(7);

  int const found = *static_cast<int volatile*>(number);
  auto const read = device_.take_accesses();
  device_.fence({});
  auto const queue = device_.make_queue();
  (void)value_of(number, queue);  // closes the page again
  *static_cast<int volatile*>(number) = 8;
  auto const written = device_.take_accesses();

  EXPECT_EQ(found, 7);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_NE(read[0].find("host code touched memory of device 0, byte 0 of a block of 4"), std::string::npos) << read[0];
  EXPECT_EQ(written.size(), 1U);
  EXPECT_EQ(value_of(number, queue), 8);
  device_.release(number);
}

TEST_F(GuardedDeviceTest, lets_test_code_in_until_its_next_use) {
  auto* const number = make_number(7);

  device_.open_to_host();
  int const found = *static_cast<int volatile*>(number);
  auto const while_open = device_.take_accesses();
  device_.fence({});
  (void)*static_cast<int volatile*>(number);

  EXPECT_EQ(found, 7);
  EXPECT_TRUE(while_open.empty());
  EXPECT_EQ(device_.take_accesses().size(), 1U);
  device_.release(number);
}

TEST_F(GuardedDeviceTest, runs_work_when_it_is_waited_for_and_not_before) {
  auto const queue = device_.make_queue();
  int ran = 0;

  device_.launch(queue, [&] { ran = 1; });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  int const before = ran;
  device_.fence(queue);

  EXPECT_EQ(before, 0);
  EXPECT_EQ(ran, 1);
}

TEST_F(GuardedDeviceTest, orders_work_by_queue_and_by_points_only) {
  auto const producer = device_.make_queue();
  auto const stranger = device_.make_queue();
  auto const consumer = device_.make_queue();
  auto* const number = make_number(0);

  device_.launch(producer, [number] { *number = 1; });
  auto const point = device_.record(producer);
  device_.wait(consumer, point);
  int const seen_by_stranger = value_of(number, stranger);
  int const seen_by_consumer = value_of(number, consumer);

  EXPECT_EQ(seen_by_stranger, 0);
  EXPECT_EQ(seen_by_consumer, 1);
  EXPECT_TRUE(device_.has_passed(point));
  device_.release(number);
}

TEST_F(GuardedDeviceTest, keeps_the_order_of_a_queue_under_every_schedule) {
  for (auto const schedule : {Schedule::late, Schedule::at_random, Schedule::soon}) {
    device_.set_schedule(schedule, 5);
    auto const queue = device_.make_queue();
    std::vector<int> order;

    for (int i = 0; i < 10; ++i) device_.launch(queue, [&order, i] { order.push_back(i); });
    auto const at_once = schedule == Schedule::soon ? order.size() : 10U;
    device_.fence(queue);

    EXPECT_EQ(at_once, 10U);
    EXPECT_EQ(order, std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST_F(GuardedDeviceTest, notes_work_that_touches_memory_of_another_device) {
  auto* const number = make_number(3, 1);
  auto const queue = device_.make_queue(0);

  device_.launch(queue, [number] { *static_cast<int volatile*>(number) = 4; });
  device_.fence(queue);
  auto const accesses = device_.take_accesses();

  ASSERT_EQ(accesses.size(), 1U);
  EXPECT_NE(accesses[0].find("work of device 0 touched memory of device 1"), std::string::npos) << accesses[0];
  device_.release(number);
}

TEST_F(GuardedDeviceTest, notes_work_that_touches_memory_mapped_for_another_device) {
  auto* const number = make_number(3);
  // Its own memory stands for that of a peer.
  auto* const mapped = reinterpret_cast<int*>(device_.map(device_.address_of(number).value(), 1));
  auto const first = device_.make_queue(0);
  auto const second = device_.make_queue(1);
  int found = 0;

  device_.launch(second, [=, &found] { found = *static_cast<int volatile*>(mapped); });
  device_.fence(second);
  auto const of_second = device_.take_accesses();
  device_.launch(first, [=, &found] { found = *static_cast<int volatile*>(mapped); });
  device_.fence(first);
  auto const of_first = device_.take_accesses();

  EXPECT_EQ(found, 3);
  EXPECT_TRUE(of_second.empty());
  ASSERT_EQ(of_first.size(), 1U);
  EXPECT_NE(of_first[0].find("work of device 0 touched memory of a device of a peer"), std::string::npos)
      << of_first[0];
  device_.release(number);
}

TEST_F(GuardedDeviceTest, refuses_an_event_of_another_device) {
  auto const event = device_.make_event(1).value();

  EXPECT_NO_THROW(device_.record(device_.make_queue(1), event));
  EXPECT_THROW(device_.record(device_.make_queue(0), event), std::runtime_error);
}

TEST_F(GuardedDeviceTest, overwrites_what_is_freed_while_work_still_reads_it) {
  auto const owner = device_.make_queue();
  auto const reader = device_.make_queue();
  auto* const number = make_number(3);
  int found = 0;

  device_.copy(reader, &found, number, sizeof(int));
  device_.release_in_order(owner, number);
  device_.fence(owner);
  device_.fence(reader);

  EXPECT_EQ(found, -1);
}

TEST_F(GuardedDeviceTest, finds_the_queue_of_a_stream) {
  auto const queue = device_.make_queue(1);

  auto const found = queue_of_stream(GuardedDevice::stream_of(queue), 1);

  EXPECT_EQ(found.instance(), queue.instance());
  EXPECT_EQ(found.device(), 1);
  EXPECT_THROW((void)queue_of_stream(GuardedDevice::stream_of(queue), 0), std::runtime_error);
}

TEST(DeviceQueueScope, holds_for_calls_of_this_thread_until_its_end) {
  auto& device = GuardedDevice::instance();
  auto const outer = device.make_queue();
  auto const inner = device.make_queue(1);

  EXPECT_EQ(DeviceQueueScope::current().instance(), nullptr);
  {
    DeviceQueueScope const scope(outer);
    {
      DeviceQueueScope const nested(inner);
      EXPECT_EQ(DeviceQueueScope::current().device(), 1);
      EXPECT_EQ(detail::queue_of_call({}).instance(), inner.instance());
      EXPECT_EQ(detail::queue_of_call(outer).instance(), outer.instance());
      std::thread([] { EXPECT_EQ(DeviceQueueScope::current().instance(), nullptr); }).join();
    }
    EXPECT_EQ(DeviceQueueScope::current().instance(), outer.instance());
  }
  EXPECT_EQ(DeviceQueueScope::current().instance(), nullptr);
}

}  // namespace
