// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/pending.hpp>
#include <graticule/repartition/plan.hpp>

#include "test_field.hpp"

#include <gtest/gtest.h>

#include <utility>

using namespace graticule;
using test::MemoryShape;
using test::TestField;

namespace {

/// A transpose in flight and what it must leave.
struct Transpose {
  explicit Transpose(Comm const& comm)
      : extents{2 * comm.num_ranks(), 3 * comm.num_ranks()},
        plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, extents),
             Layout(ProcessGrid{1, comm.num_ranks()}, extents)),
        from(plan.source_box(), {}, MemoryShape::dense(2, 0), 0),
        to(plan.target_box(), {}, MemoryShape::dense(2, 0), -1),
        expected(to) {
    auto const value = [](auto const& b, auto const& cell) { return test::bits_of<float>(b, cell); };
    from.set(plan.source_box(), value);
    expected.set(plan.target_box(), value);
  }
  [[nodiscard]] Pending start() { return plan.start(from.view(), to.view()); }

  Indices extents;
  RepartitionPlan plan;
  TestField<float> from, to, expected;
};

TEST(Pending, without_a_call_is_not_active_and_waits_for_nothing) {
  Pending none;

  EXPECT_FALSE(none.active());
  none.wait();
  EXPECT_FALSE(none.active());
}

TEST(Pending, is_active_until_the_wait_that_completes_it) {
  Transpose call(Comm::world());
  auto pending = call.start();
  EXPECT_TRUE(pending.active());

  pending.wait();

  EXPECT_FALSE(pending.active());
  EXPECT_TRUE(call.to.holds(call.expected));
  pending.wait();
  EXPECT_TRUE(call.to.holds(call.expected));
}

TEST(Pending, may_be_tested_until_a_wait_would_not_block) {
  Transpose call(Comm::world());
  auto pending = call.start();

  while (!pending.test()) {
  }
  pending.wait();

  EXPECT_TRUE(call.to.holds(call.expected));
}

TEST(Pending, is_completed_by_its_destructor) {
  Transpose call(Comm::world());

  { auto const pending = call.start(); }

  EXPECT_TRUE(call.to.holds(call.expected));
}

TEST(Pending, is_moved_with_its_call) {
  Transpose call(Comm::world());
  auto first = call.start();

  Pending second(std::move(first));
  EXPECT_FALSE(first.active());  // NOLINT(bugprone-use-after-move): the claim
  EXPECT_TRUE(second.active());
  Pending third;
  third = std::move(second);
  EXPECT_FALSE(second.active());  // NOLINT(bugprone-use-after-move)
  first.wait();
  third.wait();

  EXPECT_TRUE(call.to.holds(call.expected));
}

TEST(Pending, that_takes_the_place_of_a_call_in_flight_completes_it) {
  auto const comm = Comm::world();
  Transpose call(comm);
  Transpose other(comm);
  auto pending = call.start();

  pending = other.start();

  EXPECT_TRUE(pending.active());
  EXPECT_TRUE(call.to.holds(call.expected));
  pending.wait();
  EXPECT_TRUE(other.to.holds(other.expected));
}

TEST(Pending, outlives_its_plan) {
  auto const comm = Comm::world();
  Pending pending;
  Transpose fields(comm);
  {
    RepartitionPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, fields.extents),
                               Layout(ProcessGrid{1, comm.num_ranks()}, fields.extents));
    pending = plan.start(fields.from.view(), fields.to.view());
  }

  pending.wait();

  EXPECT_TRUE(fields.to.holds(fields.expected));
}

}  // namespace
