// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/latitude_rule.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace graticule {
namespace test_latitude_rule {

using nn::latitude_rule;
using nn::LatitudeGrid;
using test::rule_of;

constexpr std::array grids{LatitudeGrid::gaussian, LatitudeGrid::half_way, LatitudeGrid::both_poles,
                           LatitudeGrid::one_pole, LatitudeGrid::no_pole};

TEST(LatitudeRule, integrates_polynomials_up_to_its_degree) {
  for (auto const grid : grids) {
    for (Index const n : {2, 3, 4, 7, 8, 33, 180}) {
      auto const rule = latitude_rule(grid, n);
      auto const exact = grid == LatitudeGrid::gaussian ? 2 * n - 1 : grid == LatitudeGrid::one_pole ? n - 2 : n - 1;
      SCOPED_TRACE(to_string(rule));
      ASSERT_EQ(rule.num_rows(), n);
      for (Index degree = 0; degree <= exact; ++degree) {
        double sum = 0;
        for (std::size_t i = 0; i < std::size_t(n); ++i)
          sum += rule.weights[i] * std::legendre(unsigned(degree), rule.sines[i]);
        EXPECT_NEAR(sum, degree == 0 ? 2 : 0, 1e-13) << degree;
      }
      EXPECT_GE(exact, 2 * (rule.num_degrees - 1));
      EXPECT_LT(exact, 2 * rule.num_degrees);
    }
  }
}

TEST(LatitudeRule, rows_are_where_the_grids_say) {
  using Rows = std::vector<double>;
  EXPECT_EQ(latitude_rule(LatitudeGrid::half_way, 4).latitudes, (Rows{67.5, 22.5, -22.5, -67.5}));
  EXPECT_EQ(latitude_rule(LatitudeGrid::both_poles, 3).latitudes, (Rows{90, 0, -90}));
  EXPECT_EQ(latitude_rule(LatitudeGrid::one_pole, 4).latitudes, (Rows{90, 45, 0, -45}));
  EXPECT_EQ(latitude_rule(LatitudeGrid::no_pole, 3).latitudes, (Rows{45, 0, -45}));
  auto const gaussian = latitude_rule(LatitudeGrid::gaussian, 2);
  EXPECT_DOUBLE_EQ(gaussian.sines[0], 1 / std::sqrt(3.0));
  EXPECT_NEAR(gaussian.latitudes[1], -35.264389682754654, 1e-14);
  auto const poles = latitude_rule(LatitudeGrid::both_poles, 3);
  EXPECT_NEAR(poles.weights[0], 1.0 / 3, 1e-15);
  EXPECT_NEAR(poles.weights[1], 4.0 / 3, 1e-15);
}

TEST(LatitudeRule, finds_the_grid_of_rounded_latitudes_from_either_side) {
  auto const seen = [](nn::LatitudeRule const& rule, auto const& round) {
    std::vector<double> values;
    for (auto const latitude : rule.latitudes) values.push_back(round(latitude));
    return values;
  };
  auto const single = [](double x) { return double(float(x)); };
  auto const decimals = [](double x) { return std::round(x * 1000) / 1000; };
  for (auto const grid : grids) {
    for (Index const n : {2, 3, 32, 121, 721}) {
      auto const rule = latitude_rule(grid, n);
      SCOPED_TRACE(to_string(rule));
      for (auto const& values : {seen(rule, single), seen(rule, decimals)}) {
        auto const found = latitude_rule(values);
        EXPECT_EQ(found.grid, grid);
        EXPECT_EQ(found.latitudes, rule.latitudes);
        EXPECT_EQ(found.weights, rule.weights);
        auto const northward = latitude_rule(std::vector<double>(values.rbegin(), values.rend()));
        EXPECT_EQ(northward.grid, grid);
        EXPECT_EQ(northward.latitudes, std::vector<double>(rule.latitudes.rbegin(), rule.latitudes.rend()));
        EXPECT_EQ(northward.sines, std::vector<double>(rule.sines.rbegin(), rule.sines.rend()));
        EXPECT_EQ(northward.weights, std::vector<double>(rule.weights.rbegin(), rule.weights.rend()));
      }
    }
  }
  // 720 of 721 rows, with the south pole instead of the north pole.
  std::vector<double> southern;
  for (int i = 1; i <= 720; ++i) southern.push_back(90 - 0.25 * i);
  auto const rule = latitude_rule(southern);
  EXPECT_EQ(rule.grid, LatitudeGrid::one_pole);
  EXPECT_EQ(rule.latitudes, southern);
  EXPECT_EQ(rule.weights.back(), 0);
}

TEST(LatitudeRule, refuses_latitudes_of_no_grid) {
  auto const refused = [](std::vector<double> const& latitudes) {
    return rule_of([&] { (void)latitude_rule(latitudes); }) == "BadCoordinates";
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({60, 30, 0}));
  EXPECT_TRUE(refused({45, 10, -45}));
  EXPECT_TRUE(refused({90, 0.02, -90}));
  EXPECT_TRUE(refused({90, std::nan(""), -90}));
  EXPECT_TRUE(refused({-67.5, 22.5, -22.5, 67.5}));
  EXPECT_EQ(rule_of([] { (void)latitude_rule(LatitudeGrid::both_poles, 1); }), "BadCoordinates");
  EXPECT_EQ(rule_of([] { (void)latitude_rule(LatitudeGrid::gaussian, 0); }), "BadCoordinates");
  auto const thrown = test::thrown_by([] { (void)latitude_rule(std::vector<double>{90, 0.02, -90}); });
  EXPECT_NE(thrown.text.find("both poles"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("row 1"), std::string::npos) << thrown.text;
}

}  // namespace test_latitude_rule
}  // namespace graticule
