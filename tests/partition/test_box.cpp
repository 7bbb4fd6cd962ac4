// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/box.hpp>
#include <graticule/partition/detail/speech.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <vector>

using namespace graticule;
using graticule::test::rule_of;

namespace {

constexpr Index lowest = std::numeric_limits<Index>::min();
constexpr Index highest = std::numeric_limits<Index>::max();

TEST(Box, counts_its_cells) {
  struct Row {
    Box box;
    Index num_cells;
    bool empty;
  };
  std::vector<Row> const rows{
      {Box({0, 0}, {61, 480}), 61 * 480, false},
      {Box({-3, 5}, {-1, 9}), 8, false},
      {Box({2}, {2}), 0, true},
      {Box({2}, {1}), 0, true},
      {Box({0, 4}, {7, 4}), 0, true},
      {Box({0, 9}, {7, 4}), 0, true},
      {Box({5, 9}, {4, 8}), 0, true},
      {Box(), 1, false},
      {Box({-1}, {0}), 1, false},
      {Box({0, 0, 0, 0, 0, 0, 0, 0}, {2, 2, 2, 2, 2, 2, 2, 2}), 256, false},
      {Box({0, 0}, {Index(1) << 31, Index(1) << 31}), Index(1) << 62, false},
      {Box({0, 0}, {highest, 1}), highest, false},
      {Box({lowest, 0}, {highest, 0}), 0, true},
  };
  for (auto const& row : rows) {
    EXPECT_EQ(row.box.num_cells(), row.num_cells) << to_string(row.box);
    EXPECT_EQ(row.box.empty(), row.empty) << to_string(row.box);
  }
}

TEST(Box, refuses_to_count_more_than_63_bits) {
  EXPECT_EQ(rule_of([] { (void)Box({0, 0}, {Index(1) << 32, Index(1) << 31}).num_cells(); }), "OutOfRange");
  EXPECT_EQ(rule_of([] { (void)Box({0, 0, 0}, {highest, 2, 0}).num_cells(); }), "nothing was thrown");
  EXPECT_EQ(rule_of([] { (void)Box({lowest}, {highest}).num_cells(); }), "OutOfRange");
  EXPECT_EQ(rule_of([] { (void)Box({-2}, {highest}).num_cells(); }), "OutOfRange");
}

TEST(Box, extent_is_never_negative) {
  Box const box({3, 8, -4}, {5, 2, -4});

  EXPECT_EQ(box.extent(0), 2);
  EXPECT_EQ(box.extent(1), 0);
  EXPECT_EQ(box.extent(2), 0);
  EXPECT_EQ(box.extents(), Indices({2, 0, 0}));
}

TEST(Box, refuses_ends_with_different_axes) {
  EXPECT_EQ(rule_of([] { Box({0, 0}, {1}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)intersection(Box({0}, {1}), Box({0, 0}, {1, 1})); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)grown(Box({0}, {1}), std::array<Width, 2>{}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)grown(Box({0}, {0}), std::array<Width, 2>{}); }), "AxesMismatch");
}

// Every pair of boxes in a small plane, cell by cell.
TEST(Box, intersection_and_containment_agree_with_cells) {
  std::mt19937_64 random(7);
  std::uniform_int_distribution<Index> end(-2, 4);
  auto const draw = [&] { return Box({end(random), end(random)}, {end(random), end(random)}); };
  int num_empty = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Box const a = draw();
    Box const b = draw();
    Box const both = intersection(a, b);
    num_empty += both.empty() ? 1 : 0;
    bool b_in_a = true;
    Index cells_of_both = 0;
    for (Index i = -3; i < 5; ++i)
      for (Index j = -3; j < 5; ++j) {
        bool const in_a = a.lo(0) <= i && i < a.hi(0) && a.lo(1) <= j && j < a.hi(1);
        bool const in_b = b.lo(0) <= i && i < b.hi(0) && b.lo(1) <= j && j < b.hi(1);
        ASSERT_EQ(a.contains(Indices{i, j}), in_a);
        ASSERT_EQ(both.contains(Indices{i, j}), in_a && in_b);
        cells_of_both += in_a && in_b ? 1 : 0;
        b_in_a = b_in_a && (!in_b || in_a);
      }
    ASSERT_EQ(both.num_cells(), cells_of_both) << to_string(a) << " and " << to_string(b);
    ASSERT_EQ(both.empty(), cells_of_both == 0);
    ASSERT_EQ(a.contains(b), b_in_a) << to_string(a) << " and " << to_string(b);
  }
  EXPECT_GT(num_empty, 100);
  EXPECT_LT(num_empty, 1990);
}

TEST(Box, contains_nothing_with_other_axes) {
  Box const box({0, 0}, {4, 4});

  EXPECT_FALSE(box.contains(Indices{1}));
  EXPECT_FALSE(box.contains(Indices{1, 1, 1}));
  EXPECT_FALSE(box.contains(Box({1}, {2})));
}

TEST(Box, grows_by_both_widths_of_each_axis) {
  Box const box({4, 0}, {6, 10});

  EXPECT_EQ(grown(box, std::array{Width{1, 2}, Width{3, 0}}), Box({3, -3}, {8, 10}));
  EXPECT_EQ(grown(box, std::array{Width{-1, 0}, Width{0, -4}}), Box({5, 0}, {6, 6}));
  EXPECT_TRUE(grown(box, std::array{Width{-1, -1}, Width{0, 0}}).empty());
}

TEST(Box, an_empty_box_does_not_grow) {
  Box const empty({4, 3}, {4, 9});

  EXPECT_EQ(grown(empty, std::array{Width{2, 2}, Width{1, 1}}), empty);
}

TEST(Box, prints_half_open_ranges) { EXPECT_EQ(to_string(Box({0, -3}, {61, 480})), "[0, 61) x [-3, 480)"); }

TEST(Box, prints_inclusive_ranges_from_1_where_fortran_calls) {
  {
    detail::SpeechScope const scope(detail::Speech::fortran);
    EXPECT_EQ(to_string(Box({0, -3}, {61, 480})), "(-2:480, 1:61)");
    EXPECT_EQ(to_string(Indices{61, 480}), "(480, 61)");
    EXPECT_EQ(detail::axis_text(0, 2), "dimension 2");
    EXPECT_EQ(detail::place_number(4), 5);
    EXPECT_EQ(detail::cell_text({4, 0}), "(1, 5)");
    EXPECT_EQ(detail::axes_text({1, 2, 0}, 3), "(3, 1, 2)");
  }

  EXPECT_EQ(to_string(Box({0, -3}, {61, 480})), "[0, 61) x [-3, 480)");
  EXPECT_EQ(detail::axis_text(0, 2), "axis 0");
  EXPECT_EQ(detail::place_number(4), 4);
  EXPECT_EQ(detail::cell_text({4, 0}), "(4, 0)");
  EXPECT_EQ(detail::axes_text({1, 2, 0}, 3), "(1, 2, 0)");
}

}  // namespace
