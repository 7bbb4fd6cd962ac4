// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include <map>
#include <string>

namespace graticule::training {

/// Named state, in the form of a checkpoint's values.
///
/// Example: `for (auto const& [name, value] : daso.state()) writer.add_value("daso/" + name, value);`
using Values = std::map<std::string, CheckpointValue>;

/// The values whose names begin with `prefix`, without the prefix.
[[nodiscard]] inline Values values_below(Values const& values, std::string const& prefix) {
  Values result;
  for (auto const& [name, value] : values)
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), value);
  return result;
}

}  // namespace graticule::training
