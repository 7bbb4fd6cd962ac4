// SPDX-License-Identifier: BSD-3-Clause
// Dates, time axes, forcings, scores, spectra and units.
#include <graticule/models/calendar.hpp>
#include <graticule/models/forcing.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "scores.hpp"
#include "smooth_noise.hpp"
#include "spectra.hpp"
#include "time_steps.hpp"
#include "units.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

namespace graticule::forecast {
namespace {

using test::ErrorWith;
using test::rule_of;

TEST(Calendar, reads_times_of_files) {
  EXPECT_EQ(times_of({0}, "seconds since 1970-01-01", ""), std::vector<Seconds>{0});
  EXPECT_EQ(times_of({6, 30}, "hours since 2006-01-01", "proleptic_gregorian"),
            (std::vector<Seconds>{1136095200, 1136181600}));
  EXPECT_EQ(times_of({1.5}, "days since 2000-02-28 12:00:00.0 UTC", "standard"), std::vector<Seconds>{951868800});
  EXPECT_EQ(time_text(951868800), "2000-03-01 00:00");
  EXPECT_EQ(compact(1136095230), "2006-01-01T060030");
  EXPECT_EQ(time_text(-1), "1969-12-31 23:59:59");
  EXPECT_EQ(rule_of([] { static_cast<void>(times_of({0}, "months since 2000-01-01", "")); }),
            (ErrorWith{"BadInput", "are no units of time"}));
  EXPECT_EQ(rule_of([] { static_cast<void>(times_of({0}, "days since 2000-01-01", "noleap")); }),
            (ErrorWith{"BadInput", "calendar 'noleap'"}));
  EXPECT_EQ(rule_of([] { static_cast<void>(times_of({0}, "days since 0001-01-01", "standard")); }),
            (ErrorWith{"BadInput", "before 1582-10-15"}));
  EXPECT_EQ(rule_of([] { static_cast<void>(times_of({std::nan("")}, "days since 2000-01-01", "")); }),
            (ErrorWith{"BadInput", "missing"}));
}

TEST(Calendar, reads_dates_of_the_command_line) {
  auto const day = parse_date("--start", "2000-02-29");
  EXPECT_EQ(day.last - day.first, 86399);
  EXPECT_EQ(time_text(parse_date("--start", "2000-02").last), "2000-02-29 23:59:59");
  EXPECT_EQ(time_text(parse_date("--start", "2001").last), "2001-12-31 23:59:59");
  EXPECT_EQ(parse_date("--start", "2006-01-01T06"), parse_date("--start", "2006-01-01 06:00:00"));
  EXPECT_EQ(parse_period("--train-dates", "2006-01-01..2006-01-02"),
            (Period{day.first + 184291200, day.first + 184291200 + 2 * 86400 - 1}));
  for (char const* wrong : {"2006-13-01", "2006-02-30", "06-01", "2006-01-01T25", "tomorrow", "", "2006-01T06"})
    EXPECT_EQ(rule_of([&] { static_cast<void>(parse_date("--start", wrong)); }), "BadOption") << wrong;
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_period("--train-dates", "2007..2006")); }),
            (ErrorWith{"BadOption", "ends before it begins"}));
  EXPECT_EQ(parse_duration("--lead", "1.5h"), 5400);
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_duration("--lead", "6 parsecs")); }), "BadOption");
}

TEST(SmoothNoise, has_mean_0_and_variance_1_and_other_values_for_another_text) {
  double sum = 0;
  double squares = 0;
  double products = 0;
  Index count = 0;
  for (int n = 0; n < 20; ++n) {
    SmoothNoise const noise(3, "member " + std::to_string(n));
    SmoothNoise const other(3, "another " + std::to_string(n));
    for (double latitude = -85; latitude < 90; latitude += 10)
      for (double longitude = 0; longitude < 360; longitude += 20) {
        double const value = noise.at(latitude, longitude);
        sum += value;
        squares += value * value;
        products += value * other.at(latitude, longitude);
        ++count;
      }
  }
  EXPECT_NEAR(sum / double(count), 0, 0.05);
  EXPECT_NEAR(squares / double(count), 1, 0.1);
  EXPECT_NEAR(products / double(count), 0, 0.05);
  EXPECT_EQ(SmoothNoise(3, "a").at(10, 20), SmoothNoise(3, "a").at(10, 20));
}

