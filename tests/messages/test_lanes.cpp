// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/partition/stall.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

using namespace graticule;

namespace {

/// Values that no other rank, segment or place has.
std::vector<int> segment(int from, int to, int number, int size) {
  std::vector<int> values(std::size_t(size), 0);
  std::iota(values.begin(), values.end(), 1000000 * from + 10000 * to + 1000 * number);
  return values;
}

TEST(Lanes, deliver_segments_of_each_peer_in_the_order_posted) {
  Comm const comm = Comm::world();
  int const me = comm.rank();
  std::vector<int> const sizes{3, 0, 70, 1};
  messages::Lanes lanes(comm);
  std::vector<std::vector<std::vector<int>>> received(std::size_t(comm.num_ranks()));
  for (int peer = 0; peer < comm.num_ranks(); ++peer)
    for (int const size : sizes) received[std::size_t(peer)].emplace_back(std::size_t(size), -1);

  for (int peer = 0; peer < comm.num_ranks(); ++peer)
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      auto& in = received[std::size_t(peer)][s];
      auto const& out = lanes.keep(segment(me, peer, int(s), sizes[s]));
      lanes.take(peer, in.data(), Index(in.size() * sizeof(int)));
      lanes.post(peer, out.data(), Index(out.size() * sizeof(int)));
    }
  lanes.wait("for the segments of the others");

  for (int peer = 0; peer < comm.num_ranks(); ++peer)
    for (std::size_t s = 0; s < sizes.size(); ++s)
      EXPECT_EQ(received[std::size_t(peer)][s], segment(peer, me, int(s), sizes[s])) << "of rank " << peer;
  EXPECT_EQ(lanes.sent().messages, 3 * comm.num_ranks()) << "an empty segment is no message";
  EXPECT_EQ(lanes.sent().bytes, Index(74 * sizeof(int)) * comm.num_ranks());
  EXPECT_TRUE(lanes.missing().empty());
  EXPECT_FALSE(lanes.abandoned());
}

TEST(Lanes, of_two_objects_do_not_mix) {
  Comm const comm = Comm::world();
  int const next = (comm.rank() + 1) % comm.num_ranks();
  int const before = (comm.rank() + comm.num_ranks() - 1) % comm.num_ranks();
  messages::Lanes first(comm);
  messages::Lanes second(comm);
  int const a = 10 + comm.rank();
  int const b = 20 + comm.rank();
  int from_first = -1;
  int from_second = -1;

  second.post(next, &b, sizeof b);
  first.post(next, &a, sizeof a);
  first.take(before, &from_first, sizeof a);
  second.take(before, &from_second, sizeof b);
  first.wait("for the first message");
  second.wait("for the second message");

  EXPECT_EQ(from_first, 10 + before);
  EXPECT_EQ(from_second, 20 + before);
}

TEST(Lanes, report_the_peers_of_which_a_segment_is_missing) {
  Comm const comm = Comm::world();
  int const last = comm.num_ranks() - 1;
  std::vector<int> received(std::size_t(comm.num_ranks()), -1);
  messages::Lanes lanes(comm);
  int const value = comm.rank();

  if (comm.rank() == 0) {
    for (int peer = 1; peer <= last; ++peer) lanes.take(peer, &received[std::size_t(peer)], sizeof(int));
    std::vector<int> expected(std::size_t(last), 0);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(lanes.missing(), expected) << "nobody has posted yet";
    EXPECT_EQ(lanes.test(), last == 0);
  }
  comm.barrier();
  if (comm.rank() > 0) lanes.post(0, &value, sizeof value);
  lanes.wait("for all ranks");

  EXPECT_TRUE(lanes.missing().empty());
  for (int peer = 1; comm.rank() == 0 && peer <= last; ++peer) EXPECT_EQ(received[std::size_t(peer)], peer);
}

TEST(Lanes, name_what_they_wait_for_and_keep_their_memory) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  Comm const aside(comm.handle());
  int const late = comm.num_ranks() - 1;

  if (comm.rank() == 0) {
    auto const kept = stall_rule();
    set_stall_rule({.report_seconds = 0.5, .error_seconds = 0});
    messages::Lanes lanes(comm, 1);
    auto& in = lanes.keep(std::vector<char>(100, 'x'));
    lanes.take(late, in.data(), Index(in.size()));
    auto const thrown = test::thrown_by([&] { lanes.wait("for a word of the last rank", messages::Stall::fail); });
    set_stall_rule(kept);
    EXPECT_EQ(thrown.rule, "StalledExchange");
    EXPECT_NE(thrown.text.find("rank 0 waits for a word of the last rank"), std::string::npos) << thrown.text;
    EXPECT_TRUE(lanes.abandoned());
    EXPECT_EQ(lanes.missing(), std::vector<int>{late});
  }
  aside.barrier();
  // Written into memory that lives on.
  std::vector<char> const word(100, 'y');
  messages::Lanes answer(comm, 1);
  if (comm.rank() == late) answer.post(0, word.data(), Index(word.size()));
  answer.wait("for the late word to leave");
  aside.barrier();
  test::forgive_left_objects();
}

}  // namespace
