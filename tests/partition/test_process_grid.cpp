// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/process_grid.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <vector>

using namespace graticule;
using graticule::test::rule_of;

namespace {

TEST(ProcessGrid, numbers_ranks_with_the_last_axis_fastest) {
  ProcessGrid const grid{2, 3, 4};

  ASSERT_EQ(grid.num_ranks(), 24);
  int rank = 0;
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k, ++rank) {
        EXPECT_EQ(grid.coords(rank), Indices({i, j, k}));
        EXPECT_EQ(grid.rank({i, j, k}), rank);
      }
}

TEST(ProcessGrid, puts_rank_4_of_2_by_3_at_1_1) { EXPECT_EQ(ProcessGrid({2, 3}).coords(4), Indices({1, 1})); }

TEST(ProcessGrid, refuses_bad_extents) {
  for (Indices const& extents :
       std::vector<Indices>{{0}, {2, 0}, {-1, -2}, {1 << 16, 1 << 16}, {Index(1) << 62, 4}, {Index(1) << 31}})
    EXPECT_EQ(rule_of([&] { ProcessGrid{extents}; }), "BadProcessGrid") << to_string(extents);
  EXPECT_EQ(ProcessGrid({(Index(1) << 31) - 1}).num_ranks(), 2147483647);
}

TEST(ProcessGrid, refuses_ranks_and_coordinates_outside) {
  ProcessGrid const grid{2, 3};

  for (int rank : {-1, 6, 7}) EXPECT_EQ(rule_of([&] { (void)grid.coords(rank); }), "BadRank") << rank;
  for (Indices const& coords : std::vector<Indices>{{-1, 0}, {2, 0}, {0, 3}, {0}, {0, 0, 0}})
    EXPECT_EQ(rule_of([&] { (void)grid.rank(coords); }), "BadRank") << to_string(coords);
}

}  // namespace
