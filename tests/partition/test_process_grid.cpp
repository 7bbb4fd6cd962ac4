// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/factorizations.hpp>
#include <graticule/partition/detail/numbering.hpp>
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

TEST(Factorizations, are_all_products_within_the_bounds) {
  EXPECT_EQ(detail::factorizations(4, {1, 1}, {4, 4}), (std::vector<Indices>{{4, 1}, {2, 2}, {1, 4}}));
  EXPECT_EQ(detail::factorizations(4, {1, 1}, {4, 3}), (std::vector<Indices>{{4, 1}, {2, 2}}));
  EXPECT_EQ(detail::factorizations(12, {0, 3, 1}, {6, 3, 9}), (std::vector<Indices>{{4, 3, 1}, {2, 3, 2}, {1, 3, 4}}));
  EXPECT_EQ(detail::factorizations(65536, {1, 1, 1}, {65536, 65536, 65536}).size(), 153U);
  EXPECT_TRUE(detail::factorizations(7, {1, 1}, {6, 6}).empty());
  EXPECT_TRUE(detail::factorizations(0, {1}, {6}).empty());
}

TEST(ProcessGrid, refuses_bad_extents) {
  for (Indices const& extents :
       std::vector<Indices>{{0}, {2, 0}, {-1, -2}, {1 << 16, 1 << 16}, {Index(1) << 62, 4}, {Index(1) << 31}})
    EXPECT_EQ(rule_of([&] { ProcessGrid{extents}; }), "BadProcessGrid") << to_string(extents);
  EXPECT_EQ(ProcessGrid({(Index(1) << 31) - 1}).num_ranks(), 2147483647);
}

TEST(ProcessGrid, refuses_ranks_and_coordinates_outside) {
  ProcessGrid const grid{2, 3};

  for (int rank : {-1, 6, 7}) EXPECT_EQ(rule_of([&] { (void)grid.coords(rank); }), "OutOfRange") << rank;
  for (Indices const& coords : std::vector<Indices>{{-1, 0}, {2, 0}, {0, 3}, {0}, {0, 0, 0}})
    EXPECT_EQ(rule_of([&] { (void)grid.rank(coords); }), "OutOfRange") << to_string(coords);
}

TEST(ProcessGrid, fills_blocks_with_consecutive_ranks) {
  auto const grid = ProcessGrid::in_blocks({4, 4}, {2, 2});

  EXPECT_EQ(grid.coords(0), Indices({0, 0}));
  EXPECT_EQ(grid.coords(1), Indices({0, 1}));
  EXPECT_EQ(grid.coords(2), Indices({1, 0}));
  EXPECT_EQ(grid.coords(3), Indices({1, 1}));
  EXPECT_EQ(grid.coords(4), Indices({0, 2}));
  EXPECT_EQ(grid.coords(8), Indices({2, 0}));
  EXPECT_EQ(grid.place(4), 2);
  EXPECT_EQ(grid.rank_at(2), 4);
  EXPECT_FALSE(grid.in_order());
}

/// Every order is one to one, and each way to ask gives the same answer.
void expect_one_to_one(ProcessGrid const& grid) {
  std::vector<int> seen(std::size_t(grid.last_rank()) + 1, 0);
  for (int place = 0; place < grid.num_ranks(); ++place) {
    int const rank = grid.rank_at(place);
    auto const coords = coords_of(place, grid.extents());
    ASSERT_EQ(number_of(coords, grid.extents()), place);
    ASSERT_EQ(grid.rank(coords), rank);
    ASSERT_EQ(grid.place(rank), place);
    ASSERT_EQ(grid.coords(rank), coords);
    ASSERT_TRUE(grid.has_place(rank));
    ++seen[std::size_t(rank)];
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank)
    ASSERT_EQ(seen[rank], grid.has_place(int(rank)) ? 1 : 0) << rank << " in " << to_string(grid);
  ASSERT_EQ(rule_of([&] { (void)grid.coords(grid.last_rank() + 1); }), "OutOfRange");
}

