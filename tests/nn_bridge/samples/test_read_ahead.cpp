// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/samples/detail/read_ahead.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace graticule::samples {
namespace {

struct Slot {
  int request = 0;
  int value = 0;
};

using test::rule_of;

TEST(ReadAhead, gives_what_is_requested_whether_it_was_expected_or_not) {
  auto const world = Comm::world();
  std::atomic<int> num_fills = 0;
  ReadAhead<Slot> ahead({world}, [&](Slot& slot) {
    slot.value = 10 * slot.request;
    ++num_fills;
  });
  EXPECT_EQ(ahead.take(1).value, 10);
  ahead.begin(2);
  Slot const& second = ahead.take(2);
  EXPECT_EQ(num_fills, 2);
  ahead.begin(3);
  EXPECT_EQ(second.value, 20) << "the slot taken last was filled again";
  EXPECT_EQ(ahead.take(4).value, 40);
  EXPECT_EQ(num_fills, 4);
}

TEST(ReadAhead, reports_the_failure_of_one_rank_on_all_and_goes_on) {
  auto const world = Comm::world();
  bool const fails = world.rank() == world.num_ranks() - 1;
  std::atomic<bool> broken = true;
  ReadAhead<Slot> ahead({world}, [&](Slot& slot) {
    if (fails && broken) throw Error("BrokenFile", "sample");
    slot.value = slot.request;
  });
  ahead.begin(5);
  EXPECT_EQ(rule_of([&] { (void)ahead.take(5); }), "BrokenFile");
  broken = false;
  EXPECT_EQ(ahead.take(5).value, 5);
}

TEST(ReadAhead, fills_a_slot_again_when_its_failure_was_discarded) {
  auto const world = Comm::world();
  bool const fails = world.rank() == 0;
  ReadAhead<Slot> ahead({world}, [&](Slot& slot) {
    slot.value = slot.request;
    if (fails) throw Error("BrokenFile", "sample");
  });
  ahead.begin(5);
  ahead.wait();
  EXPECT_EQ(rule_of([&] { (void)ahead.take(5); }), "BrokenFile");
}

TEST(ReadAhead, keeps_what_was_filled_while_it_was_waited_for) {
  auto const world = Comm::world();
  std::atomic<int> num_fills = 0;
  ReadAhead<Slot> ahead({world}, [&](Slot& slot) {
    slot.value = slot.request;
    ++num_fills;
  });
  ahead.begin(5);
  ahead.wait();
  EXPECT_EQ(ahead.take(5).value, 5);
  EXPECT_EQ(num_fills, 1);
}

}  // namespace
}  // namespace graticule::samples
