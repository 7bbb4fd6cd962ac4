// SPDX-License-Identifier: BSD-3-Clause
// Tables of enumerations: everything that the code has to know of a value stands in one row.
#pragma once

#include <array>
#include <cstddef>
#include <string>

// A value without a row must not compile, whatever the flags of the build.
#pragma GCC diagnostic error "-Wswitch"

namespace graticule::detail {

/// Number of values of an enumeration that counts from 0.
///
/// Its table is a function `enum_row(Enum)` in the namespace of the enumeration: a switch without a default, with a row
/// for each value, and a row whose `name` is null for any other number.
template <class Enum>
inline constexpr int num_enum_values = [] {
  int count = 0;
  while (enum_row(Enum(count)).name != nullptr) ++count;
  return count;
}();

/// All values, in order.
template <class Enum>
inline constexpr auto enum_values = [] {
  std::array<Enum, std::size_t(num_enum_values<Enum>)> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Enum(i);
  return values;
}();

template <class Enum>
inline constexpr int last_enum_value = num_enum_values<Enum> - 1;

/// The name of a value; of another number, the number.
template <class Enum>
[[nodiscard]] std::string enum_name(Enum value) {
  char const* const name = enum_row(value).name;
  return name == nullptr ? std::to_string(int(value)) : name;
}

/// `a, b, c`, all names in order.
template <class Enum>
[[nodiscard]] std::string enum_names(char const* separator = ", ") {
  std::string names;
  for (Enum const value : enum_values<Enum>) names += (names.empty() ? "" : separator) + enum_name(value);
  return names;
}

}  // namespace graticule::detail
