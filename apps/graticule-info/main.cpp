// SPDX-License-Identifier: BSD-3-Clause
// Lists what a file holds and how its fields would be cut among ranks.
#include <graticule/app/driver.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/partition/process_grid.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>
#include <optional>
#include <sstream>

namespace {

using namespace graticule;

struct Options {
  std::string file;
  int num_ranks = 0;
  std::string partition = "auto";
  std::string cuts = "balanced";
};

void declare(CLI::App& app, Options& options) {
  app.add_option("FILE,--file", options.file, "netCDF-4 or HDF5 file")->required();
  app.add_option("--ranks", options.num_ranks, "Show the cuts for this many ranks; 0: the ranks of the partition")
      ->check(CLI::Range(0, 1 << 24));
  app.add_option("--partition", options.partition,
                 "Ranks along latitude x longitude, such as 4x1; auto: latitude only");
  app.add_option("--cuts", options.cuts, "balanced (rows) or area")->check(CLI::IsMember({"balanced", "area"}));
}

/// `4x2`
std::optional<ProcessGrid> parse_grid(std::string const& text) {
  std::array<int, 2> extents{};
  auto const* at = text.data();
  auto const* const end = at + text.size();
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (axis == 1 && (at == end || *at++ != 'x')) return {};
    auto const [next, error] = std::from_chars(at, end, extents[axis]);
    if (error != std::errc() || extents[axis] < 1 || extents[axis] > (1 << 24)) return {};
    at = next;
  }
  if (at != end || Index(extents[0]) * extents[1] > (1 << 24)) return {};
  return ProcessGrid{extents[0], extents[1]};
}

ProcessGrid chosen_grid(Options const& options) {
  if (options.partition == "auto") return ProcessGrid{std::max(options.num_ranks, 1), 1};
  auto const grid = parse_grid(options.partition);
  if (!grid)
    throw Error(Fault::usage, "BadPartition",
                "--partition " + options.partition + " is neither auto nor ROWSxCOLUMNS such as 4x1");
  if (options.num_ranks != 0 && grid->num_ranks() != options.num_ranks)
    throw Error(Fault::usage, "BadPartition",
                "--partition " + options.partition + " needs " + std::to_string(grid->num_ranks()) +
                    " ranks, --ranks names " + std::to_string(options.num_ranks));
  return *grid;
}

