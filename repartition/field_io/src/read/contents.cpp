// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/value_types.hpp>

#include "poles.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace graticule {

std::string_view to_string(ValueType type) noexcept { return enum_row(type).name; }

int size_in_bytes(ValueType type) noexcept { return enum_row(type).bytes; }

Attribute Attribute::of_text(std::string name, std::string text) {
  return {std::move(name), ValueType::text, std::move(text)};
}

Attribute Attribute::of_number(std::string name, double number, ValueType type) {
  auto const kind = enum_row(type).kind;
  if (type == ValueType::f32 || type == ValueType::f64) return {std::move(name), type, std::vector<double>{number}};
  if (kind == detail::StoredKind::signed_integer || kind == detail::StoredKind::unsigned_integer)
    return {std::move(name), type, std::vector<Index>{Index(number)}};
  throw Error("WrongType", "attribute " + name + " must be a number, got the type " + std::string(to_string(type)));
}

std::string Attribute::text() const {
  if (auto const* found = std::get_if<std::string>(&value)) return *found;
  std::string joined;
  if (auto const* several = std::get_if<std::vector<std::string>>(&value))
    for (std::size_t i = 0; i < several->size(); ++i) joined += (i > 0 ? "\n" : "") + (*several)[i];
  return joined;
}

std::vector<double> Attribute::numbers() const {
  if (auto const* floats = std::get_if<std::vector<double>>(&value)) return *floats;
  std::vector<double> all;
  if (auto const* integers = std::get_if<std::vector<Index>>(&value))
    for (Index const one : *integers) all.push_back(type == ValueType::u64 ? double(std::uint64_t(one)) : double(one));
  return all;
}

Attribute const* Variable::attribute(std::string_view attribute_name) const noexcept {
  auto const found =
      std::find_if(attributes.begin(), attributes.end(), [&](auto const& a) { return a.name == attribute_name; });
  return found != attributes.end() ? &*found : nullptr;
}

std::string Variable::text(std::string_view attribute_name) const {
  auto const* found = attribute(attribute_name);
  return found != nullptr ? found->text() : std::string{};
}

int Variable::axis(std::string_view dimension) const noexcept {
  auto const found = std::find(dimensions.begin(), dimensions.end(), dimension);
  return found != dimensions.end() ? int(found - dimensions.begin()) : -1;
}

std::string to_string(Variable const& variable) {
  std::string text = variable.name + "(";
  for (int axis = 0; axis < variable.ndim(); ++axis) {
    auto const& name = variable.dimensions[std::size_t(axis)];
    text += (axis > 0 ? ", " : "") + (name.empty() ? std::string("?") : name) + "=" +
            std::to_string(variable.extents[axis]);
  }
  return text + ")";
}

Variable const* FileContents::find(std::string_view name) const noexcept {
  auto const found = std::find_if(variables.begin(), variables.end(), [&](auto const& v) { return v.name == name; });
  return found != variables.end() ? &*found : nullptr;
}

Variable const& FileContents::variable(std::string_view name) const {
  if (auto const* found = find(name)) return *found;
  std::string names;
  for (auto const& variable : variables) names += (names.empty() ? "" : ", ") + variable.name;
  throw Error(Fault::input, "MissingVariable",
              path.string() + " has no variable '" + std::string(name) + "'; it has " +
                  (names.empty() ? std::string("no variables at all") : names));
}

