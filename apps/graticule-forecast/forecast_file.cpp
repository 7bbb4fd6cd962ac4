// SPDX-License-Identifier: BSD-3-Clause
#include "forecast_file.hpp"

#include <graticule/field_io/file.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace graticule::forecast {
namespace {

constexpr double netcdf_fill = 9.96921e36F;  // netCDF's own default for floating-point numbers

Attribute text(char const* name, std::string value) { return Attribute::of_text(name, std::move(value)); }

std::string since(Seconds start, Calendar calendar) {
  auto clock = time_text(start, calendar);
  if (clock.size() == std::string("2006-01-01 06:00").size()) clock += ":00";
  return "hours since " + clock;
}

Index level_extent(samples::StateTable const& table, std::string const& variable, std::string const& dimension) {
  Variable const& stored = table.file().variable(variable);
  return stored.extents[stored.axis(dimension)];
}

/// Variables that describe the positions of `fields`, except those that vary with time or members and those whose names
/// the forecast itself uses.
samples::CompanionSet companions_of(Comm const& domain, samples::StateTable const& table,
                                    std::vector<std::string> const& fields,
                                    std::vector<std::string> const& dimensions) {
  std::set<std::string> apart{"time", "lead_time", "forecast_reference_time", "member", "network", table.time_name()};
  apart.insert(table.member_names().begin(), table.member_names().end());
  return samples::read_companions(domain, table.file(), fields, dimensions, table.latitude_name(),
                                  table.longitude_name(), table.grid().num_columns(), apart);
}

}  // namespace

ForecastFile::ForecastFile(Comm const& world, Comm const& domain, samples::StateTable const& table,
                           Description const& description, OwnPart own, Options options, bool resumes)
    : world_(world), description_(description), own_(own), options_(std::move(options)) {
  for (std::size_t c = 0; c < description.channels.size(); ++c) {
    auto const name = samples::flat_name(description.channels[c].variable);
    if (variables_.empty() || variables_.back().name != name) variables_.push_back({name, {}, {}});
    variables_.back().channels.push_back(c);
  }
  for (auto& variable : variables_) {
    auto const& source = description.channels[variable.channels.front()].variable;
    if (table.file().contents().find(source) == nullptr) continue;
    for (std::string const& axis : table.level_axes(source))
      variable.level_extents.push_back(level_extent(table, source, axis));
    // Levels are written in the order of the input, whose coordinate comes along.
    auto const& states = table.channels();
    if (variable.channels.back() < states.size())
      std::sort(variable.channels.begin(), variable.channels.end(),
                [&](std::size_t a, std::size_t b) { return states[a].level < states[b].level; });
  }
  std::array<Index, 1> exists{world.rank() == 0 && resumes && std::filesystem::exists(options_.path) ? 1 : 0};
  world_.max(exists);
  if (exists[0] == 0) {
    define(domain, table);
    return;
  }
  FieldFile const file(world_, options_.path);
  auto const& extents = file.variable(variables_.front().name).extents;
  int const n = extents.size();
  if (n < 3 || extents[n - 2] != Index(description.latitudes.size()) ||
      extents[n - 1] != Index(description.longitudes.size()))
    throw Error(Fault::input, "LayoutMismatch",
                options_.path.string() + " has fields of another grid; remove it or choose another --output");
  num_records_ = num_complete_records(file.contents(), "time");
}

