// SPDX-License-Identifier: BSD-3-Clause
#include "legendre.hpp"

#include <cmath>
#include <numbers>

namespace graticule::app {

double epsilon(int n, int m) {
  double const nn = double(n) * n;
  return std::sqrt((nn - double(m) * m) / (4 * nn - 1));
}

Parallel Parallel::at_degrees(double latitude) {
  if (std::abs(latitude) >= 90) return {std::copysign(1.0, latitude), 0.0};
  double const radians = latitude * (std::numbers::pi / 180);
  return {std::sin(radians), std::cos(radians)};
}

LegendreRow::LegendreRow(Parallel const& parallel, int max_degree)
    : value_(triangle(max_degree + 1, 0)), slope_(value_.size()), over_cosine_(value_.size()) {
  double diagonal = std::sqrt(0.5);
  for (int m = 0; m <= max_degree; ++m) {
    if (m > 0) diagonal *= std::sqrt((2.0 * m + 1) / (2.0 * m)) * parallel.cosine;
    value_[triangle(m, m)] = diagonal;
    for (int n = m + 1; n <= max_degree; ++n) {
      double const before = n > m + 1 ? epsilon(n - 1, m) * value(n - 2, m) : 0.0;
      value_[triangle(n, m)] = (parallel.sine * value(n - 1, m) - before) / epsilon(n, m);
    }
  }
  auto const or_zero = [this](int n, int m) { return m <= n ? value(n, m) : 0.0; };
  for (int n = 1; n <= max_degree; ++n) {
    slope_[triangle(n, 0)] = std::sqrt(double(n) * (n + 1)) * value(n, 1);
    for (int m = 1; m <= n; ++m) {
      slope_[triangle(n, m)] = 0.5 * (std::sqrt(double(n - m) * (n + m + 1)) * or_zero(n, m + 1) -
                                      std::sqrt(double(n + m) * (n - m + 1)) * value(n, m - 1));
      over_cosine_[triangle(n, m)] = 0.5 * std::sqrt((2.0 * n + 1) / (2.0 * n - 1)) *
                                     (std::sqrt(double(n - m) * (n - m - 1)) * or_zero(n - 1, m + 1) +
                                      std::sqrt(double(n + m) * (n + m - 1)) * value(n - 1, m - 1));
    }
  }
}

}  // namespace graticule::app
