// SPDX-License-Identifier: BSD-3-Clause
// Noise, scores, spectra and units.
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/grid.hpp>
#include <graticule/partition/cuts.hpp>

#include "coordinates.hpp"
#include "expect_error.hpp"
#include "scores.hpp"
#include "smooth_noise.hpp"
#include "spectra.hpp"
#include "units.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

namespace graticule::forecasting {
namespace {

using test::ErrorWith;
using test::rule_of;

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

  Comm comm_ = Comm::world();
  models::Grid grid_ = models::make_grid(test::evenly(84.375, -11.25, rows), test::evenly(0, 11.25, columns));
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
}  // namespace graticule::forecasting
