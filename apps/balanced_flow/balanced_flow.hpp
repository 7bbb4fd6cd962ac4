// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "legendre.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace graticule::app {

/// Radius of the Earth in metres, its rotation per second (as in the shallow-water test set of Williamson et al. 1992).
inline constexpr double earth_radius = 6.37122e6;
inline constexpr double earth_rotation = 7.292e-5;

/// Coefficients of `sum over n, m of P(n, m) (cosine(n, m) cos(m longitude) + sine(n, m) sin(m longitude))`.
struct Spectrum {
  int max_degree = 0;
  std::vector<double> cosine;
  std::vector<double> sine;

  explicit Spectrum(int degree) : max_degree(degree), cosine(triangle(degree + 1, 0)), sine(cosine.size()) {}
};

/// Which random flow: the same numbers give the same flow everywhere.
struct FlowSeed {
  std::uint64_t seed = 1;
  std::uint64_t sample = 0;
  std::uint64_t level = 0;
};

/// A random stream function of degrees 1 to `max_degree` with a red spectrum: most energy around degree 5, falling with
/// the third power behind. Scaled so that the root mean square of the wind's speed on the sphere is `speed` (m/s).
[[nodiscard]] Spectrum random_stream_function(FlowSeed const& seed, int max_degree, double speed);

/// Geopotential in linear balance: laplacian z = div(f grad psi), f = 2 rotation sin(latitude), solved exactly: degree
/// `k` of z takes degrees `k - 1` and `k + 1` of psi. `mean` is its mean on the sphere (m^2/s^2).
/// Source: linear balance equation, for example Holton, An Introduction to Dynamic Meteorology.
[[nodiscard]] Spectrum balanced_geopotential(Spectrum const& stream_function, double mean);

/// cos and sin of `m * longitude` for the longitudes `360 i / num_longitudes`, equal for equal angles.
class Harmonics {
 public:
  explicit Harmonics(int num_longitudes);
  [[nodiscard]] double cosine(int m, std::int64_t i) const { return cosine_[at(m, i)]; }
  [[nodiscard]] double sine(int m, std::int64_t i) const { return sine_[at(m, i)]; }

 private:
  [[nodiscard]] std::size_t at(int m, std::int64_t i) const { return std::size_t(m * i % num_longitudes_); }
  std::int64_t num_longitudes_;
  std::vector<double> cosine_;
  std::vector<double> sine_;
};

/// What one parallel shows of a flow, at longitudes `lo` to `lo + u.size()`.
struct FlowRow {
  std::span<double> u;    ///< eastward wind, -1/a dpsi/dlatitude
  std::span<double> v;    ///< northward wind, 1/(a cos latitude) dpsi/dlongitude
  std::span<double> z;    ///< geopotential
  std::span<double> psi;  ///< stream function; may be empty
};
void evaluate(Spectrum const& stream_function, Spectrum const& geopotential, LegendreRow const& legendre,
              Harmonics const& harmonics, std::int64_t lo, FlowRow const& row);

}  // namespace graticule::app
