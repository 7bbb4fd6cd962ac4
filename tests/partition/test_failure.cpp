// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/failure.hpp>

#include "comm_state.hpp"
#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace graticule {
namespace {

using test::rule_of;
using test::thrown_by;

/// The rank that fails.
int last(Comm const& comm) { return comm.num_ranks() - 1; }

bool fails(Comm const& comm) { return comm.rank() == last(comm); }

void announce(Comm const& comm, std::string const& text) { announce_failure(std::span(&comm, 1), text); }

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// A failure of the last rank that all ranks know of.
void fail_together(Comm const& comm) {
  if (fails(comm))
    announce(comm, "cell 7 is bad");
  else
    EXPECT_EQ(rule_of([&] { comm.barrier(); }), "PeerFailed");
}

TEST(Failure, ends_the_waits_of_the_other_ranks_with_its_rank_and_text) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  if (fails(comm)) {
    announce(comm, "cell 7 is bad");
  } else {
    for (int turn = 0; turn < 2; ++turn) {
      auto const thrown = thrown_by([&] { comm.barrier(); });

      EXPECT_EQ(thrown.rule, "PeerFailed");
      EXPECT_EQ(thrown.text, "rank " + std::to_string(last(comm)) + ": cell 7 is bad");
    }
  }
  comm.renew();
  test::forgive_left_objects();
}

TEST(Failure, carries_the_fault_and_rule_of_an_exception) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  if (fails(comm)) {
    announce_failure(std::span(&comm, 1), std::make_exception_ptr(Error(Fault::input, "BadFile", "u.nc is bad")));
  } else {
    auto const thrown = thrown_by([&] { (void)comm.gather_to_all(Index(1)); });

    EXPECT_EQ(thrown.rule, "PeerFailed");
    EXPECT_EQ(thrown.fault, Fault::input);
    EXPECT_NE(thrown.text.find("BadFile: u.nc is bad"), std::string::npos) << thrown.text;
  }
  comm.renew();
  test::forgive_left_objects();
}

