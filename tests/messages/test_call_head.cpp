// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_head.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using namespace graticule;

namespace {

TEST(CallHead, finds_equal_and_unequal_values_of_all_bits) {
  Comm const comm = Comm::world();
  auto const me = std::uint64_t(comm.rank());
  std::vector<std::uint64_t> const equal{0, 1, std::numeric_limits<std::uint64_t>::max(), std::uint64_t(1) << 63U};
  bool const alone = comm.num_ranks() == 1;
  messages::CallHead head(comm);
  std::vector<messages::CallHead::Entry> same;
  std::vector<messages::CallHead::Entry> different;
  for (auto const value : equal) same.push_back(head.same(value));
  for (int const bit : {0, 31, 62, 63}) different.push_back(head.same(me == 0 ? 0 : std::uint64_t(1) << unsigned(bit)));

  head.meet();

  for (auto const entry : same) EXPECT_TRUE(head.agrees(entry));
  for (auto const entry : different) EXPECT_EQ(head.agrees(entry), alone);
}

TEST(CallHead, gives_all_ranks_the_largest_value) {
  Comm const comm = Comm::world();
  messages::CallHead head(comm);
  std::vector<messages::CallHead::Entry> entries;
  // More than are folded into the messages of a meeting.
  for (int i = 0; i < 40; ++i) entries.push_back(head.largest(i == comm.rank() ? 100 + i : -i));

  head.meet();

  for (int i = 0; i < 40; ++i) EXPECT_EQ(head[entries[std::size_t(i)]], i < comm.num_ranks() ? 100 + i : -i) << i;
}

TEST(CallHead, states_the_texts_of_two_ranks_that_differ) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  int const last = comm.num_ranks() - 1;
  messages::CallHead head(comm);
  auto const order = head.same(comm.rank() == last ? 7 : 8);
  head.meet();

  ASSERT_FALSE(head.agrees(order));
  EXPECT_EQ(head.difference(order, "call " + std::to_string(comm.rank())),
            "rank 0 has call 0, rank " + std::to_string(last) + " has call " + std::to_string(last));
}

TEST(CallHead, throws_the_failure_of_one_rank_on_all) {
  Comm const comm = Comm::world();
  int const last = comm.num_ranks() - 1;
  messages::CallHead head(comm);
  head.fails(comm.rank() == last ? std::make_exception_ptr(Error("BadAxis", "axis 7")) : nullptr);

  head.meet();

  auto const thrown = test::thrown_by([&] { head.rethrow(); });
  EXPECT_EQ(thrown.rule, "BadAxis");
  EXPECT_EQ(thrown.text, comm.rank() == last ? "axis 7" : "rank " + std::to_string(last) + ": axis 7");
  messages::CallHead next(comm);
  next.fails(nullptr);
  next.meet();
  EXPECT_NO_THROW(next.rethrow());
}

}  // namespace
