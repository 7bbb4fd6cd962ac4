// SPDX-License-Identifier: BSD-3-Clause
#include "file_listing.hpp"

#include <graticule/field_io/calendar.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/partition/detail/printable.hpp>
#include <graticule/partition/layout.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace graticule::info {

namespace {

std::string value_text(Attribute const& attribute) {
  if (attribute.type == ValueType::text) {
    auto text = attribute.text();
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (text.size() > 100) {
      // Not within a character of UTF-8.
      std::size_t end = 97;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
      text = text.substr(0, end) + "...";
    }
    return "\"" + printable(text) + "\"";
  }
  std::string text;
  auto const numbers = attribute.numbers();
  for (std::size_t i = 0; i < std::min<std::size_t>(numbers.size(), 8); ++i)
    text += (i > 0 ? ", " : "") + to_text(numbers[i]);
  return text + (numbers.size() > 8 ? ", ..." : "");
}

std::string list_text(Indices const& values) {
  std::string text;
  for (int axis = 0; axis < values.size(); ++axis) text += (axis > 0 ? " x " : "") + std::to_string(values[axis]);
  return text;
}

void print_variable(Variable const& variable) {
  std::cout << "  " << printable(to_string(variable)) << "  " << to_string(variable.type)
            << (variable.is_big_endian ? " big-endian" : "");
  if (variable.chunk.size() > 0) std::cout << ", chunks " << list_text(variable.chunk);
  for (auto const& filter : variable.filters) {
    std::cout << ", " << printable(filter.name);
    if (filter.name == "deflate" && !filter.parameters.empty()) std::cout << " " << filter.parameters.front();
    if (!filter.available) std::cout << " (not available)";
  }
  std::cout << "\n";
  if (variable.is_short())
    std::cout << "      the file holds " << list_text(variable.stored_extents) << " cells, the others are missing\n";
  if (!variable.refusal.empty()) std::cout << "      cannot be read: " << printable(variable.refusal) << "\n";
  for (auto const* name : {"standard_name", "long_name", "units", "calendar", "scale_factor", "add_offset",
                           "_FillValue", "missing_value", "valid_range", "valid_min", "valid_max"})
    if (auto const* attribute = variable.attribute(name))
      std::cout << "      " << name << " = " << value_text(*attribute) << "\n";
}

void print_contents(FileContents const& contents) {
  std::cout << printable(contents.path.string()) << "\ndimensions\n";
  for (auto const& dimension : contents.dimensions)
    std::cout << "  " << printable(dimension.name) << " = " << dimension.extent
              << (dimension.is_unlimited ? " (unlimited)" : "") << "\n";
  std::cout << "variables\n";
  for (auto const& variable : contents.variables) print_variable(variable);
  if (!contents.attributes.empty()) std::cout << "attributes\n";
  for (auto const& attribute : contents.attributes)
    std::cout << "  " << printable(attribute.name) << " = " << value_text(attribute) << "\n";
}

/// The step of most times; nothing where fewer than two thirds of them have it.
std::optional<Index> usual_step(std::vector<Index> const& times) {
  std::map<Index, Index> counts;
  for (std::size_t i = 1; i < times.size(); ++i) ++counts[times[i] - times[i - 1]];
  for (auto const& [step, count] : counts)
    if (3 * count >= 2 * Index(times.size() - 1)) return step;
  return {};
}

void print_gaps(std::vector<Index> const& times, Index step, Calendar calendar) {
  constexpr int most_shown = 5;
  int num_gaps = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] - times[i - 1] == step || ++num_gaps > most_shown) continue;
    std::cout << "      but " << duration_text(times[i] - times[i - 1]) << " from " << time_text(times[i - 1], calendar)
              << " to " << time_text(times[i], calendar) << "\n";
  }
  if (num_gaps > most_shown) std::cout << "      and " << num_gaps - most_shown << " other steps\n";
}

/// A file, or a series of them.
struct Input {
  FileContents const& contents;
  std::function<std::vector<double>(std::string const&)> coordinate;
  bool is_series = false;
};

/// From when to when each coordinate of time runs, in its own calendar.
void print_times(Input const& input) {
  bool is_first = true;
  for (auto const& variable : input.contents.variables) {
    auto const units = variable.text("units");
    bool const is_coordinate = variable.ndim() == 1 && variable.dimensions.front() == variable.name;
    if (!is_coordinate || !variable.refusal.empty() || variable.extents[0] == 0 || !counts_from_date(units)) continue;
    auto const values = input.coordinate(variable.name);
    if (std::exchange(is_first, false)) std::cout << "times\n";
    std::cout << "  " << printable(variable.name) << "  ";
    try {
      auto const calendar = calendar_of(variable.text("calendar"));
      auto const times = times_of(values, units, calendar);
      std::cout << time_text(times.front(), calendar) << " to " << time_text(times.back(), calendar);
      auto const step = usual_step(times);
      if (step) std::cout << ", every " << duration_text(*step);
      std::cout << ", calendar " << to_string(calendar) << "\n";
      if (step) print_gaps(times, *step, calendar);
      auto const valid = input.is_series ? std::nullopt : valid_times(input.contents, times, calendar);
      if (valid)
        std::cout << "      with data from " << time_text(valid->first, calendar) << " to "
                  << time_text(valid->last, calendar) << " (valid_time_start, valid_time_stop)\n";
    } catch (Error const& error) {
      std::cout << printable(error.text()) << "\n";
    }
  }
}

