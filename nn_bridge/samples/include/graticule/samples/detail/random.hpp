// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/detail/hash.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace graticule::samples {

/// A stream of random numbers determined by a seed and a text: the same on every rank, library and platform.
///
/// SplitMix64 (Steele, Lea, Flood 2014); normal numbers by Box and Muller (1958).
class Random {
 public:
  Random(std::uint64_t seed, std::string_view stream) : state_(Hash().add(seed).add(stream).value()) {}

  [[nodiscard]] std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// In [0, 1).
  [[nodiscard]] double uniform() noexcept { return double(next() >> 11U) * 0x1p-53; }
  /// In [0, bound). @pre `bound > 0`
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return std::uint64_t(uniform() * double(bound)); }
  /// Mean 0, standard deviation 1.
  [[nodiscard]] double normal() noexcept {
    double const radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace graticule::samples
