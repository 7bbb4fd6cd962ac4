// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>
#include <graticule/training/state/values.hpp>

#include <string>
#include <variant>

namespace graticule::training::detail {

/// The value of that name and type. @throws `MissingVariable`, `WrongType` (input)
template <class T>
[[nodiscard]] T value_of(Values const& values, std::string const& name) {
  auto const found = values.find(name);
  if (found == values.end()) {
    std::string names;
    for (auto const& [known, value] : values) names += (names.empty() ? "" : ", ") + known;
    throw Error(Fault::input, "MissingVariable",
                "the state has no value '" + name + "'; it has " + (names.empty() ? "none" : names));
  }
  auto const* value = std::get_if<T>(&found->second);
  if (value == nullptr)
    throw Error(Fault::input, "WrongType", "the value '" + name + "' of the state has another type than is read here");
  return *value;
}

/// The values whose names begin with `prefix`, without the prefix.
[[nodiscard]] inline Values values_below(Values const& values, std::string const& prefix) {
  Values result;
  for (auto const& [name, value] : values)
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), value);
  return result;
}

/// Copies of `values`, with `prefix` added to their names: the inverse of `values_below`.
[[nodiscard]] inline Values with_prefix(std::string const& prefix, Values const& values) {
  Values result;
  for (auto const& [name, value] : values) result.emplace(prefix + name, value);
  return result;
}

}  // namespace graticule::training::detail
