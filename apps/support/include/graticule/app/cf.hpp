// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/writer.hpp>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace graticule::app {

/// A variable and its attributes, as the CF conventions name them.
struct FieldSpec {
  char const* name;
  char const* standard_name;  ///< none: null
  char const* long_name;
  char const* units;
};

[[nodiscard]] inline Attribute text(char const* name, std::string value) {
  return Attribute::of_text(name, std::move(value));
}

/// Adds the dimensions `latitude` and `longitude` with their coordinates, in degrees, as f64. Collective.
void add_grid(FieldWriter& writer, std::span<double const> latitudes, std::span<double const> longitudes);
/// Adds a variable with the attributes of `spec`. Collective.
void add_field(FieldWriter& writer, FieldSpec const& spec, std::vector<std::string> dimensions, ValueType type);

}  // namespace graticule::app
