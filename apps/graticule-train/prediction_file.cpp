// SPDX-License-Identifier: BSD-3-Clause
#include "prediction_file.hpp"

#include <graticule/field_io/writer.hpp>

#include <algorithm>
#include <array>
#include <functional>

namespace graticule::train {
namespace {

std::vector<Attribute> coordinate_attributes(char const* standard_name, char const* units) {
  return {Attribute::of_text("standard_name", standard_name), Attribute::of_text("units", units)};
}

/// Variables in groups become variables of the one group that is written.
std::string flat_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

/// Defines the axes and names them, slowest first.
std::vector<std::string> add_axes(FieldWriter& writer, RunResult const& result) {
  std::vector<std::string> names;
  for (std::size_t a = 0; a < result.samples.extents.size(); ++a) {
    std::string const& name = result.samples.dimensions[a];
    names.push_back(name);
    std::vector<Attribute> attributes;
    if (!result.samples.units[a].empty()) attributes.push_back(Attribute::of_text("units", result.samples.units[a]));
    if (result.samples.coordinates[a].empty())
      writer.add_dimension(name, result.samples.extents[a]);
    else
      writer.add_coordinate(name, result.samples.coordinates[a], ValueType::f64, attributes);
  }
  writer.add_coordinate(result.latitude_name, result.grid.latitudes, ValueType::f64,
                        coordinate_attributes("latitude", "degrees_north"));
  writer.add_coordinate(result.longitude_name, result.grid.longitudes, ValueType::f64,
                        coordinate_attributes("longitude", "degrees_east"));
  names.push_back(result.latitude_name);
  names.push_back(result.longitude_name);
  return names;
}

struct Part {
  char const* suffix;
  char const* title;
  std::vector<double> const& values;
};

VariableSpec spec_of(TargetResult const& target, Part const& part, std::vector<std::string> const& axes) {
  std::string const long_name = target.info.long_name.empty() ? target.info.name : target.info.long_name;
  VariableSpec spec{.name = flat_name(target.info.name) + part.suffix, .dimensions = axes};
  spec.fill = 9.96921e36F;  // netCDF's own default for floating-point numbers
  spec.attributes.push_back(Attribute::of_text("long_name", long_name + part.title));
  if (!target.info.units.empty()) spec.attributes.push_back(Attribute::of_text("units", target.info.units));
  return spec;
}

/// The cells that this rank writes: of the entries of the first axis that fall to its team, those of its own box.
struct TeamPart {
  Box box;  ///< in the file
  struct {
    std::size_t first;
    std::size_t num;
  } cells;  ///< in memory, [sample][row][column]
};

TeamPart part_of_team(RunResult const& result) {
  Box const owned = result.layout.owned(result.teams.domain().rank());
  auto const [first, last] = result.teams.my_part_of(result.samples.num_first());
  Indices lo = Indices::filled(int(result.samples.extents.size()), 0);
  Indices hi{std::span<Index const>(result.samples.extents)};
  // Without samples there is no axis to divide: the last team has the one entry.
  bool const writes = last > first;
  if (!result.samples.extents.empty()) {
    lo[0] = first;
    hi[0] = last;
  }
  for (int a = 0; a < 2; ++a) {
    lo.push_back(owned.lo(a));
    hi.push_back(writes ? owned.hi(a) : owned.lo(a));
  }
  Index const cells = owned.extent(0) * owned.extent(1) * result.samples.num_levels();
  return {Box(lo, hi), {std::size_t(first * cells), std::size_t((last - first) * cells)}};
}

}  // namespace

void write_predictions(RunResult const& result, RunSettings const& settings, std::filesystem::path const& path) {
  FieldWriter writer(result.teams.world(), path,
                     {Attribute::of_text("title", "Predictions of a network that was trained by graticule-train"),
                      Attribute::of_text("source", settings.input.filename().string())});
  std::vector<std::string> const axes = add_axes(writer, result);
  auto const [box, cells] = part_of_team(result);
  for (TargetResult const& target : result.targets) {
    std::vector<double> difference(target.truth.size());
    std::transform(target.prediction.begin(), target.prediction.end(), target.truth.begin(), difference.begin(),
                   std::minus<>());
    std::array<Part, 3> const parts{Part{"_truth", ", truth", target.truth},
                                    Part{"_prediction", ", prediction", target.prediction},
                                    Part{"_difference", ", prediction - truth", difference}};
    for (Part const& part : parts) writer.add_variable(spec_of(target, part, axes));
    for (Part const& part : parts)
      writer.write(flat_name(target.info.name) + part.suffix, box,
                   std::span(part.values).subspan(cells.first, cells.num));
  }
  writer.commit();
}

}  // namespace graticule::train
