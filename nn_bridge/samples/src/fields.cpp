// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/samples/detail/fields.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace graticule::samples {
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

/// Turns jumps back by about a circle into a way on. Two of them are a circle with columns of its start at its end.
void count_on(std::vector<double>& longitudes) {
  if (longitudes.size() < 3) return;
  double turn = 0;
  double before = longitudes.front();
  for (double& longitude : longitudes) {
    if (std::abs(longitude - before) > 180) turn += longitude < before ? 360 : -360;
    before = longitude;
    longitude += turn;
  }
}

/// How many columns at the end lie a circle or more beyond the first one. A plot's file has one, a model's with columns
/// for its neighbors on both sides has two or more.
std::size_t num_repeated(std::vector<double> const& longitudes) {
  auto const n = longitudes.size();
  if (n < 3) return 0;
  double const first = longitudes.front();
  double const circle = 360 - 1e-3 * std::abs(longitudes.back() - first) / double(n - 1);
  auto const begin =
      std::find_if(longitudes.begin(), longitudes.end(), [&](double one) { return std::abs(one - first) >= circle; });
  return std::size_t(longitudes.end() - begin);
}

void require_no_repetition(FieldSeries const& file, std::string const& dimension,
                           std::vector<double> const& longitudes) {
  auto const repeated = num_repeated(longitudes);
  if (repeated == 0) return;
  auto const count = std::to_string(repeated);
  throw Error(Fault::input, "BadCoordinates",
              dimension + " of " + file.contents().path.string() + " runs from " + short_number(longitudes.front()) +
                  " to " + short_number(longitudes.back()) + ": " +
                  (repeated == 1 ? "the last column repeats the first; leave it out"
                                 : "the last " + count + " columns repeat the first " + count + "; leave them out") +
                  " (--repeated-longitude drop), or remove " + (repeated == 1 ? "it" : "them") + " (`ncks -d " +
                  dimension + ",0," + std::to_string(longitudes.size() - repeated - 1) + " IN OUT`)");
}

/// A whole circle in radians, without units that say so, would be a region of 6 degrees.
void require_degrees(FieldSeries const& file, std::string const& dimension, std::vector<double> const& longitudes) {
  Variable const* const coordinate = file.contents().coordinate(dimension);
  if (coordinate == nullptr || !coordinate->text("units").empty() || longitudes.size() < 4) return;
  auto const n = double(longitudes.size());
  double const spacing = (longitudes.back() - longitudes.front()) / (n - 1);
  if (std::abs(std::abs(n * spacing) - 2 * std::numbers::pi) > 1e-3 * std::abs(spacing)) return;
  throw Error(Fault::input, "BadCoordinates",
              to_string(*coordinate) + " of " + file.contents().path.string() + " runs from " +
                  short_number(longitudes.front()) + " to " + short_number(longitudes.back()) +
                  ", a circle in radians, and has no units: set them (`ncatted -a units," + coordinate->name +
                  ",o,c,radians FILE`, of the latitudes too), or degrees_east");
}

void read_sample_coordinates(FieldSeries const& file, SampleAxes& samples) {
  for (std::string const& name : samples.dimensions) {
    Variable const* const coordinate = readable_coordinate(file, name);
    samples.coordinates.push_back(coordinate != nullptr ? file.coordinate(name) : std::vector<double>());
    samples.units.push_back(coordinate != nullptr ? coordinate->text("units") : std::string());
  }
}

}  // namespace

Variable const* readable_coordinate(FieldSeries const& file, std::string const& dimension) {
  Variable const* const found = file.contents().coordinate(dimension);
  return found != nullptr && found->refusal.empty() && found->type != ValueType::text ? found : nullptr;
}

void naming_input(std::string const& files, std::function<void()> const& action) {
  try {
    action();
  } catch (Error const& error) {
    if (error.fault() != Fault::input || error.text().find(files) != std::string::npos) throw;
    throw Error(error.fault(), error.rule(), files + ": " + error.text());
  }
}

void require_trainable(FileContents const& contents, Variable const& variable) {
  if (!variable.refusal.empty())
    throw Error(Fault::input, variable.refusal_rule,
                "variable " + variable.name + " of " + contents.path.string() + " cannot be read: " + variable.refusal);
  require_packing(contents, variable);
  int const axis = variable.axis("expver");
  if (axis >= 0 && variable.extents[axis] > 1)
    throw Error(Fault::input, "BadInput",
                to_string(variable) + " of " + contents.path.string() +
                    " has the dimension expver, which tells final from preliminary data of ERA5: each time has values "
                    "in one of them; merge them first, for example with xarray's "
                    "`d.sel(expver=1).combine_first(d.sel(expver=5))`");
}

bool drop_repeated(std::vector<double>& longitudes) {
  auto counted = longitudes;
  count_on(counted);
  auto const repeated = num_repeated(counted);
  longitudes.resize(longitudes.size() - repeated);
  return repeated > 0;
}

Grid grid_of(FieldSeries const& file, std::string const& latitude, std::string const& longitude,
             RepeatedColumn repeated) {
  auto longitudes = file.coordinate(longitude);
  if (repeated == RepeatedColumn::drop) drop_repeated(longitudes);
  count_on(longitudes);
  require_no_repetition(file, longitude, longitudes);
  require_degrees(file, longitude, longitudes);
  return make_grid(file.coordinate(latitude), std::move(longitudes));
}

FieldTable::FieldTable(Comm const& comm, std::string const& files, std::vector<std::string> const& names,
                       RepeatedColumn repeated)
    : file_(comm, find_files(comm, files)) {
  naming_input(files, [&] { look_at(names, repeated); });
}