TEST(TimeSteps, do_not_cross_gaps) {
  constexpr Seconds hour = 3600;
  TimeSteps const steps({0, 6 * hour, 12 * hour, 24 * hour, 30 * hour}, {.duration = 6 * hour});
  EXPECT_EQ(steps.at(0, 1), 1);
  EXPECT_EQ(steps.at(1, -1), 0);
  EXPECT_EQ(steps.at(2, 1), std::nullopt);
  EXPECT_EQ(steps.at(2, 2), 3);
  EXPECT_EQ(steps.at(4, 1), std::nullopt);
  EXPECT_EQ(steps.gaps(), std::vector<Seconds>{12 * hour});
  EXPECT_EQ(TimeSteps({0, 6 * hour, 12 * hour}, {.steps = 2}).lead_seconds(), 12 * hour);
  EXPECT_EQ(rule_of([&] {
              TimeSteps({0, 6 * hour}, {.duration = 4 * hour});
            }),
            (ErrorWith{"BadOption", "does not fit"}));
  EXPECT_EQ(rule_of([&] { TimeSteps({0, 0}, {.steps = 1}); }), (ErrorWith{"BadInput", "do not rise"}));
  EXPECT_EQ(rule_of([&] { TimeSteps({0, 10, 27}, {.steps = 1}); }), (ErrorWith{"BadInput", "no multiples"}));
}

TEST(TimeSteps, count_positions_on_an_axis_of_months) {
  constexpr Seconds day = 86400;
  TimeSteps const steps({0, 31 * day, 59 * day, 90 * day}, {.steps = 2});
  EXPECT_EQ(steps.at(1, 1), 3);
  EXPECT_EQ(steps.at(2, 1), std::nullopt);
  EXPECT_TRUE(steps.counts_positions());
  EXPECT_EQ(rule_of([&] {
              TimeSteps({0, 31 * day, 59 * day}, {.duration = 31 * day});
            }),
            (ErrorWith{"BadOption", "a number of steps"}));
}

TEST(Forcing, has_the_sun_where_it_stands) {
  auto const noon = parse_date("", "2006-03-20T12").first;
  EXPECT_NEAR(cosine_of_zenith(noon, 0, 0), 1, 2e-3);
  EXPECT_NEAR(cosine_of_zenith(noon, 0, 180), -1, 2e-3);
  EXPECT_NEAR(cosine_of_zenith(parse_date("", "2006-06-21T12").first, 23.44, 0), 1, 2e-3);
  EXPECT_LT(cosine_of_zenith(parse_date("", "2006-12-21T12").first, 80, 0), 0);

  // Over a day at an equinox the equator gets 1/pi, the pole next to nothing.
  std::vector<double> out(2);
  double equator = 0;
  for (Seconds hour = 0; hour < 24; hour += 6) {
    fill_forcing({Forcing::insolation}, {{0, 90}, {33}}, noon + hour * 3600, 6 * 3600, out.data());
    equator += out[0] / 4;
    EXPECT_LT(out[1], 0.01);
  }
  EXPECT_NEAR(equator, 1 / 3.14159265, 5e-3);
}

TEST(Forcing, has_one_channel_per_name) {
  auto const forcings = forcings_of({"time_of_day", "time_of_year"});
  ASSERT_EQ(forcing_channels(forcings).size(), 6u);
  std::vector<float> out(6);
  fill_forcing(forcings, {{10}, {90}}, parse_date("", "2006-01-01T06").first, 3600, out.data());
  std::vector<float> const expected{0, -1, 1, 0};  // noon at 90 E, 6 UTC
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6);
  EXPECT_NEAR(out[5], 1, 1e-4);
  EXPECT_EQ(rule_of([] { static_cast<void>(forcings_of({"moonlight"})); }), "BadOption");
}

/// Two cases of two channels at two leads on a grid of 6 x 8: from `seed` alone.
class Scores : public testing::Test {
 protected:
  static constexpr Index rows = 6;
  static constexpr Index columns = 8;
  static double number(Index seed, Index cell) { return std::sin(double(seed * 1000 + cell * 7 + 1)) * 3 + 0.1; }

