// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace graticule::app {

/// Red, green and blue, 0 to 255.
struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend bool operator==(Colour const&, Colour const&) = default;
};

/// Blue over white to red for `t` from -1 to 1: equal steps of `t` are equal steps of lightness, and both sides are
/// equally dark, so that neither sign looks larger. Values beyond are clamped; NaN is white.
/// Source of the colour space: B. Ottosson, "A perceptual color space for image processing" (2020), OKLab.
[[nodiscard]] Colour diverging_colour(double t);

/// Dark violet over green to yellow for `t` from 0 to 1, lightness linear in `t`. Values beyond are clamped; NaN is
/// dark violet.
[[nodiscard]] Colour sequential_colour(double t);

}  // namespace graticule::app
