// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/samples/detail/channels.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace graticule::samples {
namespace {

constexpr double radians = std::numbers::pi / 180;
constexpr double radius = 6.371e6;

/// A 37 x 72 grid with rows on the poles, cut among all ranks; more columns than one where ranks are even in number.
struct Fixture {
  Comm comm = Comm::world();
  Grid grid = make_grid(rows(), columns());
  Layout layout{comm.num_ranks() % 2 == 0 ? ProcessGrid{comm.num_ranks() / 2, 2} : ProcessGrid{comm.num_ranks(), 1},
                {37, 72}};
  std::vector<double> weights = std::vector<double>(37, 1.0);
  Cells cells{grid, layout, layout.owned(comm.rank()), weights};

  static std::vector<double> rows() {
    std::vector<double> values;
    for (int i = 0; i < 37; ++i) values.push_back(90 - 5.0 * i);
    return values;
  }
  static std::vector<double> columns() {
    std::vector<double> values;
    for (int j = 0; j < 72; ++j) values.push_back(-180 + 5.0 * j);
    return values;
  }

  /// [row][column] of this rank's cells.
  template <class Function>
  std::vector<double> field(Function const& function) const {
    std::vector<double> values;
    for (Index i = cells.box.lo(0); i < cells.box.hi(0); ++i)
      for (Index j = cells.box.lo(1); j < cells.box.hi(1); ++j)
        values.push_back(function(grid.latitudes[std::size_t(i)], grid.longitudes[std::size_t(j)]));
    return values;
  }

