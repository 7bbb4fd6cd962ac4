// SPDX-License-Identifier: BSD-3-Clause
// Without MPI: a death test starts this program again as a child, and a launcher takes a rank once.
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/watch.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace graticule::detail {
namespace {

using Clock = std::chrono::steady_clock;

void compute_for(double seconds) {
  auto const end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
  }
}

/// The watch lives in a process of its own, which it ends.
void be_watched(double seconds) {
  StallScope const scope({.report_seconds = 0.2, .error_seconds = 0.5});
  Watch watch("rank 3", "one place", [sleeps = Sleeps()]() mutable { return sleeps(); });
  watch.enter("HDF5 (writing u.nc)");
  compute_for(seconds);
}

TEST(WatchDeathTest, names_what_lasts_and_ends_the_process) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(be_watched(20), testing::ExitedWithCode(1),
              "rank 3 waits in HDF5 \\(writing u.nc\\) for 0.2 s\n.*rank 3 has waited in .* for 0.5 s and ends");
}

TEST(Watch, does_not_count_what_a_thread_sleeps) {
  StallScope const scope({.report_seconds = 1.5, .error_seconds = 2});
  Watch const watch("rank 3", "HDF5 (writing u.nc)", [sleeps = Sleeps()]() mutable { return sleeps(); });

  testing::internal::CaptureStderr();
  compute_for(0.5);
  std::this_thread::sleep_for(std::chrono::seconds(3));

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Watch, ends_with_its_scope) {
  StallScope const scope({.report_seconds = 0.05, .error_seconds = 0.3});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) Watch const watch("rank 3", "a place", {});

  compute_for(0.4);

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace graticule::detail

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