std::string number_text(double value) {
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

std::string value_text(Attribute const& attribute) {
  if (attribute.type == ValueType::text) {
    auto text = attribute.text();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text.size() > 100 ? "\"" + text.substr(0, 97) + "...\"" : "\"" + text + "\"";
  }
  std::string text;
  auto const numbers = attribute.numbers();
  for (std::size_t i = 0; i < std::min<std::size_t>(numbers.size(), 8); ++i)
    text += (i > 0 ? ", " : "") + number_text(numbers[i]);
  return text + (numbers.size() > 8 ? ", ..." : "");
}

std::string list_text(Indices const& values) {
  std::string text;
  for (int axis = 0; axis < values.size(); ++axis) text += (axis > 0 ? " x " : "") + std::to_string(values[axis]);
  return text;
}

void print_variable(Variable const& variable) {
  std::cout << "  " << to_string(variable) << "  " << to_string(variable.type)
            << (variable.is_big_endian ? " big-endian" : "");
  if (variable.chunk.size() > 0) std::cout << ", chunks " << list_text(variable.chunk);
  for (auto const& filter : variable.filters) {
    std::cout << ", " << filter.name;
    if (filter.name == "deflate" && !filter.parameters.empty()) std::cout << " " << filter.parameters.front();
    if (!filter.available) std::cout << " (not available)";
  }
  std::cout << "\n";
  if (!variable.refusal.empty()) std::cout << "      cannot be read: " << variable.refusal << "\n";
  for (auto const* name :
       {"standard_name", "long_name", "units", "scale_factor", "add_offset", "_FillValue", "missing_value"})
    if (auto const* attribute = variable.attribute(name))
      std::cout << "      " << name << " = " << value_text(*attribute) << "\n";
}

void print_contents(FileContents const& contents) {
  std::cout << contents.path.string() << "\ndimensions\n";
  for (auto const& dimension : contents.dimensions)
    std::cout << "  " << dimension.name << " = " << dimension.extent << (dimension.is_unlimited ? " (unlimited)" : "")
              << "\n";
  std::cout << "variables\n";
  for (auto const& variable : contents.variables) print_variable(variable);
  if (!contents.attributes.empty()) std::cout << "attributes\n";
  for (auto const& attribute : contents.attributes)
    std::cout << "  " << attribute.name << " = " << value_text(attribute) << "\n";
}

/// The first variable with a latitude and a longitude axis.
struct Field {
  Variable const* variable = nullptr;
  HorizontalAxes axes;
};

Field first_field(FileContents const& contents) {
  for (auto const& variable : contents.variables) {
    if (variable.ndim() < 2 || !variable.refusal.empty()) continue;
    try {
      return {&variable, horizontal_axes(contents, variable)};
    } catch (Error const&) {
      continue;
    }
  }
  return {};
}

/// Share of the sphere that each row stands for: its band reaches half-way to its neighbors, and to the poles.
std::vector<double> row_areas(std::vector<double> const& latitudes) {
  auto const num_rows = latitudes.size();
  double const radians = std::numbers::pi / 180;
  bool const descends = num_rows > 1 && latitudes.front() > latitudes.back();
  std::vector<double> areas(num_rows);
  for (std::size_t row = 0; row < num_rows; ++row) {
    double const before = row > 0 ? (latitudes[row - 1] + latitudes[row]) / 2 : (descends ? 90 : -90);
    double const after = row + 1 < num_rows ? (latitudes[row] + latitudes[row + 1]) / 2 : (descends ? -90 : 90);
    areas[row] = std::abs(std::sin(after * radians) - std::sin(before * radians)) / 2;
  }
  return areas;
}

std::string cuts_text(Cuts const& cuts) {
  std::string text;
  for (int part = 0; part < cuts.num_parts(); ++part) {
    if (cuts.num_parts() > 16 && part == 8) {
      text += ",...";
      part = cuts.num_parts() - 4;
    }
    text += (part > 0 ? "," : "") + std::to_string(cuts.size(part));
  }
  return text;
}

void print_cuts(FieldFile const& file, Options const& options, app::Report& report) {
  auto const field = first_field(file.contents());
  if (field.variable == nullptr) {
    std::cout << "cuts\n  no variable has a latitude and a longitude axis\n";
    return;
  }
  auto const& variable = *field.variable;
  auto const grid = chosen_grid(options);
  Index const num_rows = variable.extents[field.axes.latitude];
  Index const num_columns = variable.extents[field.axes.longitude];
  auto const& latitude_name = variable.dimensions[std::size_t(field.axes.latitude)];
  std::vector<double> areas(std::size_t(num_rows), 1.0 / double(std::max<Index>(num_rows, 1)));
  if (file.contents().coordinate(latitude_name) != nullptr)
    areas = row_areas(file.coordinate(latitude_name));
  else if (options.cuts == "area")
    throw Error(Fault::input, "NoCoordinate",
                "cuts by area need the values of " + latitude_name + ", which the file lacks");
  auto const rows =
      options.cuts == "area" ? weighted_cuts(areas, grid.extent(0)) : balanced_cuts(num_rows, grid.extent(0));
  auto const columns = balanced_cuts(num_columns, grid.extent(1));
  Layout const layout(grid, {rows, columns});
  report.set_partition(layout, {"latitude", "longitude"});

  Index most = 0;
  Index least = num_rows * num_columns;
  int num_empty = 0;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    Index const cells = layout.owned(rank).num_cells();
    most = std::max(most, cells);
    least = std::min(least, cells);
    num_empty += cells == 0 ? 1 : 0;
  }
  double const mean = double(num_rows * num_columns) / grid.num_ranks();
  std::cout << "cuts of " << to_string(variable) << "\n  partition " << grid.extent(0) << "x" << grid.extent(1) << ", "
            << grid.num_ranks() << " ranks, " << options.cuts << "\n  latitude  " << cuts_text(rows) << "\n  longitude "
            << cuts_text(columns) << "\n  cells per rank " << least << " to " << most << ", imbalance "
            << number_text(mean > 0 ? double(most) / mean : 1) << "\n";
  if (num_empty > 0) std::cout << "  " << num_empty << " ranks own nothing\n";
}

int run(app::Context& context, Options const& options) {
  static_cast<void>(chosen_grid(options));  // a wrong option is told before a wrong file
  FieldFile const file(context.comm, options.file);
  if (context.comm.rank() == 0) print_contents(file.contents());
  if (context.comm.rank() != 0) std::cout.setstate(std::ios::failbit);
  print_cuts(file, options, context.report);
  std::cout.flush();
  return app::good;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return graticule::app::run_driver(
      argc, argv,
      {.name = "graticule-info",
       .description = "Lists what a netCDF-4 file holds and how its fields would be cut among ranks.",
       .declare = [&](CLI::App& app) { declare(app, options); },
       .run = [&](graticule::app::Context& context) { return run(context, options); }});
}
