// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/time_steps.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace graticule::samples {
namespace {

using test::ErrorWith;
using test::rule_of;

TEST(TimeSteps, do_not_cross_gaps) {
  constexpr Seconds hour = 3600;
  TimeSteps const steps({0, 6 * hour, 12 * hour, 24 * hour, 30 * hour}, {.duration = 6 * hour});
  EXPECT_EQ(steps.at(0, 1), 1);
  EXPECT_EQ(steps.at(1, -1), 0);
  EXPECT_EQ(steps.at(2, 1), std::nullopt);
  EXPECT_EQ(steps.at(2, 2), 3);
  EXPECT_EQ(steps.at(4, 1), std::nullopt);
  EXPECT_EQ(steps.gaps(), std::vector<Seconds>{12 * hour});
  EXPECT_EQ(TimeSteps({0, 6 * hour, 12 * hour}, {.steps = 2}).lead_seconds(), 12 * hour);
  EXPECT_EQ(rule_of([&] {
              TimeSteps({0, 6 * hour}, {.duration = 4 * hour});
            }),
            (ErrorWith{"BadOption", "does not fit"}));
  EXPECT_EQ(rule_of([&] { TimeSteps({0, 0}, {.steps = 1}); }), (ErrorWith{"BadInput", "do not rise"}));
  EXPECT_EQ(rule_of([&] { TimeSteps({0, 10, 27}, {.steps = 1}); }), (ErrorWith{"BadInput", "no multiples"}));
}

TEST(TimeSteps, count_positions_on_an_axis_of_months) {
  constexpr Seconds day = 86400;
  TimeSteps const steps({0, 31 * day, 59 * day, 90 * day}, {.steps = 2});
  EXPECT_EQ(steps.at(1, 1), 3);
  EXPECT_EQ(steps.at(2, 1), std::nullopt);
  EXPECT_TRUE(steps.counts_positions());
  EXPECT_EQ(rule_of([&] {
              TimeSteps({0, 31 * day, 59 * day}, {.duration = 31 * day});
            }),
            (ErrorWith{"BadOption", "a number of steps"}));
}

}  // namespace
}  // namespace graticule::samples