  /// Derivatives of several samples: [sample][row][column] each.
  std::vector<std::vector<double>> derivatives(std::vector<std::vector<double>> const& samples, Parity parity,
                                               Feature which) const {
    Derivatives const derivatives(comm, cells);
    std::array<PaddedField, 1> padded{PaddedField{parity, 0, {}}};
    derivatives.resize(padded[0], Index(samples.size()));
    std::fill(padded[0].values.begin(), padded[0].values.end(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t s = 0; s < samples.size(); ++s) derivatives.put(padded[0], Index(s), samples[s]);
    derivatives.exchange(padded);
    std::vector<std::vector<double>> result(samples.size());
    for (std::size_t s = 0; s < samples.size(); ++s) {
      result[s].resize(samples[s].size());
      derivatives.get(padded[0], Index(s), which, result[s]);
    }
    return result;
  }

  /// Of a field whose samples train all, of `num_levels` levels in turn.
  LevelStatistics statistics(std::vector<std::vector<double>> const& samples, Parity parity, Index num_levels) const {
    std::array<LevelStatistics, 1> result{
        LevelStatistics{{"f", parity}, std::vector<Moments>(std::size_t(num_levels))}};
    for (std::size_t s = 0; s < samples.size(); ++s)
      result[0].levels[s % std::size_t(num_levels)].add(moments_of(cells, samples[s]));
    finish_statistics(comm, result);
    return result[0];
  }
};

TEST(Derivatives, of_a_wave_are_the_centred_differences_on_every_cell) {
  Fixture const f;
  auto const wave = [](Index s, double latitude, double longitude) {
    return double(s + 1) * std::cos(latitude * radians) * std::cos(longitude * radians) + std::sin(latitude * radians);
  };
  std::vector<std::vector<double>> fields;
  for (Index s = 0; s < 2; ++s)
    fields.push_back(f.field([&](double latitude, double longitude) { return wave(s, latitude, longitude); }));

  auto const east = f.derivatives(fields, Parity::even, Feature::east);
  auto const north = f.derivatives(fields, Parity::even, Feature::north);

  for (Index s = 0; s < 2; ++s) {
    std::size_t at = 0;
    for (Index i = f.cells.box.lo(0); i < f.cells.box.hi(0); ++i)
      for (Index j = f.cells.box.lo(1); j < f.cells.box.hi(1); ++j, ++at) {
        double const latitude = f.grid.latitudes[std::size_t(i)];
        double const longitude = f.grid.longitudes[std::size_t(j)];
        // The formula goes on beyond the pole: cos(latitude) changes sign where the meridian changes by 180 degrees.
        double const north_truth =
            (wave(s, latitude + 5, longitude) - wave(s, latitude - 5, longitude)) / (10 * radians * radius);
        EXPECT_NEAR(north[std::size_t(s)][at], north_truth, 1e-20) << latitude << ' ' << longitude;
        double const cosine = std::max(std::cos(latitude * radians), std::sin(2.5 * radians));
        double const east_truth =
            (wave(s, latitude, longitude + 5) - wave(s, latitude, longitude - 5)) / (10 * radians * radius * cosine);
        EXPECT_NEAR(east[std::size_t(s)][at], east_truth, 1e-20) << latitude << ' ' << longitude;
      }
  }
}

TEST(Derivatives, of_a_vector_component_change_sign_beyond_the_pole) {
  Fixture const f;
  // A constant flow across the poles: u = cos(longitude - a), odd across the pole.
  auto const field = f.field([](double, double longitude) { return std::cos(longitude * radians); });

  auto const north = f.derivatives({field}, Parity::odd, Feature::north);

  for (double const value : north[0]) EXPECT_NEAR(value, 0, 1e-20);
  FieldInfo info;
  info.parity = Parity::odd;
  EXPECT_EQ(channel_of(Feature::north, info).parity, Parity::even);
  EXPECT_EQ(channel_of(Feature::value, info).parity, Parity::odd);
}

TEST(Statistics, of_a_known_field_are_known_level_by_level) {
  Fixture const f;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  // Level 0: 3 and 7 in equal parts but for a row that is missing, then 9 everywhere; level 1: constant 5 twice.
  auto const halves = f.field([&](double latitude, double longitude) {
    return latitude == 0 ? nan : longitude < 0 ? 3.0 : 7.0;
  });
  auto const fives = f.field([](double, double) { return 5.0; });
  auto const nines = f.field([](double, double) { return 9.0; });

  LevelStatistics const one = f.statistics({halves, fives}, Parity::even, 2);
  LevelStatistics const two = f.statistics({halves, fives, nines, fives}, Parity::even, 2);

  EXPECT_NEAR(one.scaling.mean[0], 5, 1e-14);
  EXPECT_NEAR(one.scaling.scale[0], 2, 1e-14);
  EXPECT_NEAR(one.scaling.mean[1], 5, 1e-14);
  EXPECT_EQ(one.scaling.scale[1], 1);
  // 36 rows of the one and 37 of the other sample.
  double const mean = (36 * 5.0 + 37 * 9.0) / 73;
  double const squares = 36 * (4 + (5 - mean) * (5 - mean)) + 37 * (9 - mean) * (9 - mean);
  EXPECT_NEAR(two.means[0], mean, 1e-14);
  EXPECT_NEAR(two.scaling.scale[0], std::sqrt(squares / 73), 1e-14);
  EXPECT_EQ(two.scaling.scale[1], 1);
}

TEST(Statistics, keep_the_zero_of_vector_components) {
  Fixture const f;
  LevelStatistics const found = f.statistics({f.field([](double, double) { return -4.0; })}, Parity::odd, 1);

  EXPECT_EQ(found.scaling.mean[0], 0);
  EXPECT_NEAR(found.scaling.scale[0], 4, 1e-14);
  EXPECT_NEAR(found.means[0], -4, 1e-14);
}

TEST(Statistics, of_large_numbers_that_differ_little_are_exact) {
  Fixture const f;
  auto const field = f.field([](double, double longitude) { return 1e8 + (longitude < 0 ? -1e-3 : 1e-3); });

  EXPECT_NEAR(f.statistics({field, field}, Parity::even, 1).scaling.scale[0], 1e-3, 1e-6);
}

TEST(Statistics, of_a_level_without_values_are_an_error_on_all_ranks) {
  Fixture const f;
  auto const field = f.field([](double, double) { return std::numeric_limits<double>::quiet_NaN(); });

  try {
    (void)f.statistics({field}, Parity::even, 1);
    FAIL() << "no error";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadInput");
    EXPECT_EQ(error.fault(), Fault::input);
  }
}

TEST(Normalise, missing_values_stay_or_become_the_mean) {
  std::vector<double> const values{8, std::numeric_limits<double>::quiet_NaN(), 12};
  Scaling const scaling{{1, 10}, {2, 4}};
  std::array<double, 3> kept{};
  std::array<float, 3> filled{};

  normalise(values, scaling, 1, Missing::keep, kept.data());
  normalise(values, scaling, 1, Missing::mean, filled.data());

  EXPECT_EQ(filled, (std::array<float, 3>{-0.5F, 0, 0.5F}));
  EXPECT_EQ(kept[0], -0.5);
  EXPECT_TRUE(std::isnan(kept[1]));
}

TEST(Features, a_potential_shows_its_derivatives_alone) {
  FieldInfo potential;
  potential.is_potential = true;

  EXPECT_EQ(features_of({"auto"}, potential), (std::vector<Feature>{Feature::east, Feature::north}));
  EXPECT_EQ(features_of({"auto"}, {}), (std::vector<Feature>{Feature::value, Feature::east, Feature::north}));
  EXPECT_EQ(features_of({"value"}, potential), (std::vector<Feature>{Feature::value}));
  EXPECT_THROW((void)features_of({"value", "auto"}, {}), Error);
  EXPECT_THROW((void)features_of({"curl"}, {}), Error);
}

}  // namespace
}  // namespace graticule::samples
