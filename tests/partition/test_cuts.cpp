// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace graticule;
using graticule::test::rule_of;

namespace {

TEST(Cuts, keep_the_given_sizes) {
  Cuts const cuts{61, 0, 60, 120};

  EXPECT_EQ(cuts.extent(), 241);
  EXPECT_EQ(cuts.num_parts(), 4);
  EXPECT_EQ(cuts.sizes(), (std::vector<Index>{61, 0, 60, 120}));
  EXPECT_EQ(cuts.lo(0), 0);
  EXPECT_EQ(cuts.hi(0), 61);
  EXPECT_EQ(cuts.lo(1), 61);
  EXPECT_EQ(cuts.hi(1), 61);
  EXPECT_EQ(cuts.lo(3), 121);
  EXPECT_EQ(cuts.hi(3), 241);
}

TEST(Cuts, find_the_part_of_every_cell_across_empty_parts) {
  std::mt19937_64 random(11);
  std::uniform_int_distribution<Index> size(0, 3);
  std::uniform_int_distribution<int> count(1, 9);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Index> sizes(std::size_t(count(random)));
    for (auto& s : sizes) s = size(random);
    Cuts const cuts(sizes);

    Index cell = 0;
    for (std::size_t p = 0; p < sizes.size(); ++p)
      for (Index i = 0; i < sizes[p]; ++i, ++cell) ASSERT_EQ(cuts.part_of(cell), int(p)) << "cell " << cell;
    ASSERT_EQ(cuts.extent(), cell);
  }
}

TEST(Cuts, refuse_bad_sizes) {
  EXPECT_EQ(rule_of([] { Cuts{3, -1, 4}; }), "BadCuts");
  EXPECT_EQ(rule_of([] { Cuts(std::vector<Index>{}); }), "BadCuts");
  EXPECT_EQ(rule_of([] { Cuts{std::numeric_limits<Index>::max(), 1}; }), "BadCuts");
}

TEST(BalancedCuts, follow_the_formula) {
  for (Index n : {0, 1, 2, 3, 7, 10, 64, 241, 480})
    for (int parts : {1, 2, 3, 4, 7, 10, 300}) {
      auto const cuts = balanced_cuts(n, parts);

      ASSERT_EQ(cuts.num_parts(), parts);
      ASSERT_EQ(cuts.extent(), n);
      for (Index p = 0; p < parts; ++p)
        ASSERT_EQ(cuts.lo(int(p)), p * (n / parts) + std::min(p, n % parts)) << n << " in " << parts << ", part " << p;
    }
}

TEST(BalancedCuts, handle_extents_beyond_32_bits) {
  Index const n = (Index(1) << 40) + 1;
  auto const cuts = balanced_cuts(n, 2);

  EXPECT_EQ(cuts.hi(0), (Index(1) << 39) + 1);
  EXPECT_EQ(cuts.hi(1), n);
}

TEST(BalancedCuts, refuse_bad_arguments) {
  EXPECT_EQ(rule_of([] { (void)balanced_cuts(-1, 2); }), "BadCuts");
  EXPECT_EQ(rule_of([] { (void)balanced_cuts(4, 0); }), "BadCuts");
  EXPECT_EQ(rule_of([] { (void)balanced_cuts(4, -3); }), "BadCuts");
}

double heaviest(std::vector<double> const& weights, Cuts const& cuts) {
  double result = 0;
  for (int p = 0; p < cuts.num_parts(); ++p)
    result = std::max(result, std::accumulate(weights.begin() + cuts.lo(p), weights.begin() + cuts.hi(p), 0.0));
  return result;
}

