// SPDX-License-Identifier: BSD-3-Clause
#include "text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace graticule::info {

namespace {

/// Three digits or all before the point, and the unit of the right thousand.
template <std::size_t N>
std::string with_unit(double value, std::array<char const*, N> const& units) {
  std::size_t unit = 0;
  while (unit + 1 < N && std::abs(value) >= 999.5) {
    value /= 1000;
    ++unit;
  }
  int digits = 0;
  if (value != std::floor(value) && value < 99.95) digits = value < 9.995 ? 2 : 1;
  return rounded_text(value, digits) + " " + units[unit];
}

}  // namespace

std::string bytes_text(double bytes) {
  return with_unit(bytes, std::array<char const*, 6>{"B", "kB", "MB", "GB", "TB", "PB"});
}

std::string seconds_text(double seconds) {
  return with_unit(seconds * 1e9, std::array<char const*, 4>{"ns", "us", "ms", "s"});
}

std::string rounded_text(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string table_text(std::vector<std::vector<std::string>> const& rows) {
  std::vector<std::size_t> widths;
  for (auto const& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (auto const& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      std::string const blanks(widths[c] - row[c].size(), ' ');
      text += "  " + (c == 0 ? row[c] + blanks : blanks + row[c]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace graticule::info
