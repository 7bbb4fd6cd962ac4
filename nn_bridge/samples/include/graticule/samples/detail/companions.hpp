// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/series.hpp>
#include <graticule/field_io/writer.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace graticule::samples {

/// Variables in groups become variables of the one group that is written.
[[nodiscard]] std::string flat_name(std::string name);

/// A variable of the input that describes the position of its fields: a coordinate, its bounds, an auxiliary
/// coordinate, a grid mapping. Whole on every rank.
struct Companion {
  VariableSpec spec;
  Indices extents;
  /// Text as it is stored; integers of 64 bits, which double does not hold; all other numbers.
  std::variant<std::vector<std::byte>, std::vector<std::int64_t>, std::vector<double>> values;
};

/// Variables and attributes that accompany some fields.
struct CompanionSet {
  std::vector<Companion> variables;
  std::vector<std::string> left_out;  ///< named by attributes, which are dropped then
};

/// Reads the coordinates of `dimensions` and of what they and the `fields` name: `bounds`, `climatology`,
/// `formula_terms`, `coordinates` and `grid_mapping`. With all attributes, but for `_FillValue` and `missing_value` of
/// coordinates, which CF does not allow; what a coordinate needs by CF and lacks is added. Packed values are unpacked.
/// Variables along both `latitude` and `longitude` are left out, as is what cannot be read. Collective.
/// @param num_longitudes of the fields; of coordinates that have more, the first ones are read
/// @param apart variables, and dimensions whose variables, are left out too
[[nodiscard]] CompanionSet read_companions(Comm const& comm, FieldSeries const& file,
                                           std::vector<std::string> const& fields,
                                           std::vector<std::string> const& dimensions, std::string const& latitude,
                                           std::string const& longitude, Index num_longitudes,
                                           std::set<std::string> const& apart = {});

/// Attributes of a field that hold for what is predicted of it: `units`, `standard_name`, `cell_methods`,
/// `coordinates` that come along, and `grid_mapping` where all that it names does.
[[nodiscard]] std::vector<Attribute> kept_attributes(Variable const& field, CompanionSet const& companions);

/// Adds the `dimensions` of the fields, the variables with further dimensions, and their values. Collective.
void write_companions(Comm const& comm, FieldWriter& writer, std::vector<Dimension> dimensions,
                      CompanionSet const& companions);

}  // namespace graticule::samples