/// Lightest heaviest part over all ways to cut `weights[begin..]` into `num_parts` runs of `min_cells` or more.
double best_of_all_cuts(std::vector<double> const& weights, std::size_t begin, int num_parts,
                        std::size_t min_cells = 0) {
  double best = std::numeric_limits<double>::infinity();
  double part = 0;
  for (std::size_t end = begin; end <= weights.size(); ++end) {
    bool const long_enough = end - begin >= min_cells;
    if (num_parts == 1 && end == weights.size() && long_enough) best = std::min(best, part);
    if (num_parts > 1 && long_enough)
      best = std::min(best, std::max(part, best_of_all_cuts(weights, end, num_parts - 1, min_cells)));
    if (end < weights.size()) part += weights[end];
  }
  return best;
}

void expect_best_cuts(std::vector<double> const& weights, int num_parts) {
  auto const cuts = weighted_cuts(weights, num_parts);
  ASSERT_EQ(cuts.num_parts(), num_parts);
  ASSERT_EQ(cuts.extent(), Index(weights.size()));
  double const best = best_of_all_cuts(weights, 0, num_parts);
  ASSERT_LE(heaviest(weights, cuts), best * (1 + 1e-11));
  if (Index(weights.size()) >= num_parts) {
    for (int p = 0; p < num_parts; ++p) ASSERT_GE(cuts.size(p), 1) << "part " << p << " of " << num_parts;
  } else {
    for (int p = 0; p < num_parts; ++p) ASSERT_LE(cuts.size(p), 1) << "part " << p << " of " << num_parts;
  }
}

TEST(WeightedCuts, are_as_good_as_the_best_of_all_cuts) {
  std::mt19937_64 random(3);
  std::uniform_int_distribution<int> count(1, 9);
  std::uniform_int_distribution<int> parts(1, 5);
  std::uniform_int_distribution<int> integer(0, 9);
  std::uniform_real_distribution<double> real(0, 1);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> weights(std::size_t(count(random)));
    bool const whole = trial % 2 == 0;
    for (auto& w : weights) w = whole ? integer(random) : real(random) * std::pow(10.0, integer(random) - 5);
    SCOPED_TRACE("trial " + std::to_string(trial));
    expect_best_cuts(weights, parts(random));
  }
}

