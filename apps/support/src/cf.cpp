// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/cf.hpp>

namespace graticule::app {

void add_grid(FieldWriter& writer, std::span<double const> latitudes, std::span<double const> longitudes) {
  writer.add_coordinate("latitude", latitudes, ValueType::f64,
                        {text("standard_name", "latitude"), text("long_name", "latitude"),
                         text("units", "degrees_north"), text("axis", "Y")});
  writer.add_coordinate("longitude", longitudes, ValueType::f64,
                        {text("standard_name", "longitude"), text("long_name", "longitude"),
                         text("units", "degrees_east"), text("axis", "X")});
}

void add_field(FieldWriter& writer, FieldSpec const& spec, std::vector<std::string> dimensions, ValueType type) {
  std::vector<Attribute> attributes;
  if (spec.standard_name != nullptr) attributes.push_back(text("standard_name", spec.standard_name));
  attributes.push_back(text("long_name", spec.long_name));
  attributes.push_back(text("units", spec.units));
  writer.add_variable({.name = spec.name, .dimensions = std::move(dimensions), .type = type, .attributes = attributes});
}

}  // namespace graticule::app
