// SPDX-License-Identifier: BSD-3-Clause
#include "assignment.hpp"
#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace graticule;
using detail::Assignment;
using detail::best_assignment;
using detail::Effort;
using detail::Gains;
using test::draw;
using test::Random;

namespace {

struct Instance {
  Gains gains;
  int num_columns = 0;
  Index largest = 0;  ///< the rows' largest gains, summed
};

enum class Kind { any, products, few_sizes, sparse };

Index random_gain(Random& random, Kind kind, Index row, Index column) {
  switch (kind) {
    case Kind::any: return draw(random, 0, 1000000);
    case Kind::products: return row * column;
    case Kind::few_sizes: return 1000 * draw(random, 0, 2);
    default: return draw(random, 0, 3) == 0 ? draw(random, 1, 1000) : -1;
  }
}

/// Rows may have no entries, entries may gain nothing, and columns may be fewer than rows.
Instance random_instance(Random& random, Kind kind, int most) {
  Instance result;
  result.num_columns = int(draw(random, 1, most));
  auto const num_rows = draw(random, 1, most);
  std::vector<Index> sizes;
  for (int column = 0; column < result.num_columns; ++column) sizes.push_back(draw(random, 0, 500));
  for (Index row = 0; row < num_rows; ++row) {
    Index const size = draw(random, 0, 500);
    Index best = 0;
    for (int column = 0; column < result.num_columns; ++column) {
      Index const gain = random_gain(random, kind, size, sizes[std::size_t(column)]);
      if (gain < 0) continue;
      result.gains.add(column, gain);
      best = std::max(best, gain);
    }
    result.gains.end_row();
    result.largest += best;
  }
  return result;
}

/// The sum of gains; fails where a column is taken twice, or by a row without an entry for it.
Index sum_of(Instance const& instance, Assignment const& assignment) {
  EXPECT_EQ(assignment.column_of.size(), instance.gains.num_rows());
  Index sum = 0;
  std::set<int> taken;
  for (std::size_t row = 0; row < assignment.column_of.size(); ++row) {
    int const column = assignment.column_of[row];
    if (column < 0) continue;
    EXPECT_TRUE(taken.insert(column).second) << "column " << column;
    auto const entries = instance.gains.row(row);
    auto const entry =
        std::find_if(entries.begin(), entries.end(), [&](auto const& gain) { return gain.column == column; });
    if (entry == entries.end()) {
      ADD_FAILURE() << "row " << row << " has no entry for column " << column;
      continue;
    }
    sum += entry->gain;
  }
  return sum;
}

TEST(Assignment, an_approximate_sum_is_as_close_as_it_says_and_as_promised) {
  Random random(61);
  int num_short = 0;
  for (auto const kind : {Kind::any, Kind::products, Kind::few_sizes, Kind::sparse}) {
    for (int trial = 0; trial < 100; ++trial) {
      auto const instance = random_instance(random, kind, trial < 90 ? 40 : 150);
      auto const& [gains, num_columns, largest] = instance;
      auto const exact = best_assignment(gains, num_columns);
      Index const most = sum_of(instance, exact);
      ASSERT_EQ(exact.short_of, 0);

      for (Index const slack : {Index(0), largest / 40, largest}) {
        auto const found = best_assignment(gains, num_columns, {.exact_entries = -1, .most_steps = -1, .slack = slack});

        Index const sum = sum_of(instance, found);
        ASSERT_LE(sum, most);
        ASSERT_GE(sum + found.short_of, most);
        auto const promised = std::max(largest / 64, std::min(largest / 16, slack));
        ASSERT_LE(found.short_of, promised + Index(gains.num_rows()));
        num_short += sum < most;
      }
    }
  }
  EXPECT_GT(num_short, 20);
}

TEST(Assignment, is_exact_for_few_entries_and_where_the_search_ends_in_time) {
  Random random(67);
  auto const instance = random_instance(random, Kind::products, 150);
  auto const& gains = instance.gains;
  Index const most = sum_of(instance, best_assignment(gains, instance.num_columns));
  Effort const few{.exact_entries = gains.num_entries(), .most_steps = -1};
  Effort const in_time{.exact_entries = -1, .most_steps = gains.num_entries() * Index(gains.num_rows())};

  for (auto const& effort : {few, in_time}) {
    auto const found = best_assignment(gains, instance.num_columns, effort);

    EXPECT_EQ(found.short_of, 0);
    EXPECT_EQ(sum_of(instance, found), most);
  }
}

TEST(Assignment, of_no_rows_is_empty) {
  auto const found = best_assignment(Gains(), 3, {.exact_entries = -1, .most_steps = -1});

  EXPECT_TRUE(found.column_of.empty());
  EXPECT_EQ(found.short_of, 0);
}

}  // namespace
