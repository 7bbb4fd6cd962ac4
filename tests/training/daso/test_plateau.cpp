// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/daso_schedule.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace graticule {
namespace test_plateau {

using test::rule_of;
using training::detail::PlateauDetector;
using training::detail::PlateauGoal;
using training::detail::PlateauThreshold;

std::string answers(PlateauDetector& detector, std::vector<double> const& values) {
  std::string text;
  for (double const value : values) text += detector.add(value) ? 'P' : '.';
  return text;
}

TEST(Plateau, compares_by_goal_threshold_and_sign_of_the_best) {
  constexpr auto lowest = PlateauGoal::lowest;
  constexpr auto highest = PlateauGoal::highest;
  constexpr auto relative = PlateauThreshold::relative;
  constexpr auto absolute = PlateauThreshold::absolute;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    PlateauGoal goal;
    PlateauThreshold kind;
    double best;
    double value;
    bool better;
  };
  // With a threshold of 0.25, so that all limits are exact.
  for (auto const& c : std::vector<Case>{{lowest, relative, 8, 6, false},
                                         {lowest, relative, 8, 5.99, true},
                                         {lowest, relative, -8, -10, false},
                                         {lowest, relative, -8, -10.01, true},
                                         {lowest, absolute, 8, 7.75, false},
                                         {lowest, absolute, 8, 7.74, true},
                                         {lowest, absolute, -8, -8.25, false},
                                         {lowest, absolute, -8, -8.26, true},
                                         {highest, relative, 8, 10, false},
                                         {highest, relative, 8, 10.01, true},
                                         {highest, relative, -8, -6, false},
                                         {highest, relative, -8, -5.99, true},
                                         {highest, absolute, 8, 8.25, false},
                                         {highest, absolute, 8, 8.26, true},
                                         {lowest, relative, 8, nan, false},
                                         {highest, absolute, 8, nan, false}}) {
    PlateauDetector detector({.goal = c.goal, .kind = c.kind, .threshold = 0.25});
    EXPECT_FALSE(detector.add(c.best));
    EXPECT_FALSE(detector.add(c.value));
    EXPECT_EQ(detector.num_bad(), c.better ? 0 : 1) << c.best << " then " << c.value;
    EXPECT_EQ(detector.best(), c.better ? c.value : c.best);
  }
}

TEST(Plateau, comes_one_value_after_patience_and_counts_anew) {
  PlateauDetector detector({.threshold = 0.05, .patience = 2});

  EXPECT_EQ(answers(detector, {1.0, 0.97, 0.96, 0.955, 0.954, 0.953, 0.952, 0.5, 0.5, 0.5, 0.5}), "...P..P...P");
}

TEST(Plateau, does_not_count_values_during_cooldown) {
  PlateauDetector detector({.threshold = 0, .patience = 0, .cooldown = 2});

  EXPECT_EQ(answers(detector, {1, 1}), ".P");
  EXPECT_TRUE(detector.in_cooldown());
  EXPECT_EQ(answers(detector, {1, 1, 1}), "..P");
}

TEST(Plateau, takes_the_first_value_whatever_the_threshold) {
  for (double const threshold : {0.0, 1.0, 3.0}) {
    PlateauDetector detector({.threshold = threshold, .patience = 5});
    (void)detector.add(7);
    EXPECT_EQ(detector.best(), 7);
    EXPECT_EQ(detector.num_bad(), 0);
  }
}

TEST(Plateau, goes_on_from_a_saved_state_as_it_would_have) {
  std::vector<double> const values{3, 2.9, 2.95, 2.9, 2.9, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5};
  training::detail::PlateauOptions const options{.threshold = 0.1, .patience = 1, .cooldown = 1};
  PlateauDetector whole(options);
  auto const expected = answers(whole, values);
  for (std::size_t cut = 0; cut <= values.size(); ++cut) {
    PlateauDetector first(options);
    auto found = answers(first, {values.begin(), values.begin() + std::ptrdiff_t(cut)});
    PlateauDetector second(options);
    second.load_state(first.state());
    found += answers(second, {values.begin() + std::ptrdiff_t(cut), values.end()});
    EXPECT_EQ(found, expected) << "cut at " << cut;
  }
}

TEST(Plateau, refuses_bad_options_and_states) {
  EXPECT_EQ(rule_of([] { PlateauDetector({.threshold = -0.1}); }), "BadOption");
  EXPECT_EQ(rule_of([] { PlateauDetector({.threshold = std::nan("")}); }), "BadOption");
  EXPECT_EQ(rule_of([] { PlateauDetector({.patience = -1}); }), "BadOption");
  EXPECT_EQ(rule_of([] { PlateauDetector({.cooldown = -1}); }), "BadOption");
  PlateauDetector detector({});
  auto state = detector.state();
  state["best"] = Index(3);
  EXPECT_EQ(rule_of([&] { detector.load_state(state); }), "WrongType");
  state.erase("best");
  EXPECT_EQ(rule_of([&] { detector.load_state(state); }), "MissingVariable");
}

}  // namespace test_plateau
}  // namespace graticule
