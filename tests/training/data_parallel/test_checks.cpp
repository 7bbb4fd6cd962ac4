// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/checks.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace graticule {
namespace test_checks {

using nn::Reduction;
using test::loss_of;
using test::Net;
using test::part_of;
using test::rule_of;
using test::small_buckets;
using test::thrown_by;
using test::whole_batch;
using training::CheckedCalls;

TEST(CheckedCalls, follow_the_environment_unless_they_are_on_or_off) {
  auto const* const mode = std::getenv("GRATICULE_CHECK");
  bool const compares = mode != nullptr && (std::string(mode) == "comm" || std::string(mode) == "all");

  EXPECT_TRUE(training::detail::compares_calls(CheckedCalls::on));
  EXPECT_FALSE(training::detail::compares_calls(CheckedCalls::off));
  EXPECT_EQ(training::detail::compares_calls(CheckedCalls::by_environment), compares);
}

TEST(CheckedCalls, cost_messages_only_where_they_are_on) {
  auto const comm = Comm::world();
  auto const messages = [&](CheckedCalls checks) {
    Net net;
    training::DataParallel const parallel(*net, {}, {{comm, Reduction::mean}}, {.checks = checks});
    comm.barrier();
    auto const before = test::mpi_calls();
    loss_of(net, part_of(whole_batch(0, comm.num_ranks()), comm)).backward();
    return test::mpi_calls().sends - before.sends;
  };

  auto const off = messages(CheckedCalls::off);

  // One bucket: each rank sends its call to the first one, which answers all.
  auto const own = comm.num_ranks() == 1 ? 0 : comm.rank() == 0 ? comm.num_ranks() - 1 : 1;
  EXPECT_GE(messages(CheckedCalls::on) - off, own);
}

TEST(CheckedCalls, make_a_call_that_one_rank_does_not_make_one_error_on_all) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank disagrees with nobody";
  Net net;
  training::DataParallel parallel(
      *net, {}, {{comm, Reduction::mean}},
      {.buckets = small_buckets, .checks = training::CheckedCalls::on, .patience_seconds = 10});
  auto const pass = [&](int step) { loss_of(net, part_of(whole_batch(step, comm.num_ranks()), comm)).backward(); };
  for (int step = 0; step < 3; ++step) pass(step);
  EXPECT_EQ(rule_of([&] { parallel.finalize(); }), "nothing was thrown");

  auto const thrown = thrown_by([&] {
    if (comm.rank() == 0) pass(3);
    parallel.finalize();
  });

  EXPECT_EQ(thrown.rule, "CallDisagreement") << thrown.text;
  EXPECT_NE(thrown.text.find("iteration 4, bucket 0"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("finalize() after iteration 3"), std::string::npos) << thrown.text;
  EXPECT_EQ(rule_of([&] { parallel.finalize(); }), "CallDisagreement");
}

TEST(CheckedCalls, name_the_rank_that_does_not_come) {
  if (std::getenv("GRATICULE_TEST_DELAYS")) GTEST_SKIP() << "delayed messages make more ranks late";
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  int const missing = comm.num_ranks() - 1;
  Net net;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}},
                                  {.checks = training::CheckedCalls::on, .patience_seconds = 0.5});
  auto const begin = std::chrono::steady_clock::now();

  auto const thrown = thrown_by([&] {
    // It comes when the others have given up.
    if (comm.rank() == missing) comm.barrier();
    loss_of(net, part_of(whole_batch(0, comm.num_ranks()), comm)).backward();
  });
  if (comm.rank() != missing) comm.barrier();

  EXPECT_EQ(thrown.rule, "StalledExchange");
  EXPECT_NE(thrown.text.find("waits before iteration 1"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("for the same call of rank " + std::to_string(missing)), std::string::npos) << thrown.text;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  // What the missing rank may send later is received into memory of its own.
  test::forgive_left_objects();
}

/// Seconds after which the others end with `StalledExchange` when one rank does not come to `late` of these: iterations
/// 1 to 5, and `finalize()`.
void expect_watched(int late, int missing) {
  auto const comm = Comm::world();
  Net net;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}},
                                  {.checks = training::CheckedCalls::on, .patience_seconds = 1});
  auto const pass = [&](int step) { loss_of(net, part_of(whole_batch(step, comm.num_ranks()), comm)).backward(); };
  auto const begin = std::chrono::steady_clock::now();
  Comm const aside(comm.handle());

  auto const thrown = thrown_by([&] {
    for (int step = 0; step < 5; ++step) {
      // It comes when the others have given up.
      if (step == late && comm.rank() == missing) aside.barrier();
      pass(step);
    }
    if (late == 5 && comm.rank() == missing) aside.barrier();
    parallel.finalize();
  });
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (comm.rank() != missing) aside.barrier();

  // Rank 0 compares the calls: when it is late itself, nobody is there to tell it so.
  if (comm.rank() != missing || missing != 0) {
    EXPECT_EQ(thrown.rule, "StalledExchange") << thrown.text;
    auto const who = missing == 0 ? std::string("for rank 0") : "for the same call of rank " + std::to_string(missing);
    EXPECT_NE(thrown.text.find(who), std::string::npos) << thrown.text;
  }
  EXPECT_EQ(thrown.text.find("checksum"), std::string::npos) << thrown.text;
  EXPECT_GE(seconds, 0.9);
  if (comm.rank() != missing && missing == 0) {
    EXPECT_NE(thrown.text.find(" for 1 s"), std::string::npos) << thrown.text;
  }
  test::forgive_left_objects();
}

TEST(CheckedCalls, watch_every_iteration_with_the_patience_that_was_asked_for) {
  if (std::getenv("GRATICULE_TEST_DELAYS")) GTEST_SKIP() << "delayed messages make more ranks late";
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  for (int const late : {0, 1, 4, 5})
    for (int const missing : {0, comm.num_ranks() - 1}) {
      SCOPED_TRACE("missing rank " + std::to_string(missing) + " in call " + std::to_string(late));
      expect_watched(late, missing);
    }
}

}  // namespace test_checks
}  // namespace graticule
