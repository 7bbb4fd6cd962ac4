// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/stall.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace graticule {
namespace {

using test::rule_of;
using test::thrown_by;

/// The last rank.
bool fails(Comm const& comm) { return comm.rank() == comm.num_ranks() - 1; }

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(Stall, a_rank_that_comes_late_is_reported_once_and_waited_for) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  if (fails(comm)) {
    sleep(0.8);
    comm.barrier();
    return;
  }
  detail::StallScope const impatient({.report_seconds = 0.2, .error_seconds = 0});
  testing::internal::CaptureStderr();

  comm.barrier();

  auto const text = testing::internal::GetCapturedStderr();
  auto const expected =
      "graticule: rank " + std::to_string(comm.rank()) + " waits in call 1 of a communicator (barrier)";
  EXPECT_EQ(text.rfind(expected, 0), 0U) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
}

TEST(Stall, a_rank_that_never_comes_is_an_error_when_the_rule_says_so) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  std::vector<std::function<void()>> const calls{
      [&] { comm.barrier(); },
      [&] { (void)comm.gather_to_all(Index(1)); },
      [&] { (void)comm.broadcast("text", 0); },
      [&] { (void)comm.split(0, 0); },
      [&] { run_agreed(comm, [] {}); },
      [&] { (void)Comm(comm.handle()); },
  };
  for (std::size_t c = 0; c < calls.size(); ++c) {
    if (!fails(comm)) {
      detail::StallScope const impatient({.report_seconds = 0, .error_seconds = 0.2});
      auto const thrown = thrown_by(calls[c]);
      EXPECT_EQ(thrown.rule, "StalledExchange") << "call " << c;
      EXPECT_EQ(thrown.text.rfind("rank " + std::to_string(comm.rank()) + " waits ", 0), 0U) << thrown.text;
    }
    comm.renew();
  }
  test::forgive_left_objects();
}

TEST(Stall, the_rule_is_checked) {
  auto const before = stall_rule();
  EXPECT_EQ(rule_of([] { set_stall_rule({.report_seconds = -1}); }), "BadOption");
  EXPECT_EQ(rule_of([] { set_stall_rule({.error_seconds = 0.0 / 0.0}); }), "BadOption");
  set_stall_rule({7, 8});
  EXPECT_EQ(stall_rule().report_seconds, 7);
  EXPECT_EQ(stall_rule().error_seconds, 8);
  {
    detail::StallScope const inner({1, 2});
    EXPECT_EQ(stall_rule().error_seconds, 2);
  }
  EXPECT_EQ(stall_rule().error_seconds, 8);
  set_stall_rule(before);
}

/// Registered again with variables; a process reads them once.
TEST(StallRuleOfEnvironment, is_what_the_variables_say_or_the_programs_own) {
  auto const seconds = [](char const* name) -> std::optional<double> {
    char const* const text = std::getenv(name);
    if (!text || !*text) return std::nullopt;
    return std::stod(text);
  };
  std::string const check = std::getenv("GRATICULE_CHECK") ? std::getenv("GRATICULE_CHECK") : "";
  auto const report = seconds("GRATICULE_STALL_SECONDS");
  auto limit = seconds("GRATICULE_STALL_LIMIT");
  if (!limit && (check == "comm" || check == "all")) limit = report.value_or(300);

  EXPECT_EQ(StallRule::of_environment().report_seconds, report.value_or(300));
  EXPECT_EQ(StallRule::of_environment().error_seconds, limit.value_or(0));
  EXPECT_EQ(StallRule::of_environment({5, 6}).report_seconds, report.value_or(5));
  EXPECT_EQ(StallRule::of_environment({5, 6}).error_seconds, limit.value_or(6));
  EXPECT_EQ(stall_rule().report_seconds, report.value_or(300));
  EXPECT_EQ(stall_rule().error_seconds, limit.value_or(0));
}

}  // namespace
}  // namespace graticule
