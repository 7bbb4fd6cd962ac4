// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/forcing.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace graticule::models {
namespace {

using test::ErrorWith;
using test::rule_of;

Seconds time_at(std::string const& text) { return parse_date("", text).first; }

double degrees(double angle) { return angle * std::numbers::pi / 180; }

TEST(CosineOfZenith, has_the_sun_where_it_stands) {
  auto const noon = time_at("2006-03-20T12");
  EXPECT_NEAR(cosine_of_zenith(noon, 0, 0), 1, 2e-3);
  EXPECT_NEAR(cosine_of_zenith(noon, 0, 180), -1, 2e-3);
  EXPECT_NEAR(cosine_of_zenith(time_at("2006-06-21T12"), 23.44, 0), 1, 2e-3);
  EXPECT_LT(cosine_of_zenith(time_at("2006-12-21T12"), 80, 0), 0);
}

TEST(CosineOfZenith, agrees_with_the_example_of_a_published_algorithm) {
  // Reda and Andreas, NREL/TP-560-34302: 39.742476 N, 105.1786 W, elevation 39.872046 degrees without refraction.
  EXPECT_NEAR(cosine_of_zenith(time_at("2003-10-17T19:30:30"), 39.742476, -105.1786), std::sin(degrees(39.872046)),
              1e-3);
}

TEST(CosineOfZenith, at_the_poles_is_the_sine_of_the_declination_all_day) {
  double const tilt = std::sin(degrees(23.44));
  for (char const* const hour : {"T00", "T06", "T18"}) {
    EXPECT_NEAR(cosine_of_zenith(time_at("2006-06-21" + std::string(hour)), 90, 0), tilt, 1e-3) << hour;
    EXPECT_NEAR(cosine_of_zenith(time_at("2006-06-21" + std::string(hour)), -90, 50), -tilt, 1e-3) << hour;
    EXPECT_NEAR(cosine_of_zenith(time_at("2006-12-22" + std::string(hour)), 90, 130), -tilt, 1e-3) << hour;
  }
  EXPECT_NEAR(cosine_of_zenith(time_at("2006-03-20T18:26"), 90, 0), 0, 5e-3);
  EXPECT_NEAR(cosine_of_zenith(time_at("2006-09-23T04:03"), 90, 0), 0, 5e-3);
}

TEST(CosineOfZenith, follows_the_equation_of_time) {
  struct Row {
    char const* noon;
    double minutes;  ///< that a sundial is ahead of the clock, from almanacs
  };
  for (auto const& [noon, minutes] :
       {Row{"2006-11-03T12", 16.42}, Row{"2006-02-11T12", -14.22}, Row{"2006-07-26T12", -6.54}}) {
    // The sun is above this meridian; a quarter of a circle away it rises and sets.
    double const meridian = -minutes / 4;
    EXPECT_NEAR(cosine_of_zenith(time_at(noon), 0, meridian + 90), 0, 2e-3) << noon;
    EXPECT_NEAR(cosine_of_zenith(time_at(noon), 0, meridian - 90), 0, 2e-3) << noon;
  }
}

double insolation(Seconds time, Seconds step, double latitude, double longitude) {
  double value = -1;
  fill_forcing({Forcing::insolation}, {{latitude}, {longitude}}, time, step, &value);
  return value;
}

TEST(Insolation, over_a_day_is_that_of_the_formula_for_circular_orbits) {
  // Over a day at an equinox the equator gets 1/pi, the pole next to nothing.
  auto const noon = time_at("2006-03-20T12");
  std::vector<double> out(2);
  double equator = 0;
  for (Seconds hour = 0; hour < 24; hour += 6) {
    fill_forcing({Forcing::insolation}, {{0, 90}, {33}}, noon + hour * 3600, 6 * 3600, out.data());
    equator += out[0] / 4;
    EXPECT_LT(out[1], 0.01);
  }
  EXPECT_NEAR(equator, 1 / 3.14159265, 5e-3);

  // (H sin p sin d + cos p cos d sin H) / pi, with cos H = -tan p tan d.
  auto const solstice = time_at("2006-06-21");
  double const d = degrees(23.44);
  for (double const latitude : {-45.0, 0.0, 45.0, 65.0}) {
    double const p = degrees(latitude);
    double const half_day = std::acos(-std::tan(p) * std::tan(d));
    double const expected =
        (half_day * std::sin(p) * std::sin(d) + std::cos(p) * std::cos(d) * std::sin(half_day)) / std::numbers::pi;
    double found = 0;
    for (Seconds hour = 0; hour < 24; hour += 3)
      found += insolation(solstice + hour * 3600, 3 * 3600, latitude, 17) / 8;
    EXPECT_NEAR(found, expected, 2e-3) << latitude;
  }
}

TEST(Insolation, is_of_the_coming_step_and_0_at_night) {
  auto const noon = time_at("2006-03-20T12");

  // It is 18 h at 90 E and 6 h at 90 W.
  EXPECT_LT(insolation(noon, 6 * 3600, 0, 90), 0.01);
  EXPECT_GT(insolation(noon, 6 * 3600, 0, -90), 0.55);
  EXPECT_EQ(insolation(time_at("2006-06-21"), 6 * 3600, -90, 0), 0);
  EXPECT_NEAR(insolation(time_at("2006-06-21"), 6 * 3600, 90, 0), std::sin(degrees(23.44)), 1e-3);
  // The sun is nearly at the zenith for a few seconds: 7.9 minutes late on this day.
  EXPECT_NEAR(insolation(noon, 8, 0, 7.9 / 4), 1, 1e-4);
}

TEST(Forcing, has_one_channel_per_name) {
  auto const forcings = forcings_of({"time_of_day", "time_of_year"});
  ASSERT_EQ(forcing_channels(forcings).size(), 6u);
  std::vector<float> out(6);
  fill_forcing(forcings, {{10}, {90}}, time_at("2006-01-01T06"), 3600, out.data());
  std::vector<float> const expected{0, -1, 1, 0};  // noon at 90 E, 6 UTC
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6);
  EXPECT_NEAR(out[5], 1, 1e-4);
  EXPECT_EQ(rule_of([] { static_cast<void>(forcings_of({"moonlight"})); }), (ErrorWith{"BadOption", "'moonlight'"}));
  EXPECT_EQ(forcing_channels(forcings_of({"time_of_year", "insolation", "time_of_day"})),
            (std::vector<std::string>{"sin_year", "cos_year", "insolation", "sin_local_time", "cos_local_time",
                                      "sin_utc", "cos_utc"}));
  EXPECT_TRUE(forcing_channels({}).empty());
}

