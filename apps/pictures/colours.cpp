// SPDX-License-Identifier: BSD-3-Clause
#include "colours.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace graticule::app {
namespace {

double cube(double x) { return x * x * x; }

/// Linear-light sRGB of a colour given by OKLab lightness, chroma and hue in degrees.
std::array<double, 3> linear_rgb(double lightness, double chroma, double hue) {
  double const a = chroma * std::cos(hue * std::numbers::pi / 180);
  double const b = chroma * std::sin(hue * std::numbers::pi / 180);
  double const l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  double const m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  double const s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool is_displayable(std::array<double, 3> const& rgb) {
  return std::all_of(rgb.begin(), rgb.end(), [](double c) { return c >= -1e-6 && c <= 1 + 1e-6; });
}

std::uint8_t encoded(double linear) {
  double const c = std::clamp(linear, 0.0, 1.0);
  double const srgb = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return std::uint8_t(std::lround(255 * srgb));
}

/// The colour of that lightness and hue with the wanted chroma, or with the largest that a screen can show.
Colour displayed(double lightness, double chroma, double hue) {
  auto rgb = linear_rgb(lightness, chroma, hue);
  if (!is_displayable(rgb)) {
    double low = 0;
    double high = chroma;
    for (int i = 0; i < 20; ++i) {
      double const middle = (low + high) / 2;
      (is_displayable(linear_rgb(lightness, middle, hue)) ? low : high) = middle;
    }
    rgb = linear_rgb(lightness, low, hue);
  }
  return {encoded(rgb[0]), encoded(rgb[1]), encoded(rgb[2])};
}

/// `x` from 0 to 1, blue or red.
Colour diverging(double x, bool is_negative) {
  double const lightness = 0.975 - 0.60 * x;
  double const chroma = 0.155 * std::sin(std::min(1.0, 1.15 * x) * std::numbers::pi / 2);
  return displayed(lightness, chroma, is_negative ? 255 : 29 - 4 * x);
}

Colour sequential(double x) { return displayed(0.25 + 0.67 * x, 0.11 + 0.05 * x, 300 - 195 * x); }

/// Colours of a table, because a picture has a million points and a colour takes up to 22 conversions. Neighbours
/// differ by at most 1 of 255 in each channel.
constexpr std::size_t num_steps = 4096;
using Table = std::array<Colour, num_steps>;

template <class Function>
Table table_of(Function const& colour) {
  Table table;
  for (std::size_t i = 0; i < num_steps; ++i) table[i] = colour(double(i) / double(num_steps - 1));
  return table;
}

/// NaN has the first colour.
Colour looked_up(Table const& table, double x) {
  if (!(x > 0)) return table.front();
  return table[std::size_t(std::lround(std::min(x, 1.0) * double(num_steps - 1)))];
}

}  // namespace

Colour diverging_colour(double t) {
  static Table const blue = table_of([](double x) { return diverging(x, true); });
  static Table const red = table_of([](double x) { return diverging(x, false); });
  return looked_up(t < 0 ? blue : red, std::abs(t));
}

Colour sequential_colour(double t) {
  static Table const table = table_of(sequential);
  return looked_up(table, t);
}

}  // namespace graticule::app
