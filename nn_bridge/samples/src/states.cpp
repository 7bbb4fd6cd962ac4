// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/samples/detail/samples.hpp>
#include <graticule/samples/detail/states.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

namespace graticule::samples {
namespace {

/// What helps where times are dates such as 20000101.25.
std::string hint_of_dates(FileContents const& contents, Variable const& variable) {
  for (std::string const& dimension : variable.dimensions) {
    Variable const* const coordinate = contents.coordinate(dimension);
    auto const units = coordinate != nullptr ? coordinate->text("units") : std::string();
    if (units.find(" as %") != std::string::npos)
      return "; those of " + coordinate->name + ", '" + units + "', are dates: `cdo -r copy IN OUT` counts them";
  }
  return {};
}

bool is_time(FileContents const& contents, std::string const& dimension) {
  Variable const* const coordinate = contents.coordinate(dimension);
  return coordinate != nullptr && counts_from_date(coordinate->text("units"));
}

bool is_member(FileContents const& contents, std::string const& dimension) {
  Variable const* const coordinate = contents.coordinate(dimension);
  if (coordinate != nullptr && coordinate->text("standard_name") == "realization") return true;
  std::string const name = short_name(dimension);
  for (char const* known : {"number", "member", "ensemble", "realization", "sample"})
    if (name == known) return true;
  return false;
}

std::vector<Index> extents_of(Variable const& variable, std::vector<int> const& axes) {
  std::vector<Index> extents;
  for (int const a : axes) extents.push_back(variable.extents[a]);
  return extents;
}

std::vector<std::string> names_of(Variable const& variable, std::vector<int> const& axes) {
  std::vector<std::string> names;
  for (int const a : axes) names.push_back(variable.dimensions[std::size_t(a)]);
  return names;
}

}  // namespace

StateTable::StateTable(Comm const& comm, std::string const& files, std::vector<std::string> const& prognostic,
                       std::vector<std::string> const& diagnostic, RepeatedColumn repeated)
    : file_(std::make_shared<FieldSeries const>(comm, find_files(comm, files))) {
  look_at(files, prognostic, diagnostic, repeated);
}

StateTable::StateTable(Comm const& comm, std::vector<std::filesystem::path> files,
                       std::vector<std::string> const& variables, TimeAxis axis)
    : file_(std::make_shared<FieldSeries const>(comm, std::move(files))), axis_(axis) {
  look_at(file_->files().front().string(), variables, {}, RepeatedColumn::drop);
}

void StateTable::look_at(std::string const& files, std::vector<std::string> const& prognostic,
                         std::vector<std::string> const& diagnostic, RepeatedColumn repeated) {
  naming_input(files, [&] {
    for (auto const* names : {&prognostic, &diagnostic})
      for (std::string const& name : *names) require_trainable(file_->contents(), file_->variable(name));
    for (std::string const& name : prognostic) add(name, Role::prognostic, repeated);
    for (std::string const& name : diagnostic) add(name, Role::diagnostic, repeated);
  });
  if (times_.empty() || num_members_ == 0 || channels_.empty() || grid_.num_rows() == 0 || grid_.num_columns() == 0)
    throw Error(Fault::input, "BadInput", files + " holds no states");
}

namespace {

/// The level in a label `t 850 hPa` of one axis of levels.
struct Level {
  double value = 0;
  std::string units;
};

std::optional<Level> level_of(StateChannel const& channel) {
  if (!channel.label.starts_with(channel.variable + " ")) return {};
  auto const text = channel.label.substr(channel.variable.size() + 1);
  char* end = nullptr;
  double const value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || (*end != '\0' && *end != ' ')) return {};
  while (*end == ' ') ++end;
  return Level{value, end};
}

bool same_level(Level const& a, Level const& b) {
  auto const from = pascals_per_unit(a.units);
  auto const to = pascals_per_unit(b.units);
  if ((!from || !to) && !same_units(a.units, b.units)) return false;
  double const x = from && to ? a.value * *from : a.value;
  double const y = from && to ? b.value * *to : b.value;
  return std::abs(x - y) <= 1e-5 * std::max(std::abs(x), std::abs(y));
}

bool same_state(StateChannel const& a, StateChannel const& b) {
  if (a.variable != b.variable || a.role != b.role) return false;
  if (a.label == b.label) return true;
  auto const one = level_of(a);
  auto const other = level_of(b);
  return one && other && same_level(*one, *other);
}

}  // namespace

void StateTable::arrange_levels(std::vector<StateChannel> const& trained) {
  if (trained.size() < channels_.size()) return;
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    auto const found = std::find_if(channels_.begin(), channels_.end(),
                                    [&](auto const& channel) { return same_state(channel, trained[c]); });
    auto const place = std::size_t(found - channels_.begin());
    if (found == channels_.end() || std::find(order.begin(), order.end(), place) != order.end()) return;
    order.push_back(place);
  }
  auto const channels = channels_;
  auto const sources = sources_;
  for (std::size_t c = 0; c < order.size(); ++c) {
    channels_[c] = channels[order[c]];
    channels_[c].label = trained[c].label;
    sources_[c] = sources[order[c]];
  }
}

int StateTable::undated_axis(Variable const& variable, HorizontalAxes const& horizontal) const {
  if (file_->files().size() > 1 && variable.axis(file_->dimension()) >= 0) return variable.axis(file_->dimension());
  for (int a = 0; a < variable.ndim(); ++a)
    if (a != horizontal.latitude && a != horizontal.longitude) return a;
  throw Error(Fault::input, "BadInput",
              to_string(variable) +
                  " has no axis of samples: an axis of time, or another one beside latitude and "
                  "longitude");
}

