// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

namespace graticule::app {

/// Place of degree `n` and order `m <= n` in a triangular table.
[[nodiscard]] constexpr std::size_t triangle(int n, int m) {
  return std::size_t(n) * std::size_t(n + 1) / 2 + std::size_t(m);
}

/// `sqrt((n^2 - m^2) / (4 n^2 - 1))`: `sin(latitude) P(n, m) = epsilon(n + 1, m) P(n + 1, m) + epsilon(n, m) P(n - 1,
/// m)`.
[[nodiscard]] double epsilon(int n, int m);

/// A parallel by its sine and cosine; the cosine of a pole is 0 exactly.
struct Parallel {
  double sine = 0;
  double cosine = 1;

  [[nodiscard]] static Parallel at_degrees(double latitude);
};

/// Associated Legendre functions of one parallel up to a degree, with what winds need, also at the poles.
///
/// Normalised to `integral of P(n, m)^2 d(sin latitude) = 1`, without the Condon-Shortley sign. The slope and the
/// function over the cosine come from neighboring functions, so nothing is divided by a cosine.
/// Source: Holmes and Featherstone 2002 (recurrence in the degree); the identities are in any table of functions.
class LegendreRow {
 public:
  LegendreRow(Parallel const& parallel, int max_degree);

  [[nodiscard]] double value(int n, int m) const { return value_[triangle(n, m)]; }
  /// d P / d latitude, per radian.
  [[nodiscard]] double slope(int n, int m) const { return slope_[triangle(n, m)]; }
  /// m P / cos(latitude)
  [[nodiscard]] double over_cosine(int n, int m) const { return over_cosine_[triangle(n, m)]; }

 private:
  std::vector<double> value_;
  std::vector<double> slope_;
  std::vector<double> over_cosine_;
};

}  // namespace graticule::app
