// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/sharding.hpp>

#include <gtest/gtest.h>

namespace graticule {
namespace test_sharding {

using nn::Sharding;

TEST(Sharding, prints_each_axis_that_is_cut_and_its_parts) {
  EXPECT_EQ(to_string(Sharding{{-2, -1}, ProcessGrid{4, 1}}), "axis -2 in 4, axis -1 in 1");
  EXPECT_EQ(to_string(Sharding{{-3}, ProcessGrid{4}}), "axis -3 in 4");
  EXPECT_EQ(to_string(Sharding{{}, ProcessGrid(Indices())}), "no axis cut");
}

TEST(Sharding, is_equal_with_the_same_axes_in_the_same_order_and_grid) {
  Sharding const rows_and_columns{{-2, -1}, ProcessGrid{2, 3}};

  EXPECT_EQ(rows_and_columns, (Sharding{{-2, -1}, ProcessGrid{2, 3}}));
  EXPECT_NE(rows_and_columns, (Sharding{{-1, -2}, ProcessGrid{2, 3}}));
  EXPECT_NE(rows_and_columns, (Sharding{{-2, -1}, ProcessGrid{3, 2}}));
  EXPECT_NE(rows_and_columns, (Sharding{{-3, -1}, ProcessGrid{2, 3}}));
}

}  // namespace test_sharding
}  // namespace graticule