namespace {

struct Direction {
  std::string_view standard_name;
  std::string_view units;
  std::array<std::string_view, 4> spellings;  ///< of the units, as `plain` writes them
  std::array<std::string_view, 10> names;
};

constexpr Direction latitude_direction{
    "latitude",
    "degrees_north",
    {"degreesnorth", "degreenorth", "degreesn", "degreen"},
    {"latitude", "lat", "lats", "xlat", "grid_yt", "nav_lat", "nlat", "latitudes", "lat_0", "g0_lat"}};
constexpr Direction longitude_direction{
    "longitude",
    "degrees_east",
    {"degreeseast", "degreeeast", "degreese", "degreee"},
    {"longitude", "lon", "lons", "xlong", "grid_xt", "nav_lon", "nlon", "longitudes", "lon_0", "g0_lon"}};
/// Degrees of no direction.
constexpr std::array<std::string_view, 6> degrees{"degrees", "degree", "deg", "arcdegrees", "arcdegree", "°"};
constexpr std::array<std::string_view, 3> radians{"radians", "radian", "rad"};

template <class Range>
bool holds(Range const& range, std::string_view value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return result;
}

/// Units in lower case without blanks and underscores: `degrees_N` and `degrees n` are the same.
std::string plain(std::string_view units) {
  auto result = lower(units);
  std::erase_if(result, [](char c) { return c == ' ' || c == '_'; });
  return result;
}

bool points(Direction const& direction, Variable const& coordinate) {
  auto const standard_name = coordinate.text("standard_name");
  if (!standard_name.empty()) return standard_name == direction.standard_name;
  return holds(direction.spellings, plain(coordinate.text("units")));
}

std::string base_name(std::string const& name) { return name.substr(name.rfind('/') + 1); }

bool is_named(Direction const& direction, std::string_view dimension) {
  return holds(direction.names, lower(base_name(std::string(dimension))));
}

bool is_along(Variable const& variable, std::string_view dimension) {
  return variable.ndim() == 1 && variable.dimensions.front() == dimension;
}

/// Of a rotated or projected grid, whose axes are not those of the globe whatever their names.
bool is_projected(Variable const* coordinate) {
  auto const standard_name = coordinate != nullptr ? coordinate->text("standard_name") : std::string();
  return standard_name.starts_with("grid_") || standard_name.starts_with("projection_");
}

void require_known_units(FileContents const& contents, Direction const& direction, Variable const& coordinate) {
  auto const* const attribute = coordinate.attribute("units");
  if (attribute == nullptr) return;
  auto const units = plain(attribute->text());
  bool const is_text = attribute->type == ValueType::text;
  if (is_text && (units.empty() || holds(direction.spellings, units) || holds(degrees, units) || holds(radians, units)))
    return;
  throw Error(Fault::input, "BadCoordinates",
              std::string(direction.standard_name) + " " + to_string(coordinate) + " of " + contents.path.string() +
                  " has the units " + (is_text ? "'" + attribute->text() + "'" : "of a number") + ", not " +
                  std::string(direction.units) + ", degrees or radians");
}

int find_axis(FileContents const& contents, Variable const& variable, Direction const& direction) {
  std::vector<int> by_coordinate;
  std::vector<int> by_name;
  for (int axis = 0; axis < variable.ndim(); ++axis) {
    auto const& dimension = variable.dimensions[std::size_t(axis)];
    auto const* coordinate = dimension.empty() ? nullptr : contents.coordinate(dimension);
    if (coordinate != nullptr && points(direction, *coordinate)) by_coordinate.push_back(axis);
    if (is_named(direction, dimension) && !is_projected(coordinate)) by_name.push_back(axis);
  }
  auto const& found = by_coordinate.empty() ? by_name : by_coordinate;
  if (found.size() == 1) {
    auto const* const coordinate = contents.coordinate(variable.dimensions[std::size_t(found.front())]);
    if (coordinate != nullptr) require_known_units(contents, direction, *coordinate);
    return found.front();
  }

  auto const start = "variable " + to_string(variable) + " of " + contents.path.string() + " has ";
  auto const word = std::string(direction.standard_name);
  if (found.size() > 1) throw Error(Fault::input, "MissingVariable", start + "more than one " + word + " axis");
  for (auto const& other : contents.variables) {
    if (!points(direction, other)) continue;
    if (other.ndim() > 1)
      throw Error(Fault::input, "MissingVariable",
                  start + "no " + word + " axis: its grid is curvilinear, as " + to_string(other) +
                      " shows; remap it to a regular grid of latitudes and longitudes");
    if (other.ndim() == 1 && variable.axis(other.dimensions.front()) >= 0)
      throw Error(Fault::input, "MissingVariable",
                  start + "no " + word + " axis: its grid is unstructured, as " + to_string(other) +
                      " and its other coordinates show; remap it to a regular grid of latitudes and longitudes");
  }
  throw Error(Fault::input, "MissingVariable",
              start + "no " + word + " axis; give its coordinate standard_name = \"" + word + "\" or units = \"" +
                  std::string(direction.units) + "\"");
}

}  // namespace

Variable const* FileContents::coordinate(std::string_view dimension) const noexcept {
  if (auto const* found = find(dimension)) return found->ndim() == 1 ? found : nullptr;
  // Two latitudes, or one of either kind, do not say where the cells are along this axis alone.
  Variable const* only = nullptr;
  for (auto const& variable : variables) {
    bool const is_place = is_along(variable, dimension) && !dimension.empty() &&
                          (points(latitude_direction, variable) || points(longitude_direction, variable));
    if (!is_place) continue;
    if (only != nullptr) return nullptr;
    only = &variable;
  }
  return only;
}

double degrees_per_unit(FileContents const& contents, std::string_view dimension) {
  auto const* const found = contents.coordinate(dimension);
  if (found == nullptr) return 1;
  for (auto const& direction : {latitude_direction, longitude_direction}) {
    bool const is_meant =
        found->text("standard_name").empty() ? is_named(direction, dimension) : points(direction, *found);
    if (!is_meant) continue;
    require_known_units(contents, direction, *found);
    return holds(radians, plain(found->text("units"))) ? 180 / std::numbers::pi : 1;
  }
  return 1;
}

void detail::to_degrees(FileContents const& contents, std::string_view dimension, std::vector<double>& values) {
  if (double const factor = degrees_per_unit(contents, dimension); factor != 1)
    for (double& value : values) value *= factor;
  auto const* const found = contents.coordinate(dimension);
  bool const is_latitude =
      found != nullptr && (found->text("standard_name").empty()
                               ? is_named(latitude_direction, dimension) || points(latitude_direction, *found)
                               : points(latitude_direction, *found));
  if (!is_latitude) return;
  constexpr double two_steps_of_f32 = 2e-5;
  for (double& value : values)
    if (std::abs(value) > 90 && std::abs(value) <= 90 + two_steps_of_f32) value = std::copysign(90.0, value);
}

HorizontalAxes FileContents::horizontal_axes(Variable const& variable) const {
  return {find_axis(*this, variable, latitude_direction), find_axis(*this, variable, longitude_direction)};
}

}  // namespace graticule
