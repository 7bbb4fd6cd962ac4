// SPDX-License-Identifier: BSD-3-Clause
#include "fields.hpp"

#include <algorithm>

namespace graticule::train {
namespace {

/// The sample axes of a variable, by name and extent.
SampleAxes sample_axes(Variable const& variable, HorizontalAxes const& axes) {
  SampleAxes samples;
  for (int a = 0; a < variable.ndim(); ++a) {
    if (a == axes.latitude || a == axes.longitude) continue;
    std::string name =
        std::size_t(a) < variable.dimensions.size() ? variable.dimensions[std::size_t(a)] : std::string();
    samples.dimensions.push_back(name.empty() ? "axis" + std::to_string(a) : name);
    samples.extents.push_back(variable.extents[a]);
  }
  return samples;
}

std::vector<double> horizontal_coordinate(FieldSeries const& file, Variable const& variable, int axis) {
  return file.coordinate(variable.dimensions.at(std::size_t(axis)));
}

void read_sample_coordinates(FieldSeries const& file, SampleAxes& samples) {
  for (std::string const& name : samples.dimensions) {
    Variable const* const coordinate = file.contents().coordinate(name);
    bool const is_readable =
        coordinate != nullptr && coordinate->refusal.empty() && coordinate->type != ValueType::text;
    samples.coordinates.push_back(is_readable ? file.coordinate(name) : std::vector<double>());
    samples.units.push_back(is_readable ? coordinate->text("units") : std::string());
  }
}

}  // namespace

FieldTable::FieldTable(Comm const& comm, std::string const& files, std::vector<std::string> const& names)
    : file_(comm, find_files(comm, files)) {
  // Every variable is looked up before anything is read, so that a wrong name is reported at once.
  for (std::string const& name : names) static_cast<void>(file_.variable(name));
  for (std::string const& name : names) {
    Variable const& variable = file_.variable(name);
    HorizontalAxes const axes = file_.horizontal_axes(name);
    std::string const& latitude = variable.dimensions.at(std::size_t(axes.latitude));
    std::string const& longitude = variable.dimensions.at(std::size_t(axes.longitude));
    SampleAxes samples = sample_axes(variable, axes);
    if (latitude_name_.empty()) {
      latitude_name_ = latitude;
      longitude_name_ = longitude;
      samples_ = std::move(samples);
      grid_ = make_grid(horizontal_coordinate(file_, variable, axes.latitude),
                        horizontal_coordinate(file_, variable, axes.longitude));
    } else if (latitude != latitude_name_ || longitude != longitude_name_ ||
               samples.dimensions != samples_.dimensions || samples.extents != samples_.extents) {
      throw Error(Fault::input, "SampleMismatch",
                  to_string(variable) + " and " + to_string(file_.variable(names.front())) +
                      " have different dimensions; inputs and targets need the same ones");
    }
  }
  if (samples_.num_samples() == 0 || grid_.num_rows() == 0 || grid_.num_columns() == 0)
    throw Error(Fault::input, "EmptyVariable", to_string(file_.variable(names.front())) + " holds no values");
  read_sample_coordinates(file_, samples_);
}

FieldInfo FieldTable::info(std::string const& name) const {
  Variable const& variable = file_.variable(name);
  Component const component = component_of(variable);
  return {name,
          variable.text("units"),
          variable.text("long_name"),
          variable.text("standard_name"),
          component,
          component == Component::scalar ? Parity::even : Parity::odd,
          is_potential(variable)};
}

Field FieldTable::read(std::string const& name, Box const& box) const {
  return {info(name), read_samples(name, box, samples_.num_first())};
}

Field FieldTable::read_mirrored(std::string const& name, Box const& box, Index num_samples) const {
  Box mirrored = box;
  mirrored.set(0, grid_.num_rows() - box.hi(0), grid_.num_rows() - box.lo(0));
  Field field{info(name), read_samples(name, mirrored, num_samples / samples_.num_levels())};
  Index const rows = box.extent(0);
  Index const columns = box.extent(1);
  for (Index s = 0; s < num_samples && !box.empty(); ++s) {
    auto const first = field.values.begin() + s * rows * columns;
    for (Index i = 0; i < rows / 2; ++i)
      std::swap_ranges(first + i * columns, first + (i + 1) * columns, first + (rows - 1 - i) * columns);
  }
  if (field.info.component == Component::northward)
    for (double& value : field.values) value = -value;
  return field;
}

std::vector<double> FieldTable::read_samples(std::string const& name, Box const& box, Index num_first) const {
  Variable const& variable = file_.variable(name);
  HorizontalAxes const axes = file_.horizontal_axes(name);
  Box wanted = Box::from_extents(variable.extents);
  wanted.set(axes.latitude, box.lo(0), box.hi(0));
  wanted.set(axes.longitude, box.lo(1), box.hi(1));
  for (int a = 0; a < variable.ndim(); ++a) {
    if (a == axes.latitude || a == axes.longitude) continue;
    wanted.set(a, 0, num_first);
    break;
  }
  std::vector<double> as_stored(static_cast<std::size_t>(wanted.num_cells()));
  file_.read(name, wanted, std::span(as_stored));
  if (axes.latitude == variable.ndim() - 2 && axes.longitude == variable.ndim() - 1) return as_stored;

  // Strides in memory of each stored axis: samples in order, then rows, then columns.
  Indices strides = Indices::filled(variable.ndim(), 0);
  strides[axes.longitude] = 1;
  strides[axes.latitude] = wanted.extent(axes.longitude);
  Index stride = wanted.extent(axes.longitude) * wanted.extent(axes.latitude);
  for (int a = variable.ndim() - 1; a >= 0; --a) {
    if (a == axes.latitude || a == axes.longitude) continue;
    strides[a] = stride;
    stride *= wanted.extent(a);
  }
  std::vector<double> values(as_stored.size());
  Indices cell = Indices::filled(variable.ndim(), 0);
  for (double const value : as_stored) {
    Index offset = 0;
    for (int a = 0; a < variable.ndim(); ++a) offset += cell[a] * strides[a];
    values[std::size_t(offset)] = value;
    for (int a = variable.ndim() - 1; a >= 0 && ++cell[a] == wanted.extent(a); --a) cell[a] = 0;
  }
  return values;
}

}  // namespace graticule::train