void ForecastFile::define(Comm const& domain, samples::StateTable const& table) {
  FieldWriter writer(world_, options_.path,
                     {text("Conventions", "CF-1.8"), text("title", "Forecast of a network"),
                      text("source", "graticule-forecast"), text("history", options_.history)});
  std::vector<Dimension> dimensions;
  for (auto const& variable : variables_) {
    auto const& source = description_.channels[variable.channels.front()].variable;
    if (variable.level_extents.empty()) continue;
    auto const& axes = table.level_axes(source);
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (std::none_of(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == axes[i]; }))
        dimensions.push_back({axes[i], variable.level_extents[i]});
  }
  dimensions.push_back({table.latitude_name(), Index(description_.latitudes.size())});
  dimensions.push_back({table.longitude_name(), Index(description_.longitudes.size())});
  std::vector<std::string> names;
  for (auto const& dimension : dimensions) names.push_back(dimension.name);
  writer.add_dimension("time", 0, DimensionKind::unlimited);
  writer.add_variable({.name = "time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {text("standard_name", "time"), text("long_name", "valid time"),
                                      text("units", since(options_.start, options_.calendar)),
                                      text("calendar", std::string(to_string(options_.calendar))), text("axis", "T")}});
  writer.add_variable({.name = "lead_time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {text("standard_name", "forecast_period"), text("long_name", "lead time"),
                                      text("units", "hours")}});
  writer.add_variable(
      {.name = "forecast_reference_time",
       .type = ValueType::f64,
       .attributes = {text("standard_name", "forecast_reference_time"), text("long_name", "initial time"),
                      text("units", since(options_.start, options_.calendar)),
                      text("calendar", std::string(to_string(options_.calendar)))}});
  if (options_.num_members > 1) {
    std::vector<double> members(std::size_t(options_.num_members));
    std::iota(members.begin(), members.end(), 0.0);
    writer.add_coordinate("member", members, ValueType::i32,
                          {text("standard_name", "realization"),
                           text("long_name", has_networks() ? "member; the first of each network is not perturbed"
                                                            : "member; 0 is not perturbed"),
                           text("units", "1"), text("axis", "E")});
  }
  if (has_networks()) write_networks(writer);
  std::vector<std::string> fields;
  for (auto const& variable : variables_) {
    auto const& source = description_.channels[variable.channels.front()].variable;
    if (table.file().contents().find(source) != nullptr) fields.push_back(source);
  }
  auto const companions = companions_of(domain, table, fields, names);
  samples::write_companions(world_, writer, dimensions, companions);
  for (auto const& variable : variables_) {
    auto const& channel = description_.channels[variable.channels.front()];
    VariableSpec spec{.name = variable.name, .dimensions = {"time"}};
    if (options_.num_members > 1) spec.dimensions.emplace_back("member");
    if (!variable.level_extents.empty())
      for (std::string const& axis : table.level_axes(channel.variable))
        spec.dimensions.push_back(samples::flat_name(axis));
    spec.dimensions.push_back(samples::flat_name(table.latitude_name()));
    spec.dimensions.push_back(samples::flat_name(table.longitude_name()));
    spec.fill = netcdf_fill;
    spec.attributes = {text("long_name", channel.info.long_name.empty() ? channel.variable : channel.info.long_name)};
    std::string coordinates = "lead_time forecast_reference_time";
    if (has_networks()) coordinates += " network";
    if (auto const* source = table.file().contents().find(channel.variable))
      for (auto const& kept : samples::kept_attributes(*source, companions)) {
        if (kept.name == "coordinates") coordinates += " " + kept.text();
        if (kept.name == "cell_methods" || kept.name == "grid_mapping") spec.attributes.push_back(kept);
      }
    spec.attributes.push_back(text("coordinates", coordinates));
    if (!channel.info.units.empty()) spec.attributes.push_back(text("units", channel.info.units));
    if (!channel.info.standard_name.empty())
      spec.attributes.push_back(text("standard_name", channel.info.standard_name));
    writer.add_variable(spec);
  }
  // Hours since itself; all ranks write a single value.
  std::array<double, 1> const zero{};
  writer.write("forecast_reference_time", Box::from_extents({}), std::span<double const>(zero));
  writer.commit();
}

void ForecastFile::write_networks(FieldWriter& writer) const {
  std::string files;
  for (auto const& file : options_.networks) files += (files.empty() ? "" : ", ") + file.string();
  writer.add_variable(
      {.name = "network",
       .dimensions = {"member"},
       .type = ValueType::i32,
       .attributes = {text("long_name", "network that forecasts the member"), text("networks", files)}});
  Index const per_network = options_.num_members / Index(options_.networks.size());
  std::vector<double> numbers;
  for (Index m = 0; m < options_.num_members && world_.rank() == 0; ++m) numbers.push_back(double(m / per_network));
  writer.write("network", Box({0}, {Index(numbers.size())}), std::span<double const>(numbers));
}

void ForecastFile::write(Index record, Seconds lead, std::span<double const> fields) {
  if (record < num_records_) return;
  auto writer = FieldWriter::append(world_, options_.path, AppendTo::in_place);
  writer.extend("time", 1);
  auto const cells = std::size_t(own_.box.num_cells());
  std::size_t const channels = description_.channels.size();
  for (auto const& variable : variables_) {
    bool const has_members = options_.num_members > 1;
    int const num_axes = 3 + (has_members ? 1 : 0) + int(variable.level_extents.size());
    Box box = Box::from_extents(Indices::filled(num_axes, 0));
    std::vector<double> values;
    if (cells > 0 && own_.num_members > 0) {
      int axis = 0;
      box.set(axis++, record, record + 1);
      if (has_members) box.set(axis++, own_.first_member, own_.first_member + own_.num_members);
      for (Index const extent : variable.level_extents) box.set(axis++, 0, extent);
      box.set(axis++, own_.box.lo(0), own_.box.hi(0));
      box.set(axis, own_.box.lo(1), own_.box.hi(1));
      for (Index m = 0; m < own_.num_members; ++m)
        for (std::size_t const c : variable.channels) {
          auto const field = fields.subspan((std::size_t(m) * channels + c) * cells, cells);
          values.insert(values.end(), field.begin(), field.end());
        }
    }
    writer.write(variable.name, box, std::span<double const>(values));
  }
  bool const first = world_.rank() == 0;
  std::vector<double> const hours(first ? 1 : 0, double(lead) / 3600);
  Box const place({record}, {record + (first ? 1 : 0)});
  writer.write("lead_time", place, std::span<double const>(hours));
  writer.write("time", place, std::span<double const>(hours));
  writer.commit();
  num_records_ = record + 1;
}

}  // namespace graticule::forecast
