// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

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

/// Lightest heaviest part over all ways to cut `weights[begin..]` into `num_parts` runs.
double best_of_all_cuts(std::vector<double> const& weights, std::size_t begin, int num_parts) {
  if (num_parts == 1) return std::accumulate(weights.begin() + std::ptrdiff_t(begin), weights.end(), 0.0);
  double best = std::numeric_limits<double>::infinity();
  double part = 0;
  for (std::size_t end = begin; end <= weights.size(); ++end) {
    best = std::min(best, std::max(part, best_of_all_cuts(weights, end, num_parts - 1)));
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

}  // namespace
