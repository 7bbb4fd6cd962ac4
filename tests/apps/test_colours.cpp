// SPDX-License-Identifier: BSD-3-Clause
#include "colours.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace graticule::app {
namespace {

double linear(std::uint8_t channel) {
  double const c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

/// OKLab lightness, by the published matrices from sRGB.
double lightness(Colour colour) {
  double const r = linear(colour.red);
  double const g = linear(colour.green);
  double const b = linear(colour.blue);
  return 0.2104542553 * std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) +
         0.7936177850 * std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) -
         0.0040720468 * std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
}

constexpr int num_values = 3000;  // no divisor of the steps of a table

TEST(Colours, of_signed_values_are_equally_dark_on_both_sides) {
  for (int i = 0; i <= num_values; ++i) {
    double const t = double(i) / num_values;

    EXPECT_NEAR(lightness(diverging_colour(t)), 0.975 - 0.60 * t, 0.004) << t;
    EXPECT_NEAR(lightness(diverging_colour(-t)), 0.975 - 0.60 * t, 0.004) << -t;
  }
}

TEST(Colours, of_signed_values_are_blue_and_red) {
  for (double const t : {0.2, 0.5, 1.0}) {
    EXPECT_GT(diverging_colour(t).red, diverging_colour(t).blue + 30) << t;
    EXPECT_GT(diverging_colour(-t).blue, diverging_colour(-t).red + 30) << -t;
  }
  EXPECT_EQ(diverging_colour(0.0), diverging_colour(-0.0));
}

TEST(Colours, of_a_sequence_grow_lighter_evenly) {
  for (int i = 0; i <= num_values; ++i) {
    double const t = double(i) / num_values;

    EXPECT_NEAR(lightness(sequential_colour(t)), 0.25 + 0.67 * t, 0.006) << t;
  }
}

TEST(Colours, beyond_the_range_are_those_of_its_ends) {
  EXPECT_EQ(diverging_colour(3), diverging_colour(1));
  EXPECT_EQ(diverging_colour(-HUGE_VAL), diverging_colour(-1));
  EXPECT_EQ(sequential_colour(-0.5), sequential_colour(0));
  EXPECT_EQ(sequential_colour(HUGE_VAL), sequential_colour(1));
}

}  // namespace
}  // namespace graticule::app
