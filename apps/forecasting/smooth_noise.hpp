// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace graticule::forecasting {

/// Smooth noise of mean 0 and variance 1 on the sphere, which perturbs initial states: waves of random direction and
/// phase in space, with wavelengths of about 2000 km. The same for every partition.
class SmoothNoise {
 public:
  struct Wave {
    std::array<double, 3> vector;  ///< radians of phase per radius of the Earth
    double phase;
  };

  /// @param stream a text; other texts give independent fields
  SmoothNoise(std::uint64_t seed, std::string const& stream);

  /// At a place, in degrees.
  [[nodiscard]] double at(double latitude, double longitude) const;

  /// Noise is `factor()` times the sum over waves of cos(vector x + phase), x a place on the unit sphere.
  [[nodiscard]] std::vector<Wave> const& waves() const noexcept { return waves_; }
  [[nodiscard]] double factor() const;
  /// Such a place. @param latitude,longitude in degrees
  [[nodiscard]] static std::array<double, 3> place(double latitude, double longitude);

 private:
  std::vector<Wave> waves_;
};

}  // namespace graticule::forecasting
