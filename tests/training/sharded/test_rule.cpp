// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/shard_rule.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace graticule {
namespace test_rule {

TEST(ShardRule, gives_the_last_ranks_fewer_rows_then_none) {
  struct Case {
    std::int64_t num_rows;
    int num_ranks;
    std::vector<training::detail::ShardRows> rows;
  };
  std::vector<Case> const cases{{5, 4, {{0, 2}, {2, 4}, {4, 5}, {5, 5}}},
                                {6, 3, {{0, 2}, {2, 4}, {4, 6}}},
                                {1, 3, {{0, 1}, {1, 1}, {1, 1}}},
                                {0, 2, {{0, 0}, {0, 0}}},
                                {9, 1, {{0, 9}}}};
  for (auto const& [num_rows, num_ranks, rows] : cases) {
    for (int r = 0; r < num_ranks; ++r)
      EXPECT_EQ(training::detail::shard_rows(num_rows, num_ranks, r), rows[std::size_t(r)])
          << num_rows << " rows, rank " << r;
  }
}

TEST(ShardRule, counts_a_tensor_without_axes_as_one_row) {
  EXPECT_EQ(training::detail::num_rows_of(torch::zeros({})), 1);
  EXPECT_EQ(training::detail::num_rows_of(torch::zeros({7})), 7);
  EXPECT_EQ(training::detail::num_rows_of(torch::zeros({0, 3})), 0);
  EXPECT_EQ(training::detail::num_rows_of(torch::zeros({4, 3, 2})), 4);
  EXPECT_EQ((training::detail::ShardRows{3, 8}).size(), 5);
}

}  // namespace test_rule
}  // namespace graticule
