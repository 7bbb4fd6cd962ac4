// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
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

/// Ranks that report to ranks which report to rank 0.
TEST(CallComparison, names_the_lowest_rank_that_differs_from_rank_0_through_others) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() < 3) GTEST_SKIP() << "2 ranks have no rank between them";
  messages::CallComparison comparison(comm, comm.num_ranks() == 3 ? 1 : 2);

  for (int odd = 0; odd < comm.num_ranks(); ++odd) {
    auto const thrown = test::thrown_by([&] { comparison.compare(comm.rank() == odd ? "a backward" : "a forward"); });

    EXPECT_EQ(thrown.text, odd == 0 ? "rank 0 has a backward, rank 1 has a forward"
                                    : "rank 0 has a forward, rank " + std::to_string(odd) + " has a backward");
    EXPECT_NO_THROW(comparison.compare("the next call"));
  }
  int const first_odd = 1;
  auto const thrown =
      test::thrown_by([&] { comparison.compare("call", comm.rank() < first_odd ? 1 : 2 + comm.rank()); });
  EXPECT_EQ(thrown.text, "rank 0 has call, rank 1 has call: the same words, but other details that they do not show");
}

TEST(CallComparison, names_a_missing_rank_that_reports_to_another) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() < 3) GTEST_SKIP() << "2 ranks have no rank between them";
  Rule const rule({.report_seconds = 0, .error_seconds = 0.5});
  int const most_below = comm.num_ranks() == 3 ? 1 : 2;
  int const late = comm.num_ranks() - 1;
  int const between = (late - 1) / most_below;
  messages::CallComparison comparison(comm, most_below);

  if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  auto const thrown = test::thrown_by([&] { comparison.compare("a call"); });

  EXPECT_EQ(thrown.rule, "StalledExchange");
  EXPECT_EQ(
      thrown.text.find("rank 0 waits before a call for the same call of rank " + std::to_string(between) + " (or of "),
      0U)
      << thrown.text;
  auto const words = "; rank " + std::to_string(between) + " waits for the same call of rank " + std::to_string(late);
  EXPECT_NE(thrown.text.find(words), std::string::npos) << thrown.text;
  test::forgive_left_objects();
}

TEST(CallComparison, names_a_missing_rank_that_others_report_to) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() < 3) GTEST_SKIP() << "2 ranks have no rank between them";
  Rule const rule({.report_seconds = 0, .error_seconds = 0.5});
  int const most_below = comm.num_ranks() == 3 ? 1 : 2;
  messages::CallComparison comparison(comm, most_below);
  bool const reports_to_it = comm.rank() > 1 && (comm.rank() - 1) / most_below == 1;

  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(4000));
  auto const thrown = test::thrown_by([&] { comparison.compare("a call"); });

  EXPECT_EQ(thrown.rule, "StalledExchange");
  char const* const words = reports_to_it ? "waits before a call for rank 1, which compares the calls of some ranks,"
                                          : "; no answer of rank 1";
  EXPECT_NE(thrown.text.find(words), std::string::npos) << thrown.text;
  test::forgive_left_objects();
}

TEST(CallComparison, says_to_all_others_that_rank_0_is_missing) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() < 3) GTEST_SKIP() << "2 ranks have no rank between them";
  Rule const rule({.report_seconds = 0, .error_seconds = 0.5});
  messages::CallComparison comparison(comm, comm.num_ranks() == 3 ? 1 : 2);

  if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(4000));
  auto const thrown = test::thrown_by([&] { comparison.compare("a call"); });

  if (comm.rank() != 0) {
    EXPECT_EQ(thrown.rule, "StalledExchange");
    EXPECT_NE(thrown.text.find("waits before a call for rank 0, which compares the calls of all ranks,"),
              std::string::npos)
        << thrown.text;
  }
  test::forgive_left_objects();
}

}  // namespace
