// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string>

namespace graticule {
namespace {

struct Spelling {
  std::string_view written;  ///< in lower case
  std::string_view symbol;
};

/// Names of units, which count in capitals or not. Symbols of one or two letters count as they are written.
constexpr std::array spellings{
    Spelling{"kelvin", "K"},
    Spelling{"kelvins", "K"},
    Spelling{"degk", "K"},
    Spelling{"celsius", "degC"},
    Spelling{"degc", "degC"},
    Spelling{"deg_c", "degC"},
    Spelling{"degree_celsius", "degC"},
    Spelling{"degrees_celsius", "degC"},
    Spelling{"metre", "m"},
    Spelling{"metres", "m"},
    Spelling{"meter", "m"},
    Spelling{"meters", "m"},
    Spelling{"second", "s"},
    Spelling{"seconds", "s"},
    Spelling{"sec", "s"},
    Spelling{"hour", "h"},
    Spelling{"hours", "h"},
    Spelling{"hr", "h"},
    Spelling{"day", "d"},
    Spelling{"days", "d"},
    Spelling{"kilogram", "kg"},
    Spelling{"kilograms", "kg"},
    Spelling{"gram", "g"},
    Spelling{"grams", "g"},
    Spelling{"joule", "J"},
    Spelling{"joules", "J"},
    Spelling{"watt", "W"},
    Spelling{"watts", "W"},
    Spelling{"percent", "%"},
    Spelling{"degree", "deg"},
    Spelling{"degrees", "deg"},
    Spelling{"pascal", "Pa"},
    Spelling{"pascals", "Pa"},
    Spelling{"hectopascal", "hPa"},
    Spelling{"hectopascals", "hPa"},
    Spelling{"hpa", "hPa"},
    Spelling{"millibar", "hPa"},
    Spelling{"millibars", "hPa"},
    Spelling{"mbar", "hPa"},
    Spelling{"mbars", "hPa"},
    Spelling{"mb", "hPa"},
    Spelling{"kilopascal", "kPa"},
    Spelling{"kilopascals", "kPa"},
    Spelling{"kpa", "kPa"},
    Spelling{"bars", "bar"},
    Spelling{"degrees_north", "deg"},
    Spelling{"degree_north", "deg"},
    Spelling{"degree_n", "deg"},
    Spelling{"degrees_n", "deg"},
    Spelling{"degrees_east", "deg"},
    Spelling{"degree_east", "deg"},
    Spelling{"degree_e", "deg"},
    Spelling{"degrees_e", "deg"},
    Spelling{"radian", "rad"},
    Spelling{"radians", "rad"},
    Spelling{"dimensionless", "1"},
    Spelling{"unitless", "1"},
};

std::string symbol_of(std::string const& name) {
  std::string lower = name;
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  for (auto const& [written, symbol] : spellings)
    if (lower == written) return std::string(symbol);
  return name;
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The number that `text` begins with, `0.01` or `1e-3`; empty when it begins with none.
std::string_view number_at(std::string_view text) {
  if (text.empty() || !is_digit(text.front())) return {};
  std::string const copy(text);
  char* end = nullptr;
  std::strtod(copy.c_str(), &end);
  return text.substr(0, std::size_t(end - copy.c_str()));
}

/// Exponents of the symbols of a product; other text is a symbol as it is.
std::map<std::string, int> factors_of(std::string_view units) {
  std::map<std::string, int> factors;
  int sign = 1;
  for (std::size_t i = 0; i < units.size();) {
    char const c = units[i];
    if (c == ' ' || c == '.' || c == '*' || c == '\t') {
      ++i;
      continue;
    }
    if (c == '/') {
      sign = -1;
      ++i;
      continue;
    }
    if (auto const number = number_at(units.substr(i)); !number.empty()) {
      // `1` in `1/s` says nothing; any other number is a symbol of its own.
      if (number != "1") factors[std::string(number)] += sign;
      sign = 1;
      i += number.size();
      continue;
    }
    std::size_t end = i;
    while (end < units.size() && std::string_view(" \t./*^-+").find(units[end]) == std::string_view::npos &&
           (end == i || !is_digit(units[end])))
      ++end;
    end = std::max(end, i + 1);
    auto const symbol = symbol_of(std::string(units.substr(i, end - i)));
    i = end;
    if (units.substr(i).starts_with("**"))
      i += 2;
    else if (i < units.size() && units[i] == '^')
      ++i;
    std::size_t digits = i;
    if (digits < units.size() && (units[digits] == '-' || units[digits] == '+')) ++digits;
    std::size_t last = digits;
    while (last < units.size() && last < digits + 2 && is_digit(units[last])) ++last;
    int exponent = 1;
    if (last > digits) {
      exponent = std::atoi(std::string(units.substr(i, last - i)).c_str());
      i = last;
    }
    factors[symbol] += sign * exponent;
    sign = 1;
  }
  factors.erase("1");
  std::erase_if(factors, [](auto const& one) { return one.second == 0; });
  return factors;
}

}  // namespace

bool same_units(std::string_view a, std::string_view b) { return a == b || factors_of(a) == factors_of(b); }

std::optional<double> pascals_per_unit(std::string_view units) {
  auto const factors = factors_of(units);
  if (factors.size() != 1 || factors.begin()->second != 1) return {};
  struct Size {
    std::string_view symbol;
    double pascals;
  };
  for (auto const& [symbol, pascals] : {Size{"Pa", 1}, Size{"hPa", 100}, Size{"kPa", 1000}, Size{"bar", 1e5}})
    if (factors.begin()->first == symbol) return pascals;
  return {};
}

}  // namespace graticule
