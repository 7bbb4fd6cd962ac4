// SPDX-License-Identifier: BSD-3-Clause
#include "channels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace graticule::train {
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

  template <class Function>
  Field field(Function const& function, Component component = Component::scalar, Index num_samples = 1) const {
    Field result;
    result.info.name = "f";
    result.info.component = component;
    result.info.parity = component == Component::scalar ? Parity::even : Parity::odd;
    for (Index s = 0; s < num_samples; ++s)
      for (Index i = cells.box.lo(0); i < cells.box.hi(0); ++i)
        for (Index j = cells.box.lo(1); j < cells.box.hi(1); ++j)
          result.values.push_back(function(s, grid.latitudes[std::size_t(i)], grid.longitudes[std::size_t(j)]));
    return result;
  }
};

TEST(Derivative, of_a_wave_is_the_centred_difference_on_every_cell) {
  Fixture const f;
  auto const wave = [](Index s, double latitude, double longitude) {
    return double(s + 1) * std::cos(latitude * radians) * std::cos(longitude * radians) + std::sin(latitude * radians);
  };
  Field const field = f.field(wave, Component::scalar, 2);

  Field const east = derivative(f.comm, f.cells, field, Feature::east);
  Field const north = derivative(f.comm, f.cells, field, Feature::north);

  EXPECT_EQ(east.info.parity, Parity::odd);
  std::size_t at = 0;
  for (Index s = 0; s < 2; ++s)
    for (Index i = f.cells.box.lo(0); i < f.cells.box.hi(0); ++i)
      for (Index j = f.cells.box.lo(1); j < f.cells.box.hi(1); ++j, ++at) {
        double const latitude = f.grid.latitudes[std::size_t(i)];
        double const longitude = f.grid.longitudes[std::size_t(j)];
        // The formula goes on beyond the pole: cos(latitude) changes sign where the meridian changes by 180 degrees.
        double const north_truth =
            (wave(s, latitude + 5, longitude) - wave(s, latitude - 5, longitude)) / (10 * radians * radius);
        EXPECT_NEAR(north.values[at], north_truth, 1e-20) << latitude << ' ' << longitude;
        double const cosine = std::max(std::cos(latitude * radians), std::sin(2.5 * radians));
        double const east_truth =
            (wave(s, latitude, longitude + 5) - wave(s, latitude, longitude - 5)) / (10 * radians * radius * cosine);
        EXPECT_NEAR(east.values[at], east_truth, 1e-20) << latitude << ' ' << longitude;
      }
}

TEST(Derivative, of_a_vector_component_changes_sign_beyond_the_pole) {
  Fixture const f;
  // A constant flow across the poles: u = cos(longitude - a), odd across the pole.
  Field const field =
      f.field([](Index, double, double longitude) { return std::cos(longitude * radians); }, Component::eastward);

  Field const north = derivative(f.comm, f.cells, field, Feature::north);

  EXPECT_EQ(north.info.parity, Parity::even);
  for (double const value : north.values) EXPECT_NEAR(value, 0, 1e-20);
}

TEST(Scaling, of_a_known_field_is_known_level_by_level) {
  Fixture const f;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  // Level 0: 3 and 7 in equal parts, level 1: constant 5; sample 2 does not train; a row is missing.
  Field const field = f.field(
      [&](Index s, double latitude, double longitude) {
        if (s == 2) return 1e9;
        if (latitude == 0) return nan;
        if (s == 1) return 5.0;
        return longitude < 0 ? 3.0 : 7.0;
      },
      Component::scalar, 3);

  Scaling const scaling = measure_scaling(f.comm, f.cells, field, 2, 2);

  EXPECT_NEAR(scaling.mean[0], 5, 1e-14);
  EXPECT_NEAR(scaling.scale[0], 2, 1e-14);
  EXPECT_NEAR(scaling.mean[1], 5, 1e-14);
  EXPECT_EQ(scaling.scale[1], 1);
}

TEST(Scaling, keeps_the_zero_of_vector_components) {
  Fixture const f;
  Field const field = f.field([](Index, double, double) { return -4.0; }, Component::eastward);

  Scaling const scaling = measure_scaling(f.comm, f.cells, field, 1, 1);

  EXPECT_EQ(scaling.mean[0], 0);
  EXPECT_NEAR(scaling.scale[0], 4, 1e-14);
  EXPECT_NEAR(measure_mean(f.comm, f.cells, field, 1, 1)[0], -4, 1e-14);
}

TEST(Scaling, of_a_level_without_values_is_an_error_on_all_ranks) {
  Fixture const f;
  Field const field = f.field([](Index, double, double) { return std::numeric_limits<double>::quiet_NaN(); });

  try {
    (void)measure_scaling(f.comm, f.cells, field, 1, 1);
    FAIL() << "no error";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "EmptyField");
    EXPECT_EQ(error.fault(), Fault::input);
  }
}

TEST(Normalised, missing_values_stay_or_become_the_mean) {
  Field field;
  field.values = {3, std::numeric_limits<double>::quiet_NaN(), 8, 12};
  Scaling const scaling{{1, 10}, {2, 4}};

  EXPECT_EQ(normalised(field, scaling, 2, Missing::mean).values, (std::vector<double>{1, 0, -0.5, 0.5}));
  EXPECT_TRUE(std::isnan(normalised(field, scaling, 2, Missing::keep).values[1]));
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

TEST(StaticRows, are_functions_of_latitude) {
  Fixture const f;

  EXPECT_NEAR(static_rows("coriolis", f.grid)[0], 2 * 7.292e-5, 1e-12);
  EXPECT_NEAR(static_rows("sin_latitude", f.grid)[12], 0.5, 1e-12);
  EXPECT_NEAR(static_rows("cos_latitude", f.grid)[18], 1, 1e-12);
  EXPECT_THROW((void)static_rows("slope", f.grid), Error);
}

}  // namespace
}  // namespace graticule::train