TEST(ProcessGrid, numbers_ranks_one_to_one_in_every_order) {
  for (Indices const& block : std::vector<Indices>{{1, 1, 1}, {2, 1, 1}, {1, 3, 2}, {4, 2, 2}, {2, 6, 4}, {4, 6, 4}})
    expect_one_to_one(ProcessGrid::in_blocks({4, 6, 4}, block));
  expect_one_to_one(ProcessGrid::on_ranks({2, 3}, {5, 0, 3, 1, 4, 2}));
  expect_one_to_one(ProcessGrid::on_ranks({3, 1}, {7, 2, 4}));
}

TEST(ProcessGrid, leaves_ranks_idle_that_the_list_leaves_out) {
  auto const grid = ProcessGrid::on_ranks({2, 1}, {3, 1});

  EXPECT_EQ(grid.num_ranks(), 2);
  EXPECT_EQ(grid.last_rank(), 3);
  EXPECT_EQ(grid.coords(3), Indices({0, 0}));
  EXPECT_EQ(grid.coords(1), Indices({1, 0}));
  for (int idle : {-1, 0, 2, 4}) {
    EXPECT_FALSE(grid.has_place(idle));
    EXPECT_EQ(rule_of([&] { (void)grid.coords(idle); }), "OutOfRange") << idle;
    EXPECT_EQ(rule_of([&] { (void)grid.place(idle); }), "OutOfRange") << idle;
  }
}

TEST(ProcessGrid, knows_orders_that_change_nothing) {
  for (Indices const& block : std::vector<Indices>{{1, 1}, {1, 2}, {1, 4}, {2, 4}, {6, 4}})
    EXPECT_EQ(ProcessGrid::in_blocks({6, 4}, block), ProcessGrid({6, 4})) << to_string(block);
  EXPECT_EQ(ProcessGrid::in_blocks({6, 1}, {3, 1}), ProcessGrid({6, 1}));
  EXPECT_EQ(ProcessGrid::on_ranks({2, 2}, {0, 1, 2, 3}), ProcessGrid({2, 2}));
  EXPECT_TRUE(ProcessGrid::in_blocks({6, 4}, {2, 4}).in_order());
  EXPECT_FALSE(ProcessGrid::in_blocks({6, 4}, {2, 2}).in_order());
}

TEST(ProcessGrid, tells_orders_apart) {
  std::vector<ProcessGrid> const grids{ProcessGrid{4, 4},
                                       ProcessGrid{2, 8},
                                       ProcessGrid::in_blocks({4, 4}, {2, 2}),
                                       ProcessGrid::in_blocks({4, 4}, {4, 1}),
                                       ProcessGrid::on_ranks({2, 2}, {0, 1, 3, 2}),
                                       ProcessGrid::on_ranks({2, 2}, {0, 2, 1, 3}),
                                       ProcessGrid::on_ranks({2, 2}, {0, 1, 2, 4})};
  for (std::size_t i = 0; i < grids.size(); ++i)
    for (std::size_t j = 0; j < grids.size(); ++j) {
      EXPECT_EQ(grids[i] == grids[j], i == j) << i << " and " << j;
      EXPECT_EQ(grids[i].fingerprint() == grids[j].fingerprint(), i == j) << i << " and " << j;
    }
  EXPECT_EQ(ProcessGrid::on_ranks({2, 2}, {0, 1, 3, 2}), grids[4]);
  EXPECT_EQ(to_string(grids[0]), "4x4");
  EXPECT_EQ(to_string(grids[2]), "4x4 (blocks of 2x2)");
  EXPECT_EQ(to_string(grids[4]), "2x2 (reordered)");
}

TEST(ProcessGrid, refuses_orders_that_do_not_fit) {
  for (Indices const& block : std::vector<Indices>{{3, 1}, {2}, {2, 0}, {-2, 2}, {8, 4}})
    EXPECT_EQ(rule_of([&] { (void)ProcessGrid::in_blocks({4, 4}, block); }), "BadProcessGrid") << to_string(block);
  for (std::vector<int> const& ranks : std::vector<std::vector<int>>{{}, {0, 1, 2}, {0, 1, 2, 2}, {0, 1, 2, -1}})
    EXPECT_EQ(rule_of([&] { (void)ProcessGrid::on_ranks({2, 2}, ranks); }), "BadProcessGrid");
}

}  // namespace