TEST(WeightedCuts, handle_extreme_weights) {
  for (std::vector<double> const& weights : std::vector<std::vector<double>>{
           {0, 0, 0, 0, 0},
           {0, 0, 0, 0, 7},
           {7, 0, 0, 0, 0},
           {1e-200, 2e-200, 3e-200, 1e-200},
           {1e300, 1e300, 1e-300, 1e300},
           {1e15, 1, 1, 1, 1, 1e15},
           {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
       })
    for (int parts = 1; parts <= 6; ++parts) expect_best_cuts(weights, parts);
}

TEST(WeightedCuts, of_the_documented_example) {
  std::vector<double> const weights{3, 1, 1, 1};

  EXPECT_EQ(weighted_cuts(weights, 2).sizes(), (std::vector<Index>{1, 3}));
}

TEST(WeightedCuts, give_no_cell_to_any_part_of_an_empty_axis) {
  EXPECT_EQ(weighted_cuts({}, 3).sizes(), (std::vector<Index>{0, 0, 0}));
}

TEST(WeightedCuts, refuse_bad_weights) {
  auto const rule = [](double weight, int parts) {
    return rule_of([&] { (void)weighted_cuts(std::vector<double>{1, weight, 1}, parts); });
  };

  EXPECT_EQ(rule(-1e-9, 2), "BadCuts");
  EXPECT_EQ(rule(std::nan(""), 2), "BadCuts");
  EXPECT_EQ(rule(std::numeric_limits<double>::infinity(), 2), "BadCuts");
  EXPECT_EQ(rule(1, 0), "BadCuts");
  EXPECT_EQ(rule(1, 2), "nothing was thrown");
}

TEST(WeightedCuts, keep_the_least_size_and_are_as_good_as_the_best_of_those) {
  std::mt19937_64 random(5);
  std::uniform_int_distribution<Index> least(2, 4);
  std::uniform_int_distribution<int> parts(1, 4);
  std::uniform_int_distribution<int> integer(0, 9);
  int num_harder = 0;
  for (int trial = 0; trial < 600; ++trial) {
    Index const min_cells = least(random);
    int const num_parts = parts(random);
    std::vector<double> weights(std::size_t(num_parts * min_cells + integer(random) % 5));
    for (auto& w : weights) w = integer(random);
    SCOPED_TRACE("trial " + std::to_string(trial));

    auto const cuts = weighted_cuts(weights, num_parts, min_cells);

    ASSERT_EQ(cuts.num_parts(), num_parts);
    ASSERT_EQ(cuts.extent(), Index(weights.size()));
    for (int p = 0; p < num_parts; ++p) ASSERT_GE(cuts.size(p), min_cells);
    double const best = best_of_all_cuts(weights, 0, num_parts, std::size_t(min_cells));
    ASSERT_LE(heaviest(weights, cuts), best * (1 + 1e-11));
    num_harder += best > best_of_all_cuts(weights, 0, num_parts, 1) ? 1 : 0;
  }
  EXPECT_GT(num_harder, 50);
}

// Greed would give three rows to the first part and both heavy ones to the second.
TEST(WeightedCuts, do_not_leave_two_heavy_cells_to_one_part) {
  std::vector<double> const weights{1, 1, 1, 9, 9, 1};

  EXPECT_EQ(weighted_cuts(weights, 3, 2).sizes(), (std::vector<Index>{2, 2, 2}));
}

TEST(WeightedCuts, refuse_a_least_size_that_does_not_fit) {
  std::vector<double> const weights{1, 1, 1, 1, 1};

  EXPECT_EQ(rule_of([&] { (void)weighted_cuts(weights, 2, 3); }), "BadCuts");
  EXPECT_EQ(weighted_cuts(weights, 2, 2).num_parts(), 2);
}

TEST(RebalancedCuts, of_the_documented_example) {
  std::vector<double> const seconds{3, 1};

  EXPECT_EQ(rebalanced_cuts(Cuts{5, 5}, seconds).sizes(), (std::vector<Index>{3, 7}));
}

// Rows that really cost different amounts: a few rounds of measuring and cutting come within a row of the best cuts.
TEST(RebalancedCuts, come_close_to_equal_times_in_a_few_rounds) {
  auto const cost = [](Index row) { return row < 100 ? 1.0 : 3.0; };
  auto const times = [&](Cuts const& cuts) {
    std::vector<double> seconds;
    for (int p = 0; p < cuts.num_parts(); ++p) {
      seconds.push_back(0);
      for (Index row = cuts.lo(p); row < cuts.hi(p); ++row) seconds.back() += cost(row);
    }
    return seconds;
  };
  auto cuts = balanced_cuts(241, 4);
  auto const first = times(cuts);
  double const before = *std::max_element(first.begin(), first.end());

  for (int round = 0; round < 4; ++round) cuts = rebalanced_cuts(cuts, times(cuts));

  auto const seconds = times(cuts);
  double const mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / 4;
  EXPECT_GT(before, 1.3 * mean);
  EXPECT_LE(*std::max_element(seconds.begin(), seconds.end()), mean + 3);
}

TEST(RebalancedCuts, keep_the_least_size_and_forget_empty_parts) {
  std::vector<double> const seconds{100, 0, 1};

  auto const cuts = rebalanced_cuts(Cuts{4, 0, 8}, seconds, 2);

  EXPECT_EQ(cuts.sizes(), (std::vector<Index>{2, 2, 8}));
}

TEST(RebalancedCuts, refuse_times_that_say_nothing) {
  for (std::vector<double> const& seconds :
       std::vector<std::vector<double>>{{1}, {1, 1, 1}, {1, -1}, {1, std::nan("")}, {1, 0}})
    EXPECT_EQ(rule_of([&] { (void)rebalanced_cuts(Cuts{5, 5}, seconds); }), "BadCuts");
}

TEST(MaskedCuts, leave_nothing_to_idle_places) {
  EXPECT_EQ(masked_cuts(balanced_cuts(10, 3), {true, false, true, true}).sizes(), (std::vector<Index>{4, 0, 3, 3}));
  EXPECT_EQ(rule_of([] { (void)masked_cuts(balanced_cuts(10, 3), {true, false, true}); }), "BadCuts");
}

TEST(AreaWeights, are_bands_of_the_sphere) {
  auto const on_poles = area_weights(3, PoleRows::on_pole);
  auto const half_way = area_weights(2, PoleRows::half_way);

  ASSERT_EQ(on_poles.size(), 3U);
  EXPECT_NEAR(on_poles[0], 0.1464466094, 1e-9);
  EXPECT_NEAR(on_poles[1], 0.7071067812, 1e-9);
  EXPECT_NEAR(on_poles[2], 0.1464466094, 1e-9);
  EXPECT_NEAR(half_way[0], 0.5, 1e-15);
  for (PoleRows const poles : {PoleRows::on_pole, PoleRows::half_way})
    for (Index rows : {1, 2, 5, 180, 721}) {
      auto const weights = area_weights(rows, poles);
      EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12) << rows;
    }
  EXPECT_TRUE(area_weights(0, PoleRows::half_way).empty());
}