TEST(Failure, that_all_agree_on_is_announced_by_one_rank) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  try {
    // The last two fail; the lower one speaks.
    int const speaker = std::max(0, last(comm) - 1);
    run_agreed(comm, [&] {
      if (comm.rank() >= speaker) throw std::runtime_error("cell 7 is bad");
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (...) {
    auto const before = test::mpi_calls().sends;
    announce_failure(std::span(&comm, 1), std::current_exception());
    bool const speaks = comm.rank() == std::max(0, last(comm) - 1);
    EXPECT_EQ(test::mpi_calls().sends - before, speaks ? comm.num_ranks() - 1 : 0);
  }

  // Whoever waits learns of it, also of a rank that has sent nothing.
  if (!fails(comm)) {
    EXPECT_EQ(rule_of([&] { comm.barrier(); }), "PeerFailed");
  }
  comm.renew();
  comm.barrier();
  test::forgive_left_objects();
}

TEST(Failure, that_all_agree_on_is_announced_by_the_others_where_its_rank_does_not) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  try {
    run_agreed(comm, [&] {
      if (fails(comm)) throw std::runtime_error("cell 7 is bad");
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (...) {
    if (!fails(comm)) announce_failure(std::span(&comm, 1), std::current_exception());
  }

  if (fails(comm)) {
    EXPECT_EQ(rule_of([&] { comm.barrier(); }), "PeerFailed");
  }
  comm.renew();
  comm.barrier();
  test::forgive_left_objects();
}

/// Whether a notice about `comm` comes that `is_sought` accepts.
template <class Sought>
bool comes(Comm const& comm, Sought const& is_sought) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    auto const found = detail::find_failure(comm);
    if (found && is_sought(*found)) return true;
    sleep(1e-4);
  }
  return false;
}

TEST(Failure, ends_no_call_that_its_rank_has_left) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  comm.barrier();
  if (fails(comm)) {
    announce(comm, "cell 7 is bad");
  } else {
    EXPECT_TRUE(comes(comm, [](detail::FoundFailure const& found) { return !found.may_follow; }));
    auto& state = detail::CommState::of(comm);
    {
      // All ranks are in it, so that it ends.
      detail::CallUnderWay const barrier(state, state.num_met);
      EXPECT_FALSE(detail::find_failure(comm));
    }
    detail::CallUnderWay const next(state, state.num_met + 1);
    EXPECT_TRUE(detail::find_failure(comm));
  }
  comm.renew();
  test::forgive_left_objects();
}

TEST(Failure, of_a_wait_is_less_than_its_cause) {
  auto const comm = Comm::world();
  if (comm.num_ranks() < 3) GTEST_SKIP() << "three ranks are needed";
  if (comm.rank() == 0)
    announce_failure(
        std::span(&comm, 1),
        std::make_exception_ptr(Error("StalledExchange", "rank 0 waits for rank " + std::to_string(last(comm)))));
  if (comm.rank() > 0 && !fails(comm)) {
    EXPECT_TRUE(comes(comm, [](detail::FoundFailure const& found) { return found.may_follow; }));
  }
  // After the notice of the wait has come.
  Comm::world().barrier();
  if (fails(comm)) announce(comm, "cell 7 is bad");
  if (comm.rank() > 0 && !fails(comm)) {
    EXPECT_TRUE(comes(comm, [](detail::FoundFailure const& found) { return !found.may_follow; }));
    EXPECT_EQ(comm.failed_peer()->rank, last(comm));
    EXPECT_EQ(thrown_by([&] { comm.barrier(); }).text, "rank " + std::to_string(last(comm)) + ": cell 7 is bad");
  }
  comm.renew();
  test::forgive_left_objects();
}

TEST(Failure, ends_no_call_of_another_communicator) {
  auto const comm = Comm::world();
  auto const other = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  fail_together(comm);

  if (fails(comm)) sleep(0.3);
  EXPECT_EQ(rule_of([&] { other.barrier(); }), "nothing was thrown");
  EXPECT_FALSE(other.failed_peer());
  EXPECT_TRUE(comm.failed_peer());
  comm.renew();
  EXPECT_FALSE(comm.failed_peer());
  test::forgive_left_objects();
}

TEST(Renew, makes_calls_go_on_whatever_the_ranks_have_called_before) {
  auto const comm = Comm::world();
  auto const copy = comm;
  for (int turn = 1; turn <= 3; ++turn) {
    if (comm.num_ranks() > 1) fail_together(comm);
    for (int t = 0; t < comm.rank(); ++t) (void)comm.next_tag();

    comm.renew();

    EXPECT_EQ(copy.generation(), turn);
    EXPECT_EQ(copy.next_tag(), 1);
    std::array<Index, 1> ones{1};
    copy.sum(ones);
    EXPECT_EQ(ones[0], comm.num_ranks());
    auto const part = copy.split(comm.rank() % 2, 0);
    EXPECT_EQ(part.generation(), 0);
    part.barrier();
  }
  test::forgive_left_objects();
}

TEST(Renew, serves_after_a_call_that_some_ranks_never_made) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  if (!fails(comm)) {
    detail::StallScope const impatient({.report_seconds = 0, .error_seconds = 0.2});
    std::array<double, 2> values{1, 2};
    EXPECT_EQ(rule_of([&] { comm.sum(std::span<double>(values)); }), "StalledExchange");
  }

  comm.renew();

  std::array<double, 1> ones{1};
  comm.sum(std::span<double>(ones));
  EXPECT_EQ(ones[0], comm.num_ranks());
  test::forgive_left_objects();
}

// One rank calls something else: all ranks are told, and their next calls are paired.
TEST(CommCalls, that_differ_are_an_error_on_all_ranks_and_the_next_ones_go_on) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  std::array<Index, 3> values{1, 2, 3};
  for (int turn = 0; turn < 3; ++turn) {
    auto const thrown = thrown_by([&] {
      if (fails(comm))
        comm.max(values);
      else
        comm.barrier();
    });

    EXPECT_EQ(thrown.rule, "CallDisagreement");
    EXPECT_NE(thrown.text.find("(barrier)"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("(maximum of 3 numbers)"), std::string::npos) << thrown.text;
    std::array<Index, 1> ones{1};
    comm.sum(ones);
    EXPECT_EQ(ones[0], comm.num_ranks());
  }
}

}  // namespace
}  // namespace graticule