TEST(Forcing, fills_channels_of_rows_of_columns) {
  std::vector<double> out(4 * 2 * 3, -9);

  fill_forcing({Forcing::time_of_day}, {{50, -50}, {0, 90, 180}}, time_at("2006-01-01T06"), 3600, out.data());

  // At 6 UTC it is 6, 12 and 18 h, in both rows.
  std::vector<double> const expected{1, 0, -1, 1, 0, -1, 0, -1, 0, 0, -1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-15) << i;
}

TEST(Forcing, counts_the_days_of_leap_years) {
  struct Row {
    char const* time;
    double sine;
    double cosine;
  };
  // Of 365 days, then of 366: nothing, a quarter and half of the year have passed.
  for (auto const& [time, sine, cosine] :
       {Row{"2001-01-01", 0, 1}, Row{"2001-04-02T06", 1, 0}, Row{"2001-07-02T12", 0, -1}, Row{"2000-01-01", 0, 1},
        Row{"2000-04-01T12", 1, 0}, Row{"2000-07-02", 0, -1}}) {
    std::vector<double> out(2);
    fill_forcing({Forcing::time_of_year}, {{0}, {0}}, time_at(time), 3600, out.data());
    EXPECT_NEAR(out[0], sine, 1e-14) << time;
    EXPECT_NEAR(out[1], cosine, 1e-14) << time;
  }
}

/// The same part of the year has the same sun, however many days the year has.
TEST(Forcing, the_year_is_that_of_the_calendar) {
  struct Row {
    Calendar calendar;
    char const* quarter;  ///< of the year that has passed
  };
  for (auto const& [calendar, quarter] :
       {Row{Calendar::day_360, "2000-04-01"}, Row{Calendar::noleap, "2000-04-02T06"},
        Row{Calendar::all_leap, "2001-04-01T12"}, Row{Calendar::julian, "1900-04-01T12"},
        Row{Calendar::proleptic_gregorian, "1900-04-02T06"}}) {
    auto const time = parse_date("", quarter, calendar).first;
    std::vector<double> year(2);

    fill_forcing({Forcing::time_of_year}, {{0}, {0}}, time, 3600, year.data(), calendar);

    EXPECT_NEAR(year[0], 1, 1e-14) << quarter;
    EXPECT_NEAR(year[1], 0, 1e-14) << quarter;
    // At the same time of day; at the pole the hour does not matter.
    EXPECT_NEAR(cosine_of_zenith(time, 90, 0, calendar), cosine_of_zenith(time_at("2001-04-02T06"), 90, 0), 1e-14);
  }
  auto const solstice = parse_date("", "2000-06-20T12", Calendar::day_360).first;
  EXPECT_NEAR(cosine_of_zenith(solstice, 23.44, 0, Calendar::day_360), 1, 2e-3);
  double mean = 0;
  double at_noon = 0;
  fill_forcing({Forcing::insolation}, {{23.44}, {0}}, solstice, 1, &at_noon, Calendar::day_360);
  fill_forcing({Forcing::insolation}, {{90}, {0}}, solstice, 86400, &mean, Calendar::day_360);
  EXPECT_NEAR(at_noon, 1, 2e-3);
  EXPECT_NEAR(mean, std::sin(23.44 / 180 * std::numbers::pi), 1e-3);
}

}  // namespace
}  // namespace graticule::models