void FieldTable::look_at(std::vector<std::string> const& names, RepeatedColumn repeated) {
  // Every variable is looked up before anything is read, so that a wrong name is reported at once.
  for (std::string const& name : names) require_trainable(file_.contents(), file_.variable(name));
  for (std::string const& name : names) {
    Variable const& variable = file_.variable(name);
    HorizontalAxes const axes = file_.horizontal_axes(name);
    if (file_.files().size() > 1 && variable.axis(file_.dimension()) < 0)
      throw Error(Fault::input, "BadInput",
                  to_string(variable) + " of " + file_.files().front().string() + " has no axis '" + file_.dimension() +
                      "', along which the " + std::to_string(file_.files().size()) +
                      " files are joined: the fields of all but the first would be left out; give it this axis, or "
                      "pass one file");
    std::string const& latitude = variable.dimensions.at(std::size_t(axes.latitude));
    std::string const& longitude = variable.dimensions.at(std::size_t(axes.longitude));
    SampleAxes samples = sample_axes(variable, axes);
    if (latitude_name_.empty()) {
      latitude_name_ = latitude;
      longitude_name_ = longitude;
      samples_ = std::move(samples);
      grid_ = grid_of(file_, latitude, longitude, repeated);
    } else if (latitude != latitude_name_ || longitude != longitude_name_ ||
               samples.dimensions != samples_.dimensions || samples.extents != samples_.extents) {
      throw Error(Fault::input, "BadInput",
                  to_string(variable) + " and " + to_string(file_.variable(names.front())) +
                      " have different dimensions; inputs and targets must have the same");
    }
  }
  if (samples_.num_samples() == 0 || grid_.num_rows() == 0 || grid_.num_columns() == 0)
    throw Error(Fault::input, "BadInput", to_string(file_.variable(names.front())) + " holds no values");
  read_sample_coordinates(file_, samples_);
}

FieldInfo describe_field(Variable const& variable) {
  Component const component = component_of(variable);
  return {variable.name,
          variable.text("units"),
          variable.text("long_name"),
          variable.text("standard_name"),
          component,
          component == Component::scalar ? Parity::even : Parity::odd,
          is_potential(variable),
          mirror_negates(variable)};
}

FieldInfo FieldTable::info(std::string const& name) const { return describe_field(file_.variable(name)); }

std::string FieldTable::history() const {
  for (Attribute const& attribute : file_.contents().attributes)
    if (attribute.name == "history") return attribute.text();
  return {};
}

CompanionSet FieldTable::companions(Comm const& comm, std::vector<std::string> const& names) const {
  std::vector<std::string> dimensions = samples_.dimensions;
  dimensions.insert(dimensions.end(), {latitude_name_, longitude_name_});
  return read_companions(comm, file_, names, dimensions, latitude_name_, longitude_name_, grid_.num_columns());
}

SampleReader FieldTable::reader(std::vector<std::string> const& names, Box const& box, Index num_mirrored) const {
  std::vector<SampleReader::Source> fields;
  for (std::string const& name : names) {
    HorizontalAxes const axes = file_.horizontal_axes(name);
    std::vector<int> sample_axes;
    for (int a = 0; a < variable(name).ndim(); ++a)
      if (a != axes.latitude && a != axes.longitude) sample_axes.push_back(a);
    fields.push_back({info(name), axes, sample_axes, Indices::filled(variable(name).ndim(), 0)});
  }
  return {SeriesReader(file_), std::move(fields), samples_, box, grid_.num_rows(), num_mirrored};
}

SampleReader::SampleReader(SeriesReader reader, std::vector<Source> fields, SampleAxes samples, Box const& box,
                           Index num_rows, Index num_mirrored)
    : reader_(std::move(reader)),
      fields_(std::move(fields)),
      samples_(std::move(samples)),
      box_(box),
      num_rows_(num_rows),
      num_mirrored_(num_mirrored) {}

StoredCells SampleReader::read(Index sample, std::size_t field) {
  auto const& [info, axes, sample_axes, fixed] = fields_.at(field);
  bool const mirrored = sample >= num_in_file();
  Box wanted = Box::from_extents(Indices::filled(fixed.size(), 1));
  for (int a = 0; a < fixed.size(); ++a) wanted.set(a, fixed[a], fixed[a] + 1);
  wanted.set(axes.latitude, mirrored ? num_rows_ - box_.hi(0) : box_.lo(0),
             mirrored ? num_rows_ - box_.lo(0) : box_.hi(0));
  wanted.set(axes.longitude, box_.lo(1), box_.hi(1));
  Index rest = mirrored ? sample - num_in_file() : sample;
  auto extent = samples_.extents.rbegin();
  for (auto axis = sample_axes.rbegin(); axis != sample_axes.rend(); ++axis, ++extent) {
    wanted.set(*axis, rest % *extent, rest % *extent + 1);
    rest /= *extent;
  }
  return reader_.read(info.name, wanted);
}

void SampleReader::unpack(Index sample, std::size_t field, StoredCells const& cells, std::span<double> values) const {
  FieldInfo const& info = fields_.at(field).info;
  HorizontalAxes const axes = fields_.at(field).axes;
  auto const rows = std::size_t(box_.extent(0));
  auto const columns = std::size_t(box_.extent(1));
  if (axes.latitude < axes.longitude) {
    cells.unpack(values);
  } else {
    std::vector<double> turned(values.size());
    cells.unpack(turned);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) values[i * columns + j] = turned[j * rows + i];
  }
  if (sample < num_in_file()) return;
  for (std::size_t i = 0; i < rows / 2; ++i)
    std::swap_ranges(values.data() + i * columns, values.data() + (i + 1) * columns,
                     values.data() + (rows - 1 - i) * columns);
  if (info.mirror_negates)
    for (double& value : values) value = -value;
}

}  // namespace graticule::samples
