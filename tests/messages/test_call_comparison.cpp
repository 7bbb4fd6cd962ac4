// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/partition/stall.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

using namespace graticule;

namespace {

/// The rule of waits during a test.
class Rule {
 public:
  explicit Rule(StallRule const& rule) : kept_(stall_rule()) { set_stall_rule(rule); }
  Rule(Rule const&) = delete;
  Rule& operator=(Rule const&) = delete;
  ~Rule() { set_stall_rule(kept_); }

 private:
  StallRule kept_;
};

TEST(CallComparison, lets_equal_calls_pass_and_can_be_used_again) {
  Comm const comm = Comm::world();
  messages::CallComparison comparison(comm);

  for (int call = 0; call < 20; ++call) EXPECT_NO_THROW(comparison.compare("call " + std::to_string(call)));
}

TEST(CallComparison, names_two_ranks_that_differ_on_all_ranks_and_goes_on) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  int const last = comm.num_ranks() - 1;
  messages::CallComparison comparison(comm);

  for (int round = 0; round < 2; ++round) {
    auto const thrown = test::thrown_by([&] { comparison.compare(comm.rank() == last ? "a backward" : "a forward"); });

    EXPECT_EQ(thrown.rule, "CallDisagreement");
    EXPECT_EQ(thrown.text, "rank 0 has a forward, rank " + std::to_string(last) + " has a backward");
    EXPECT_NO_THROW(comparison.compare("the next call"));
  }
}

TEST(CallComparison, compares_fingerprints_where_texts_are_cut_off) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  messages::CallComparison comparison(comm);
  std::string const common(1000, 'c');
  bool const odd_one = comm.rank() == 1;

  EXPECT_NO_THROW(comparison.compare(common));
  EXPECT_EQ(test::rule_of([&] { comparison.compare(common + (odd_one ? "x" : "y")); }), "CallDisagreement");
  EXPECT_EQ(test::rule_of([&] { comparison.compare("alike", odd_one ? 1 : 2); }), "CallDisagreement");
  EXPECT_NO_THROW(comparison.compare(odd_one ? "in other words" : "alike", 3));
}

TEST(CallComparison, does_not_block_until_all_have_come) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  int const late = comm.num_ranks() - 1;
  messages::CallComparison comparison(comm);
  EXPECT_FALSE(comparison.started());

  if (comm.rank() != late) {
    comparison.start("a call");
    EXPECT_TRUE(comparison.started());
    EXPECT_FALSE(comparison.advance()) << "the last rank has not come";
  }
  comm.barrier();
  if (comm.rank() == late) comparison.start("a call");
  while (!comparison.advance()) std::this_thread::yield();

  EXPECT_FALSE(comparison.started());
}

TEST(CallComparison, names_the_rank_that_does_not_come_on_all_ranks) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  Rule const rule({.report_seconds = 0, .error_seconds = 0.5});
  int const late = comm.num_ranks() - 1;
  messages::CallComparison comparison(comm);

  if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  auto const thrown = test::thrown_by([&] { comparison.compare("a call"); });

  EXPECT_EQ(thrown.rule, "StalledExchange");
  EXPECT_NE(thrown.text.find("rank 0 waits before a call for the same call of rank " + std::to_string(late)),
            std::string::npos)
      << thrown.text;
  test::forgive_left_objects();
}

TEST(CallComparison, gives_up_with_the_words_of_the_caller) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  int const late = comm.num_ranks() - 1;
  messages::CallComparison comparison(comm);
  Comm const aside(comm.handle());
  Comm const side = comm.split(comm.rank() == late ? 1 : 0, comm.rank());

  if (comm.rank() == late) aside.barrier();
  comparison.start("bucket 3 of 4096 numbers");
  side.barrier();
  auto const thrown = test::thrown_by([&] {
    for (int i = 0; i < 1000; ++i) (void)comparison.advance();
    if (comm.rank() != late) comparison.give_up("bucket 3", 0.1);
    while (!comparison.advance()) std::this_thread::yield();
  });
  if (comm.rank() != late) aside.barrier();

  EXPECT_EQ(thrown.rule, "StalledExchange");
  if (comm.rank() == 0 || comm.rank() == late) {
    EXPECT_EQ(thrown.text,
              "rank 0 waits before bucket 3 for the same call of rank " + std::to_string(late) + " for 0 s");
  }
  test::forgive_left_objects();
}

}  // namespace