  ScoreTable table(Comm const& comm, Layout const& layout) const {
    ScoreTable table(comm, layout, latitudes_, weights_, {.num_cases = 2, .num_channels = 2, .num_leads = 2});
    Box const box = layout.owned(comm.rank());
    auto const field = [&](Index seed) {
      std::vector<double> values;
      for (Index i = box.lo(0); i < box.hi(0); ++i)
        for (Index j = box.lo(1); j < box.hi(1); ++j) values.push_back(number(seed, i * columns + j));
      return values;
    };
    for (Index c = 0; c < 2; ++c)
      for (Index lead = 0; lead < 2; ++lead) {
        auto const forecast = field(c + 10 * lead);
        auto truth = field(c + 10 * lead + 3);
        auto const initial = field(c);
        auto const climatology = field(77);
        for (std::size_t i = 0; i < truth.size(); ++i)
          if (c == 1 && lead == 1) truth[i] = std::numeric_limits<double>::quiet_NaN();
        std::vector<ScoredField> const fields{{forecast, truth, initial, climatology},
                                              {initial, truth, {}, climatology}};
        table.add(c, lead, fields);
      }
    return table;
  }

  Comm comm_ = Comm::world();
  std::vector<double> latitudes_{75, 45, 15, -15, -45, -75};
  std::vector<double> weights_ = area_weights(latitudes_);
};

TEST_F(Scores, have_the_same_bits_for_every_partition) {
  Comm const self = comm_.split(comm_.rank(), 0);
  auto const alone = table(self, Layout(ProcessGrid{1, 1}, {rows, columns}));
  int const n = comm_.num_ranks();

  for (auto const& grid : {ProcessGrid{n, 1}, ProcessGrid{1, n}}) {
    auto const cut = table(comm_, Layout(grid, {rows, columns}));

    ASSERT_EQ(cut.values().size(), alone.values().size());
    for (std::size_t i = 0; i < alone.values().size(); ++i)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(cut.values()[i]), std::bit_cast<std::uint64_t>(alone.values()[i])) << i;
  }
}

TEST_F(Scores, are_those_of_the_formulas) {
  auto const scores = table(comm_, Layout(ProcessGrid{comm_.num_ranks(), 1}, {rows, columns}));
  // Lead 0, channel 0: both cases; the tropics are rows 2 and 3.
  double squares = 0;
  double persistence = 0;
  double correlations = 0;
  for (Index c = 0; c < 2; ++c) {
    double weight = 0;
    double square = 0;
    double persistent = 0;
    double fo = 0;
    double ff = 0;
    double oo = 0;
    for (Index i = 2; i < 4; ++i)
      for (Index j = 0; j < columns; ++j) {
        double const w = weights_[std::size_t(i)];
        double const f = number(c, i * columns + j);
        double const o = number(c + 3, i * columns + j);
        double const mean = number(77, i * columns + j);
        weight += w;
        square += w * (f - o) * (f - o);
        persistent += w * (f - o) * (f - o);
        fo += w * (f - mean) * (o - mean);
        ff += w * (f - mean) * (f - mean);
        oo += w * (o - mean) * (o - mean);
      }
    squares += square / weight / 2;
    persistence += persistent / weight / 2;
    correlations += fo / std::sqrt(ff * oo) / 2;
  }
  auto const score = scores.score(0, 0, 1);
  EXPECT_EQ(score.num_cases, 2);
  EXPECT_NEAR(score.rmse, std::sqrt(squares), 1e-12);
  EXPECT_NEAR(score.persistence_rmse, std::sqrt(persistence), 1e-12);
  EXPECT_NEAR(score.acc, correlations, 1e-12);
  EXPECT_EQ(scores.score(0, 1, 1).num_cases, 1);
  EXPECT_TRUE(std::isnan(scores.score(1, 0, 0).persistence_rmse));
}

TEST(EnsembleStatistics, are_fair) {
  std::vector<double> const members{1, 5, 3, std::nan(""), 2, 5};  // 3 members, 2 cells
  std::vector<double> const truth{2, 5};
  std::vector<double> crps(2);
  std::vector<double> mean(2);
  std::vector<double> variance(2);
  ensemble_statistics(members, 3, truth, crps, mean, variance);
  // |1-2| + |3-2| + |2-2| over 3; pairs 1-3, 1-2, 3-2: 4 over 3 * 2.
  EXPECT_DOUBLE_EQ(crps[0], 2. / 3 - 4. / 6);
  EXPECT_DOUBLE_EQ(mean[0], 2);
  EXPECT_DOUBLE_EQ(variance[0], 1);
  EXPECT_TRUE(std::isnan(crps[1]) && std::isnan(mean[1]));
  ensemble_statistics(std::span(members).first(2), 1, truth, crps, mean, variance);
  EXPECT_DOUBLE_EQ(crps[0], 1);
  EXPECT_DOUBLE_EQ(variance[0], 0);
}

