// SPDX-License-Identifier: BSD-3-Clause
#include "units.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace graticule::app {

std::string pretty_units(std::string const& units) {
  static constexpr std::array digits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string result;
  bool raised = false;
  for (std::size_t i = 0; i < units.size(); ++i) {
    char const c = units[i];
    bool const starts_power = c == '^' || (c == '*' && i + 1 < units.size() && units[i + 1] == '*');
    bool const is_digit = c >= '0' && c <= '9';
    if (starts_power) {
      raised = true;
      i += c == '*' ? 1 : 0;
    } else if (c == '-' && i + 1 < units.size() && units[i + 1] >= '1' && units[i + 1] <= '9' && i > 0 &&
               (raised || std::isalpha(static_cast<unsigned char>(units[i - 1])))) {
      result += "⁻";
      raised = true;
    } else if (raised && is_digit) {
      result += digits[std::size_t(c - '0')];
    } else {
      raised = false;
      result += c;
    }
  }
  return result;
}

std::string squared_units(std::string const& units) {
  if (units.empty() || units == "1") return "";
  auto const text = pretty_units(units);
  bool const is_word = std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c); });
  return is_word ? text + "²" : "(" + text + ")²";
}

std::string with_units(std::string const& name, std::string const& pretty) {
  return pretty.empty() || pretty == "1" ? name : name + " (" + pretty + ")";
}

}  // namespace graticule::app
