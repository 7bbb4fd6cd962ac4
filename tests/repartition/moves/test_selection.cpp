// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/numbers_in.hpp>
#include <graticule/repartition/selection.hpp>

#include "expect_error.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <vector>

using namespace graticule;
using test::draw;
using test::rule_of;
using test::Trial;

namespace {

TEST(Selection, every_takes_each_step_from_the_end_where_it_begins) {
  struct Case {
    Index lo, hi, step, first, extent;
  };
  for (auto const& [lo, hi, step, first, extent] : std::vector<Case>{{0, 10, 1, 0, 10},
                                                                     {0, 10, 3, 0, 4},
                                                                     {0, 9, 3, 0, 3},
                                                                     {5, 10, 2, 5, 3},
                                                                     {0, 10, -1, 9, 10},
                                                                     {0, 10, -3, 9, 4},
                                                                     {-4, 3, -7, 2, 1},
                                                                     {-4, 4, -7, 3, 2},
                                                                     {3, 4, 100, 3, 1},
                                                                     {3, 3, 2, 3, 0}})
    EXPECT_EQ(Selection::every_nth(Box({lo}, {hi}), {step}), (Selection{{first}, {step}, {extent}}))
        << "[" << lo << ", " << hi << ") by " << step;
  EXPECT_EQ(Selection::all(Box({2, 3}, {5, 9})), (Selection{{2, 3}, {1, 1}, {3, 6}}));
}

TEST(Selection, every_refuses_steps_of_no_length_and_of_other_axes) {
  EXPECT_EQ(rule_of([] { (void)Selection::every_nth(Box({0}, {4}), {0}); }), "BadSelection");
  EXPECT_EQ(rule_of([] { (void)Selection::every_nth(Box({0, 0}, {4, 4}), {1, 0}); }), "BadSelection");
  EXPECT_EQ(rule_of([] { (void)Selection::every_nth(Box({0, 0}, {4, 4}), {1}); }), "BadSelection");
}

TEST(Selection, numbers_in_a_box_are_those_of_the_cells_that_lie_in_it) {
  auto const seed = test::seed_or(131);
  for (int t = 0; t < 2000; ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    Selection const selection{{draw(random, -9, 9)},
                              {draw(random, 0, 1) == 0 ? draw(random, 1, 5) : draw(random, -5, -1)},
                              {draw(random, 0, 6)}};
    Index const lo = draw(random, -20, 20);
    Box const box({lo}, {lo + draw(random, 0, 12)});

    auto const numbers = detail::numbers_in(selection, box);

    for (Index k = -1; k <= selection.extents[0]; ++k) {
      bool const is_selected = k >= 0 && k < selection.extents[0];
      bool const lies_in = box.contains(Indices{selection.first[0] + k * selection.step[0]});
      ASSERT_EQ(numbers.contains(Indices{k}), is_selected && lies_in)
          << trial.name << ": number " << k << " of " << to_string(selection) << " in " << to_string(box);
    }
    ASSERT_GE(numbers.hi(0), numbers.lo(0));
  }
}

TEST(Selection, says_in_words_what_it_selects) {
  EXPECT_EQ(to_string(Selection{{720, 0}, {-2, 1}, {361, 1440}}), "first (720, 0), step (-2, 1), extents (361, 1440)");
}

}  // namespace
