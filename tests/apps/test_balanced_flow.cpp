// SPDX-License-Identifier: BSD-3-Clause
#include "balanced_flow.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

namespace graticule::app {
namespace {

constexpr double radians = std::numbers::pi / 180;
constexpr std::array some_latitudes{-90.0, -89.875, -60.0, -12.3, 0.0, 0.25, 33.0, 71.5, 90.0};

TEST(LegendreRow, holds_the_functions_of_degree_1_and_2_from_the_tables) {
  for (double const latitude : some_latitudes) {
    auto const p = Parallel::at_degrees(latitude);
    double const s = p.sine;
    double const c = p.cosine;

    LegendreRow const row(p, 2);

    EXPECT_NEAR(row.value(1, 0), std::sqrt(1.5) * s, 1e-14);
    EXPECT_NEAR(row.value(1, 1), std::sqrt(0.75) * c, 1e-14);
    EXPECT_NEAR(row.value(2, 0), std::sqrt(0.625) * (3 * s * s - 1), 1e-14);
    EXPECT_NEAR(row.value(2, 1), std::sqrt(3.75) * s * c, 1e-14);
    EXPECT_NEAR(row.value(2, 2), std::sqrt(0.9375) * c * c, 1e-14);
    EXPECT_NEAR(row.slope(1, 0), std::sqrt(1.5) * c, 1e-14);
    EXPECT_NEAR(row.slope(1, 1), -std::sqrt(0.75) * s, 1e-14);
    EXPECT_NEAR(row.slope(2, 1), std::sqrt(3.75) * (c * c - s * s), 1e-14);
    EXPECT_NEAR(row.over_cosine(1, 1), std::sqrt(0.75), 1e-14);
    EXPECT_NEAR(row.over_cosine(2, 1), std::sqrt(3.75) * s, 1e-14);
    EXPECT_NEAR(row.over_cosine(2, 2), 2 * std::sqrt(0.9375) * c, 1e-14);
  }
}

TEST(LegendreRow, keeps_the_addition_theorem_at_all_latitudes_and_degrees) {
  constexpr int max_degree = 43;
  for (double const latitude : some_latitudes) {
    LegendreRow const row(Parallel::at_degrees(latitude), max_degree);
    for (int n = 1; n <= max_degree; ++n) {
      double values = 0;
      double gradients = 0;
      for (int m = 0; m <= n; ++m) {
        double const twice = m == 0 ? 1 : 2;
        values += twice * row.value(n, m) * row.value(n, m);
        gradients += twice * (row.slope(n, m) * row.slope(n, m) + row.over_cosine(n, m) * row.over_cosine(n, m));
      }

      EXPECT_NEAR(values / (n + 0.5), 1, 1e-12) << latitude << " " << n;
      EXPECT_NEAR(gradients / (n * (n + 1) * (n + 0.5)), 1, 1e-12) << latitude << " " << n;
    }
  }
}

constexpr int max_degree = 20;
constexpr int num_longitudes = 72;

struct Row {
  std::vector<double> u = std::vector<double>(num_longitudes);
  std::vector<double> v = u;
  std::vector<double> z = u;
  std::vector<double> psi = u;
};

class Flow {
 public:
  explicit Flow(double speed)
      : psi_(random_stream_function({7, 3, 1}, max_degree, speed)), z_(balanced_geopotential(psi_, 5e4)) {}
  [[nodiscard]] Row at(double latitude) const {
    Row row;
    evaluate(psi_, z_, LegendreRow(Parallel::at_degrees(latitude), max_degree + 1), harmonics_, 0,
             {.u = row.u, .v = row.v, .z = row.z, .psi = row.psi});
    return row;
  }