TEST(Units, are_for_readers) {
  EXPECT_EQ(app::pretty_units("kg m**-2"), "kg m⁻²");
  EXPECT_EQ(app::squared_units("kg m**-2"), "(kg m⁻²)²");
  EXPECT_EQ(app::squared_units("s-1"), "(s⁻¹)²");
  EXPECT_EQ(app::squared_units("K"), "K²");
  EXPECT_EQ(app::squared_units("1"), "");
  EXPECT_EQ(app::with_units("rmse", "K"), "rmse (K)");
  EXPECT_EQ(app::with_units("power", ""), "power");
}

/// Spectra of functions of longitude and latitude (radians) on 16 x 32 cells, rows cut.
class SpectraOfFields : public testing::Test {
 protected:
  static constexpr Index rows = 16;
  static constexpr Index columns = 32;

  template <class Function>
  std::vector<double> field(Function&& function) const {
    std::vector<double> values;
    for (Index i = box_.lo(0); i < box_.hi(0); ++i)
      for (Index j = box_.lo(1); j < box_.hi(1); ++j)
        values.push_back(function(std::numbers::pi / 180 * grid_.longitudes[std::size_t(j)],
                                  std::numbers::pi / 180 * grid_.latitudes[std::size_t(i)]));
    return values;
  }
  static std::vector<double> coordinate(double first, double step, Index count) {
    std::vector<double> values;
    for (Index i = 0; i < count; ++i) values.push_back(first + step * double(i));
    return values;
  }

  Comm comm_ = Comm::world();
  models::Grid grid_ = models::make_grid(coordinate(84.375, -11.25, rows), coordinate(0, 11.25, columns));
  std::vector<double> weights_ = area_weights(grid_.latitudes);
  Layout layout_{ProcessGrid{comm_.num_ranks(), 1}, {rows, columns}};
  Box box_ = layout_.owned(comm_.rank());
  models::Cells cells_{grid_, layout_, box_, weights_};
  Spectra spectra_{comm_, cells_};
};

TEST_F(SpectraOfFields, add_to_the_mean_square_along_rows) {
  // Mean 2, a wave of amplitude 3 north of 30 N and of 1 elsewhere, and one of two cells.
  auto const values = field([](double longitude, double latitude) {
    return 2 + (latitude > std::numbers::pi / 6 ? 3 : 1) * std::cos(4 * longitude + 0.3) +
           0.5 * std::cos(16 * longitude);
  });

  auto const power = spectra_.zonal(values, 1, {{"north", 31, 90}, {"rest", -90, 29}, {"none", 89, 90}});

  for (std::size_t region = 0; region < 2; ++region) {
    ASSERT_EQ(power[region][0].size(), 17U);
    for (std::size_t wave = 0; wave < 17; ++wave)
      EXPECT_NEAR(power[region][0][wave],
                  wave == 0    ? 4
                  : wave == 4  ? (region == 0 ? 4.5 : 0.5)
                  : wave == 16 ? 0.25
                               : 0,
                  1e-12)
          << wave;
  }
  for (double const none : power[2][0]) EXPECT_EQ(none, 0);
}

TEST_F(SpectraOfFields, add_to_the_mean_square_on_the_sphere) {
  auto values = field([](double, double latitude) { return 1 + 5 * std::sin(latitude); });
  auto const waves = field([](double longitude, double latitude) {
    return std::cos(2 * longitude) * std::cos(latitude) * std::cos(latitude);
  });
  values.insert(values.end(), waves.begin(), waves.end());

  auto const power = spectra_.spherical(values, 2);

  ASSERT_EQ(power.size(), 2U);
  for (std::size_t degree = 0; degree < power[0].size(); ++degree) {
    EXPECT_NEAR(power[0][degree], degree == 0 ? 1 : degree == 1 ? 25. / 3 : 0, 1e-10) << degree;
    EXPECT_NEAR(power[1][degree], degree == 2 ? 4. / 15 : 0, 1e-10) << degree;
  }
}

}  // namespace
}  // namespace graticule::forecast