StateTable::VariableAxes StateTable::axes_of(std::string const& name) const {
  Variable const& variable = file_->variable(name);
  if (variable.dimensions.size() != std::size_t(variable.ndim()))
    throw Error(Fault::input, "BadInput", to_string(variable) + " has axes without names");
  VariableAxes axes;
  axes.name = name;
  axes.horizontal = file_->horizontal_axes(name);
  bool const is_dated = std::any_of(variable.dimensions.begin(), variable.dimensions.end(),
                                    [&](auto const& dimension) { return is_time(file_->contents(), dimension); });
  if (!is_dated && axis_ == TimeAxis::any) axes.time = undated_axis(variable, axes.horizontal);
  for (int a = 0; a < variable.ndim(); ++a) {
    std::string const& dimension = variable.dimensions[std::size_t(a)];
    if (a == axes.horizontal.latitude || a == axes.horizontal.longitude || a == axes.time) continue;
    if (is_time(file_->contents(), dimension)) {
      if (axes.time >= 0) throw Error(Fault::input, "BadInput", to_string(variable) + " has two axes of time");
      axes.time = a;
    } else {
      (is_member(file_->contents(), dimension) ? axes.members : axes.levels).push_back(a);
    }
  }
  if (axes.time < 0)
    throw Error(Fault::input, "BadInput",
                to_string(variable) +
                    " has no axis of time: none of its coordinates has units such as 'hours since "
                    "2000-01-01'" +
                    hint_of_dates(file_->contents(), variable));
  axes.level_names = names_of(variable, axes.levels);
  return axes;
}

void StateTable::compare(VariableAxes const& axes) const {
  Variable const& variable = file_->variable(axes.name);
  auto const& names = variable.dimensions;
  if (names[std::size_t(axes.horizontal.latitude)] == latitude_name_ &&
      names[std::size_t(axes.horizontal.longitude)] == longitude_name_ && names[std::size_t(axes.time)] == time_name_ &&
      names_of(variable, axes.members) == member_names_ && extents_of(variable, axes.members) == member_extents_)
    return;
  throw Error(Fault::input, "BadInput",
              to_string(variable) + " and " + to_string(file_->variable(variables_.front().name)) +
                  " differ in times, members, latitudes or longitudes; only their levels may differ");
}

void StateTable::add(std::string const& name, Role role, RepeatedColumn repeated) {
  Variable const& variable = file_->variable(name);
  VariableAxes const axes = axes_of(name);
  if (variables_.empty()) {
    latitude_name_ = variable.dimensions[std::size_t(axes.horizontal.latitude)];
    longitude_name_ = variable.dimensions[std::size_t(axes.horizontal.longitude)];
    time_name_ = variable.dimensions[std::size_t(axes.time)];
    member_names_ = names_of(variable, axes.members);
    member_extents_ = extents_of(variable, axes.members);
    for (Index const extent : member_extents_) num_members_ *= extent;
    grid_ = grid_of(*file_, latitude_name_, longitude_name_, repeated);
    has_dates_ = is_time(file_->contents(), time_name_);
    if (has_dates_) {
      Variable const& time = *file_->contents().coordinate(time_name_);
      calendar_ = calendar_of(time.text("calendar"));
      times_ = times_of(file_->coordinate(time_name_), time.text("units"), calendar_);
    } else {
      times_.resize(std::size_t(variable.extents[axes.time]));
      std::iota(times_.begin(), times_.end(), Seconds(0));
    }
  } else {
    compare(axes);
  }
  Index num_levels = 1;
  for (int const a : axes.levels) num_levels *= variable.extents[a];
  std::vector<int> sample_axes{axes.time};
  sample_axes.insert(sample_axes.end(), axes.members.begin(), axes.members.end());
  for (Index level = 0; level < num_levels; ++level) {
    Indices fixed = Indices::filled(variable.ndim(), 0);
    std::string label;
    Index rest = level;
    for (std::size_t i = axes.levels.size(); i-- > 0; rest /= variable.extents[axes.levels[i]]) {
      fixed[axes.levels[i]] = rest % variable.extents[axes.levels[i]];
      Variable const* const coordinate = readable_coordinate(*file_, axes.level_names[i]);
      Index const place = fixed[axes.levels[i]];
      label = " " +
              (coordinate != nullptr
                   ? with_units(file_->coordinate(axes.level_names[i])[std::size_t(place)], coordinate->text("units"))
                   : short_number(double(place))) +
              label;
    }
    StateChannel channel{.label = name + label, .variable = name, .level = level, .role = role};
    channel.info = describe_field(variable);
    sources_.push_back({channel.info, axes.horizontal, sample_axes, fixed});
    channels_.push_back(std::move(channel));
  }
  variables_.push_back(axes);
}

std::vector<std::string> const& StateTable::level_axes(std::string const& variable) const {
  return std::find_if(variables_.begin(), variables_.end(), [&](auto const& axes) { return axes.name == variable; })
      ->level_names;
}

SampleReader StateTable::reader(Box const& box, Index num_mirrored) const {
  SampleAxes samples;
  samples.dimensions = {time_name_};
  samples.extents = {Index(times_.size())};
  samples.dimensions.insert(samples.dimensions.end(), member_names_.begin(), member_names_.end());
  samples.extents.insert(samples.extents.end(), member_extents_.begin(), member_extents_.end());
  samples.coordinates.resize(samples.extents.size());
  samples.units.resize(samples.extents.size());
  return {SeriesReader(*file_), sources_, std::move(samples), box, grid_.num_rows(), num_mirrored};
}

}  // namespace graticule::samples