TEST(AreaWeights, of_latitudes_from_either_side_are_the_same_bands) {
  std::vector<double> const north{80, 30, -20, -70};
  std::vector<double> const south{-70, -20, 30, 80};

  auto const down = area_weights(north);
  auto up = area_weights(south);
  std::reverse(up.begin(), up.end());

  // Half-way between 80 and 30 lies 55: (1 - sin 55) / 2.
  EXPECT_NEAR(down[0], (1 - std::sin(55 * std::acos(-1.0) / 180)) / 2, 1e-15);
  for (std::size_t row = 0; row < 4; ++row) EXPECT_NEAR(down[row], up[row], 1e-15);
}

TEST(AreaWeights, of_a_region_end_half_a_spacing_beyond_its_rows) {
  auto const sine = [](double degrees) { return std::sin(degrees * std::acos(-1.0) / 180); };

  auto const weights = area_weights(std::vector<double>{30, 32, 36});

  EXPECT_NEAR(weights[0], (sine(31) - sine(29)) / 2, 1e-15);
  EXPECT_NEAR(weights[1], (sine(34) - sine(31)) / 2, 1e-15);
  EXPECT_NEAR(weights[2], (sine(38) - sine(34)) / 2, 1e-15);
}

TEST(AreaWeights, of_global_rows_sum_to_one) {
  std::vector<double> with_poles;
  for (int i = 0; i < 241; ++i) with_poles.push_back(90 - 0.75 * i);
  std::vector<double> without_poles;
  for (int i = 0; i < 90; ++i) without_poles.push_back(-89 + 2.0 * i);
  for (auto const& latitudes : {with_poles, without_poles, {90.0000001, 0, -90.0000001}}) {
    auto const weights = area_weights(latitudes);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-14);
  }
  // The cap between the pole and 89.625 degrees north.
  EXPECT_NEAR(area_weights(with_poles)[0], 0.5 * (1 - std::sin(89.625 * std::acos(-1.0) / 180)), 1e-15);
}

TEST(AreaWeights, refuse_latitudes_that_turn_back_or_leave_the_sphere) {
  for (std::vector<double> const& latitudes :
       std::vector<std::vector<double>>{{0, 10, 10}, {0, 10, 5}, {-91, 0}, {0, 100}, {0, std::nan("")}})
    EXPECT_EQ(rule_of([&] { (void)area_weights(latitudes); }), "BadCoordinates");
}

TEST(WeightedCuts, balances_weights_whose_sum_overflows) {
  std::vector<double> const heavy(4, 1e308);

  EXPECT_EQ(weighted_cuts(heavy, 2).sizes(), (std::vector<Index>{2, 2}));
}

}  // namespace