/// The first variable with a latitude and a longitude axis.
struct Field {
  Variable const* variable = nullptr;
  HorizontalAxes axes;
  std::string refusal;  ///< of the first variable of two or more axes, where none has these
};

Field first_field(FileContents const& contents) {
  Field none;
  for (auto const& variable : contents.variables) {
    if (variable.ndim() < 2 || !variable.refusal.empty()) continue;
    try {
      return {&variable, contents.horizontal_axes(variable), {}};
    } catch (Error const& error) {
      if (none.refusal.empty()) none.refusal = error.text();
    }
  }
  return none;
}

Cuts row_cuts(Input const& input, std::string const& latitude, CutChoice const& choice, int num_parts, Index num_rows) {
  if (choice.given[0]) return *choice.given[0];
  if (!choice.by_area) return balanced_cuts(num_rows, num_parts);
  if (input.contents.coordinate(latitude) == nullptr)
    throw Error(Fault::input, "MissingVariable",
                "cuts by area need the values of " + latitude + ", which the file lacks");
  try {
    return weighted_cuts(area_weights(input.coordinate(latitude)), num_parts);
  } catch (Error const& error) {
    throw Error(Fault::input, error.rule(), latitude + ": " + error.text());
  }
}

/// Ranks along latitude and longitude: what is given, else bands of latitude.
ProcessGrid process_grid(Options const& options, CutChoice const& choice) {
  auto const partition = parse_partition(options.partition);
  int const num_ranks = total_ranks(partition, options.num_ranks, options.partition);
  Index const columns = partition[1] != 0 ? partition[1] : (choice.given[1] ? choice.given[1]->num_parts() : 1);
  Index rows = partition[0];
  if (rows == 0) rows = num_ranks != 0 ? num_ranks / columns : (choice.given[0] ? choice.given[0]->num_parts() : 1);
  for (auto const& [cuts, parts] : {std::pair{choice.given[0], rows}, std::pair{choice.given[1], columns}})
    if (cuts && cuts->num_parts() != parts)
      throw Error(
          Fault::usage, "BadCuts",
          "--cuts has " + std::to_string(cuts->num_parts()) + " parts, the partition has " + std::to_string(parts));
  if (num_ranks != 0 && rows * columns != num_ranks)
    throw Error(Fault::usage, "BadOption",
                std::to_string(num_ranks) + " ranks cannot be divided into " + std::to_string(columns) + " columns");
  return ProcessGrid{rows, columns};
}

void print_cuts(Comm const& comm, Input const& input, Options const& options, app::Report& report) {
  auto const field = first_field(input.contents);
  if (field.variable == nullptr) {
    std::cout << "cuts\n  no variable has a latitude and a longitude axis\n";
    if (!field.refusal.empty()) std::cout << "  " << field.refusal << "\n";
    return;
  }
  auto const& variable = *field.variable;
  Indices const extents{variable.extents[field.axes.latitude], variable.extents[field.axes.longitude]};
  auto const choice = parse_cut_choice(comm, options.cuts, extents);
  auto const grid = process_grid(options, choice);
  auto const& latitude = variable.dimensions[std::size_t(field.axes.latitude)];
  auto const rows = row_cuts(input, latitude, choice, grid.extent(0), extents[0]);
  auto const columns = choice.given[1] ? *choice.given[1] : balanced_cuts(extents[1], grid.extent(1));
  Layout const layout(grid, {rows, columns});
  report.set_partition(layout, {"latitude", "longitude"});

  Index most = 0;
  Index least = extents[0] * extents[1];
  int num_empty = 0;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    Index const cells = layout.owned(rank).num_cells();
    most = std::max(most, cells);
    least = std::min(least, cells);
    num_empty += cells == 0 ? 1 : 0;
  }
  double const mean = double(extents[0] * extents[1]) / grid.num_ranks();
  std::cout << "cuts of " << printable(to_string(variable)) << "\n  partition " << grid.extent(0) << "x"
            << grid.extent(1) << ", " << grid.num_ranks() << " ranks, " << options.cuts << "\n  latitude  "
            << to_text(rows) << "\n  longitude " << to_text(columns) << "\n  cells per rank " << least << " to " << most
            << ", imbalance " << to_text(mean > 0 ? double(most) / mean : 1) << "\n";
  if (num_empty > 0) std::cout << "  " << num_empty << " ranks own nothing\n";
}

}  // namespace

void list_file(app::Context& context, Options const& options) {
  // A wrong option is reported before a wrong file.
  static_cast<void>(total_ranks(parse_partition(options.partition), options.num_ranks, options.partition));
  std::vector<std::filesystem::path> paths;
  for (auto const& name : options.files)
    for (auto& path : find_files(context.comm, name)) paths.push_back(std::move(path));
  auto const print = [&](auto const& file) {
    Input const input{file.contents(), [&](std::string const& dimension) { return file.coordinate(dimension); },
                      paths.size() > 1};
    print_contents(input.contents);
    if constexpr (std::is_same_v<decltype(file), FieldSeries const&>)
      std::cout << "files\n  " << paths.size() << ", the last " << printable(paths.back().string()) << ", joined along "
                << printable(file.dimension()) << "\n";
    print_times(input);
    print_cuts(context.comm, input, options, context.report);
  };
  if (paths.size() > 1)
    print(FieldSeries(context.comm, paths));
  else
    print(FieldFile(context.comm, paths.front()));
}

}  // namespace graticule::info
