// SPDX-License-Identifier: BSD-3-Clause
#include "balanced_flow.hpp"

#include <graticule/partition/detail/hash.hpp>

#include <cmath>
#include <numbers>
#include <random>

namespace graticule::app {

namespace {

/// Degree around which most energy lies.
constexpr double peak_degree = 5;

/// Normal random numbers that depend on the seed only: the standard library leaves its own to each implementation.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()() {
    double const radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  /// In (0, 1].
  double uniform() { return (double(engine_() >> 11U) + 1) * 0x1p-53; }
  std::mt19937_64 engine_;
};

/// Energy of a degree, up to a factor.
double red_energy(int n) {
  double const x = n / peak_degree;
  return x / (1 + x * x * x * x);
}

/// Mean over the sphere of the wind's squared speed.
double mean_square_speed(Spectrum const& psi) {
  double sum = 0;
  for (int n = 1; n <= psi.max_degree; ++n) {
    double degree = 0;
    for (int m = 0; m <= n; ++m) {
      double const a = psi.cosine[triangle(n, m)];
      double const b = psi.sine[triangle(n, m)];
      degree += m == 0 ? 0.5 * a * a : 0.25 * (a * a + b * b);
    }
    sum += double(n) * (n + 1) * degree;
  }
  return sum / (earth_radius * earth_radius);
}

}  // namespace

Spectrum random_stream_function(FlowSeed const& seed, int max_degree, double speed) {
  Normal normal(Hash().add(seed.seed).add(seed.sample).add(seed.level).value());
  Spectrum psi(max_degree);
  for (int n = 1; n <= max_degree; ++n) {
    // Each of the 2 n + 1 harmonics of unit mean square takes an equal share of the degree's energy.
    double const sigma = std::sqrt(red_energy(n) / (double(n) * (n + 1) * (2 * n + 1)));
    psi.cosine[triangle(n, 0)] = std::numbers::sqrt2 * sigma * normal();
    for (int m = 1; m <= n; ++m) {
      psi.cosine[triangle(n, m)] = 2 * sigma * normal();
      psi.sine[triangle(n, m)] = 2 * sigma * normal();
    }
  }
  double const scale = speed / std::sqrt(mean_square_speed(psi));
  for (auto& coefficient : psi.cosine) coefficient *= scale;
  for (auto& coefficient : psi.sine) coefficient *= scale;
  return psi;
}

Spectrum balanced_geopotential(Spectrum const& psi, double mean) {
  Spectrum z(psi.max_degree + 1);
  auto const couple = [&](std::vector<double> const& from, std::vector<double>& to) {
    for (int k = 1; k <= z.max_degree; ++k)
      for (int m = 0; m <= k; ++m) {
        double sum = 0;
        if (k - 1 >= std::max(m, 1)) sum += double(k - 1) / k * epsilon(k, m) * from[triangle(k - 1, m)];
        if (k + 1 <= psi.max_degree) sum += double(k + 2) / (k + 1) * epsilon(k + 1, m) * from[triangle(k + 1, m)];
        to[triangle(k, m)] = 2 * earth_rotation * sum;
      }
  };
  couple(psi.cosine, z.cosine);
  couple(psi.sine, z.sine);
  z.cosine[0] = mean * std::numbers::sqrt2;  // P(0, 0) is the square root of a half
  return z;
}

Harmonics::Harmonics(int num_longitudes)
    : num_longitudes_(num_longitudes), cosine_(std::size_t(num_longitudes)), sine_(std::size_t(num_longitudes)) {
  for (int i = 0; i < num_longitudes; ++i) {
    double const angle = 2 * std::numbers::pi * i / num_longitudes;
    cosine_[std::size_t(i)] = std::cos(angle);
    sine_[std::size_t(i)] = std::sin(angle);
  }
}

void evaluate(Spectrum const& stream_function, Spectrum const& geopotential, LegendreRow const& legendre,
              Harmonics const& harmonics, std::int64_t lo, FlowRow const& row) {
  auto const fill = [](std::span<double> values) { std::fill(values.begin(), values.end(), 0.0); };
  fill(row.u);
  fill(row.v);
  fill(row.z);
  fill(row.psi);
  for (int m = 0; m <= geopotential.max_degree; ++m) {
    // Sums over the degrees of one order: cosine and sine parts of psi, its slope, m psi / cos and z.
    double psi_c = 0, psi_s = 0, slope_c = 0, slope_s = 0, east_c = 0, east_s = 0, z_c = 0, z_s = 0;
    for (int n = m; n <= geopotential.max_degree; ++n) {
      auto const k = triangle(n, m);
      z_c += legendre.value(n, m) * geopotential.cosine[k];
      z_s += legendre.value(n, m) * geopotential.sine[k];
      if (n > stream_function.max_degree) continue;
      double const a = stream_function.cosine[k];
      double const b = stream_function.sine[k];
      psi_c += legendre.value(n, m) * a;
      psi_s += legendre.value(n, m) * b;
      slope_c += legendre.slope(n, m) * a;
      slope_s += legendre.slope(n, m) * b;
      east_c += legendre.over_cosine(n, m) * a;
      east_s += legendre.over_cosine(n, m) * b;
    }
    for (std::size_t i = 0; i < row.u.size(); ++i) {
      double const c = harmonics.cosine(m, lo + std::int64_t(i));
      double const s = harmonics.sine(m, lo + std::int64_t(i));
      row.u[i] -= (slope_c * c + slope_s * s) / earth_radius;
      row.v[i] += (east_s * c - east_c * s) / earth_radius;
      row.z[i] += z_c * c + z_s * s;
      if (!row.psi.empty()) row.psi[i] += psi_c * c + psi_s * s;
    }
  }
}

}  // namespace graticule::app
