// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cells.hpp>

#include <gtest/gtest.h>

#include <vector>

using namespace graticule;

namespace {

std::vector<Indices> cells_of(Box const& box) {
  std::vector<Indices> cells;
  for_each_cell(box, [&](Indices const& cell) { cells.push_back(cell); });
  return cells;
}

TEST(ForEachCell, visits_each_cell_once_in_row_major_order) {
  std::vector<Indices> expected;
  for (Index i = -2; i < 1; ++i)
    for (Index j = 5; j < 7; ++j)
      for (Index k = 0; k < 4; ++k) expected.push_back({i, j, k});

  EXPECT_EQ(cells_of(Box({-2, 5, 0}, {1, 7, 4})), expected);
}

TEST(ForEachCell, of_an_axis_of_one_cell_goes_on_with_the_others) {
  EXPECT_EQ(cells_of(Box({3, 0}, {4, 2})), (std::vector<Indices>{{3, 0}, {3, 1}}));
  EXPECT_EQ(cells_of(Box({0, 3}, {2, 4})), (std::vector<Indices>{{0, 3}, {1, 3}}));
}

TEST(ForEachCell, visits_no_cell_of_an_empty_box_and_one_without_axes) {
  EXPECT_TRUE(cells_of(Box({0, 4}, {7, 4})).empty());
  EXPECT_TRUE(cells_of(Box({4, 0}, {2, 7})).empty());
  EXPECT_EQ(cells_of(Box()), std::vector<Indices>{Indices()});
}

}  // namespace
