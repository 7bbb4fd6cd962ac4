// SPDX-License-Identifier: BSD-3-Clause
#include "smooth_noise.hpp"

#include <graticule/samples/detail/random.hpp>

#include <cmath>
#include <numbers>

namespace graticule::forecasting {

SmoothNoise::SmoothNoise(std::uint64_t seed, std::string const& stream) {
  constexpr int num_waves = 48;
  constexpr double wavenumber = 12;
  samples::Random random(seed, "perturbation " + stream);
  for (int w = 0; w < num_waves; ++w) {
    Wave wave{};
    for (double& component : wave.vector) component = wavenumber * random.normal();
    wave.phase = 2 * std::numbers::pi * random.uniform();
    waves_.push_back(wave);
  }
}

double SmoothNoise::factor() const { return std::sqrt(2 / double(waves_.size())); }

std::array<double, 3> SmoothNoise::place(double latitude, double longitude) {
  constexpr double radians = std::numbers::pi / 180;
  double const cosine = std::cos(latitude * radians);
  return {cosine * std::cos(longitude * radians), cosine * std::sin(longitude * radians), std::sin(latitude * radians)};
}

double SmoothNoise::at(double latitude, double longitude) const {
  auto const [x, y, z] = place(latitude, longitude);
  double sum = 0;
  for (Wave const& wave : waves_)
    sum += std::cos(wave.vector[0] * x + wave.vector[1] * y + wave.vector[2] * z + wave.phase);
  return sum * factor();
}

}  // namespace graticule::forecasting