 private:
  Spectrum psi_;
  Spectrum z_;
  Harmonics harmonics_{num_longitudes};
};

double largest(std::vector<double> const& values) {
  double result = 0;
  for (double const value : values) result = std::max(result, std::abs(value));
  return result;
}

/// d/dx of five values at distance `h`, of order 4, and d2/dx2.
double slope(std::array<double, 5> const& f, double h) { return (f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * h); }
double curvature(std::array<double, 5> const& f, double h) {
  return (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * h * h);
}

/// Derivative along the parallel by the discrete Fourier sum: exact for what 72 longitudes hold.
std::vector<double> along_parallel(std::vector<double> const& f, int order) {
  std::vector<double> result(f.size());
  for (int m = 1; m <= max_degree + 1; ++m) {
    double c = 0;
    double s = 0;
    for (std::size_t i = 0; i < f.size(); ++i) {
      c += 2.0 / num_longitudes * f[i] * std::cos(2 * std::numbers::pi * m * double(i) / num_longitudes);
      s += 2.0 / num_longitudes * f[i] * std::sin(2 * std::numbers::pi * m * double(i) / num_longitudes);
    }
    for (std::size_t i = 0; i < f.size(); ++i) {
      double const angle = 2 * std::numbers::pi * m * double(i) / num_longitudes;
      result[i] += order == 1 ? m * (s * std::cos(angle) - c * std::sin(angle))
                              : -m * m * (c * std::cos(angle) + s * std::sin(angle));
    }
  }
  return result;
}

TEST(BalancedFlow, blows_along_the_stream_function) {
  Flow const flow(15);
  double const h = 0.02;
  for (double const latitude : {-85.0, -44.4, -3.0, 0.0, 10.0, 59.0, 88.0}) {
    std::array<Row, 5> rows;
    for (int k = 0; k < 5; ++k) rows[std::size_t(k)] = flow.at(latitude + (k - 2) * h);
    auto const east = along_parallel(rows[2].psi, 1);

    for (std::size_t i = 0; i < num_longitudes; ++i) {
      auto const psi = [&](int k) { return rows[std::size_t(k)].psi[i]; };
      EXPECT_NEAR(rows[2].u[i], -slope({psi(0), psi(1), psi(2), psi(3), psi(4)}, h * radians) / earth_radius, 1e-6);
      EXPECT_NEAR(rows[2].v[i], east[i] / (earth_radius * std::cos(latitude * radians)), 1e-9);
    }
  }
}

TEST(BalancedFlow, keeps_geopotential_and_stream_function_in_linear_balance) {
  Flow const flow(15);
  double const h = 0.05;
  double const step = h * radians;
  for (double const latitude : {-80.0, -44.4, -3.0, 0.0, 10.0, 59.0, 75.0}) {
    std::array<Row, 5> rows;
    for (int k = 0; k < 5; ++k) rows[std::size_t(k)] = flow.at(latitude + (k - 2) * h);
    auto const z_east = along_parallel(rows[2].z, 2);
    auto const psi_east = along_parallel(rows[2].psi, 2);
    double const sine = std::sin(latitude * radians);
    double const cosine = std::cos(latitude * radians);
    std::vector<double> difference;
    std::vector<double> forcing;
    for (std::size_t i = 0; i < num_longitudes; ++i) {
      std::array<double, 5> z{};
      std::array<double, 5> psi{};
      for (std::size_t k = 0; k < 5; ++k) {
        z[k] = rows[k].z[i];
        psi[k] = rows[k].psi[i];
      }
      auto const laplacian = [&](std::array<double, 5> const& f, double east) {
        return curvature(f, step) - sine / cosine * slope(f, step) + east / (cosine * cosine);
      };
      // Both sides without the common 1 / a^2.
      double const left = laplacian(z, z_east[i]);
      double const right = 2 * earth_rotation * (sine * laplacian(psi, psi_east[i]) + cosine * slope(psi, step));
      difference.push_back(left - right);
      forcing.push_back(right);
    }

    EXPECT_GT(largest(forcing), 100) << latitude;
    EXPECT_LT(largest(difference), 1e-4 * largest(forcing)) << latitude;
  }
}

TEST(BalancedFlow, is_one_vector_at_each_pole) {
  Flow const flow(15);
  for (double const pole : {90.0, -90.0}) {
    auto const row = flow.at(pole);
    double const a = row.u[0];
    double const b = row.u[num_longitudes / 4];
    double const sign = pole > 0 ? 1 : -1;

    EXPECT_GT(std::hypot(a, b), 0.1);
    for (std::size_t i = 0; i < num_longitudes; ++i) {
      double const angle = 2 * std::numbers::pi * double(i) / num_longitudes;
      EXPECT_NEAR(row.u[i], a * std::cos(angle) + b * std::sin(angle), 1e-11);
      EXPECT_NEAR(row.v[i], sign * (b * std::cos(angle) - a * std::sin(angle)), 1e-11);
      EXPECT_NEAR(row.z[i], row.z[0], 1e-8);
    }
    // The limit along a meridian: nothing jumps at the pole.
    EXPECT_NEAR(flow.at(pole - sign * 1e-5).u[5], row.u[5], 1e-4);
    EXPECT_NEAR(flow.at(pole - sign * 1e-5).v[5], row.v[5], 1e-4);
  }
}

TEST(BalancedFlow, has_the_speed_and_the_mean_geopotential_that_were_asked_for) {
  Flow const flow(17);
  constexpr int num_rows = 720;
  double square = 0;
  double z = 0;
  double area = 0;
  for (int j = 0; j < num_rows; ++j) {
    double const latitude = -90 + 180.0 * (j + 0.5) / num_rows;
    double const weight = std::cos(latitude * radians);
    auto const row = flow.at(latitude);
    for (std::size_t i = 0; i < num_longitudes; ++i) {
      square += weight * (row.u[i] * row.u[i] + row.v[i] * row.v[i]);
      z += weight * row.z[i];
      area += weight;
    }
  }

  EXPECT_NEAR(std::sqrt(square / area), 17, 1e-3);
  EXPECT_NEAR(z / area, 5e4, 1e-1);
}

TEST(BalancedFlow, differs_by_seed_sample_and_level_and_repeats_itself) {
  auto const first = random_stream_function({1, 0, 0}, 5, 10).cosine;

  EXPECT_EQ(random_stream_function({1, 0, 0}, 5, 10).cosine, first);
  EXPECT_NE(random_stream_function({2, 0, 0}, 5, 10).cosine, first);
  EXPECT_NE(random_stream_function({1, 1, 0}, 5, 10).cosine, first);
  EXPECT_NE(random_stream_function({1, 0, 1}, 5, 10).cosine, first);
}

}  // namespace
}  // namespace graticule::app
