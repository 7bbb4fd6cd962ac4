// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/calendar.hpp>
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "agreed_variable.hpp"
#include "file_of_series.hpp"
#include "later_files.hpp"
#include "series_times.hpp"
#include "signature.hpp"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace graticule {

namespace {

/// Numbers in names count by their value.
bool natural_less(std::string const& a, std::string const& b) {
  auto const is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  auto const run = [&](std::string const& text, std::size_t& at) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    auto const zeros = std::min(text.find_first_not_of('0', at), end);
    auto digits = text.substr(zeros, end - zeros);
    at = end;
    return std::pair(digits.size(), std::move(digits));
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      auto const x = run(a, i);
      auto const y = run(b, j);
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

std::vector<std::string> matches(std::string const& pattern) {
  std::error_code unknown;
  if (pattern.find_first_of("*?[") == std::string::npos || std::filesystem::exists(pattern, unknown)) return {pattern};
  glob_t found{};
  int const code = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> names;
  if (code == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

[[noreturn]] void refuse(std::filesystem::path const& file, std::filesystem::path const& first,
                         std::string const& what) {
  throw Error(Fault::input, "BadInput", file.string() + " does not continue " + first.string() + ": " + what);
}

bool has_axis(Variable const& variable, std::string const& dimension) {
  return !dimension.empty() && variable.axis(dimension) >= 0;
}

/// Where two coordinates first differ by more than a 10000th of their spacing: files of one grid may have rounded it
/// in other types. Nothing where they do not.
std::optional<std::size_t> first_difference(std::vector<double> const& a, std::vector<double> const& b) {
  double spacing = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < b.size(); ++i) spacing = std::min(spacing, std::abs(b[i] - b[i - 1]));
  double const tolerance = std::isfinite(spacing) ? 1e-4 * spacing : 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    bool const is_same = (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i] || std::abs(a[i] - b[i]) <= tolerance;
    if (!is_same) return i;
  }
  return a.size() == b.size() ? std::nullopt : std::optional(std::min(a.size(), b.size()));
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  return text.data();
}

bool counts_time(FileContents const& contents, std::string const& dimension) {
  auto const* const coordinate = contents.coordinate(dimension);
  return coordinate != nullptr &&
         (coordinate->text("standard_name") == "time" || counts_from_date(coordinate->text("units")));
}

/// The dimension to join along when the user names none.
std::string find_dimension(FileContents const& contents) {
  std::vector<std::string> unlimited;
  std::vector<std::string> times;
  for (auto const& dimension : contents.dimensions) {
    if (dimension.is_unlimited) unlimited.push_back(dimension.name);
    if (counts_time(contents, dimension.name)) times.push_back(dimension.name);
  }
  if (unlimited.size() == 1) return unlimited.front();
  if (times.size() == 1) return times.front();
  Variable const* widest = nullptr;
  for (auto const& variable : contents.variables)
    if (variable.ndim() > 0 && (widest == nullptr || variable.ndim() > widest->ndim())) widest = &variable;
  return widest != nullptr ? widest->dimensions.front() : std::string();
}

bool sounds_like_records(std::string name) {
  name.erase(0, name.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  constexpr std::array names{"time",   "times",   "t",      "date",         "dates",        "datetime",
                             "record", "records", "sample", "samples",      "step",         "year",
                             "month",  "day",     "hour",   "initial_time", "frame",        "frames",
                             "member", "case",    "batch",  "valid_time",   "forecast_time"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Files without an axis of time would be joined along one of space, cells of one beside those of another.
void require_joinable(FileContents const& contents, std::string const& dimension) {
  auto const refuse_axis = [&](std::string const& what) {
    throw Error(Fault::input, "BadInput",
                contents.path.string() + " and the files after it have no axis of time to be joined along: " + what +
                    "; give each file one (`ncecat -O -u time IN OUT` adds one of length 1), or name the dimension");
  };
  for (auto const& variable : contents.variables) {
    if (variable.ndim() < 2 || variable.axis(dimension) < 0) continue;
    HorizontalAxes axes;
    try {
      axes = contents.horizontal_axes(variable);
    } catch (Error const&) {
      continue;
    }
    if (int const axis = variable.axis(dimension); axis == axes.latitude || axis == axes.longitude)
      refuse_axis("'" + dimension + "' is the " + (axis == axes.latitude ? "latitude" : "longitude") + " of " +
                  to_string(variable));
  }
  auto const found = std::find_if(contents.dimensions.begin(), contents.dimensions.end(),
                                  [&](auto const& one) { return one.name == dimension; });
  bool const is_unlimited = found != contents.dimensions.end() && found->is_unlimited;
  if (!is_unlimited && contents.coordinate(dimension) == nullptr && !sounds_like_records(dimension))
    refuse_axis("'" + dimension + "' is not unlimited, has no coordinate, and is not named as time is");
}

/// A variable of a file must be the first file's, but for its length.
void require_like(FileContents const& contents, Variable const& found, Variable const& expected,
                  std::string const& dimension, std::filesystem::path const& first) {
  if (found.dimensions != expected.dimensions)
    refuse(contents.path, first, "it has " + to_string(found) + " instead of " + to_string(expected));
  for (int axis = 0; axis < expected.ndim(); ++axis)
    if (found.extents[axis] != expected.extents[axis] && expected.dimensions[std::size_t(axis)] != dimension)
      refuse(contents.path, first, "it has " + to_string(found) + " instead of " + to_string(expected));
  auto const require = [&](char const* name, bool is_same) {
    if (!is_same)
      refuse(contents.path, first,
             std::string(name) + " of " + expected.name + " are '" + found.text(name) + "' instead of '" +
                 expected.text(name) + "'");
  };
  bool const counts = counts_from_date(expected.text("units"));
  require("units", counts ? found.text("units") == expected.text("units")
                          : same_units(found.text("units"), expected.text("units")));
  require("calendar", !counts || detail::same_calendar(found, expected));
}

}  // namespace

std::vector<std::filesystem::path> find_files(Comm const& comm, std::string const& pattern) {
  std::string joined;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    detail::refuse_url(pattern);
    auto const names = matches(pattern);
    if (names.empty()) throw Error(Fault::input, "NoSuchFile", "no file matches " + pattern);
    for (auto const& name : names) joined += name + '\0';
  });
  joined = comm.broadcast(joined, 0);
  std::vector<std::filesystem::path> files;
  for (std::size_t at = 0; at < joined.size(); at = joined.find('\0', at) + 1) files.emplace_back(joined.c_str() + at);
  return files;
}

struct FieldSeries::State {
  Comm comm;
  std::vector<std::filesystem::path> paths;
  FieldSeriesOptions options;
  FileContents contents;
  std::string dimension;
  std::vector<Index> ends = {0};  ///< file `i` holds the cells [ends[i], ends[i + 1]) along the joined dimension
  std::map<std::string, std::vector<double>, std::less<>> coordinates;
  struct Open {
    std::size_t place;
    FieldFile file;
  };
  std::list<Open> open;      ///< the last used first
  detail::KnownFiles known;  ///< of each file

  State(Comm const& on, std::vector<std::filesystem::path> files, FieldSeriesOptions const& chosen)
      : comm(on), paths(std::move(files)), options(chosen) {
    Hash hash;
    for (auto const& path : paths) hash.add(path.string());
    require_same(comm, "ArgumentDisagreement", hash.add(options.dimension).add(options.most_open).value(),
                 std::to_string(paths.size()) + " files");
    if (paths.empty()) throw Error(Fault::input, "NoSuchFile", "a series needs at least one file");
    // Before it is listed: a file that changes later is then listed again.
    auto const identity = detail::file_identity(paths[0]);
    contents = file(0).contents();
    dimension = options.dimension.empty() ? find_dimension(contents) : options.dimension;
    if (options.dimension.empty() && paths.size() > 1) require_joinable(contents, dimension);
    known.resize(paths.size());
    known[0] = detail::known_file(detail::FileOfSeries::catalogue(file(0)), contents, nullptr);
    known[0]->identity = identity;
    add_first();
    // Lists of a thousand variables and more stay within some MB.
    constexpr std::size_t files_at_once = 128;
    for (std::size_t i = 1; i < paths.size(); i += files_at_once) add(i, std::min(i + files_at_once, paths.size()));
    for (auto& one : contents.dimensions)
      if (one.name == dimension) one.extent = ends.back();
    for (auto& variable : contents.variables)
      if (has_axis(variable, dimension)) {
        variable.extents[variable.axis(dimension)] = ends.back();
        variable.stored_extents[variable.axis(dimension)] = ends.back();  // each file fills up its own
      }
  }

  /// Opens the file unless it is open, and closes the one that was not used for longest. Collective.
  FieldFile const& file(std::size_t place) {
    auto const found = std::find_if(open.begin(), open.end(), [&](auto const& one) { return one.place == place; });
    if (found != open.end()) {
      open.splice(open.begin(), open, found);
      return open.front().file;
    }
    if (open.size() >= std::size_t(std::max(options.most_open, 1))) open.pop_back();
    open.push_front({place, FieldFile(comm, paths[place], options.file)});
    if (place > 0) detail::adopt_times(detail::FileOfSeries::contents(open.front().file), contents, dimension);
    return open.front().file;
  }

  [[nodiscard]] Index length_in(FileContents const& own) const {
    auto const found = std::find_if(own.dimensions.begin(), own.dimensions.end(),
                                    [&](auto const& one) { return one.name == dimension; });
    if (found != own.dimensions.end()) return found->extent;
    if (paths.size() == 1) return 0;
    if (own.path == paths[0])
      throw Error(Fault::input, "BadInput",
                  paths[0].string() + " has no dimension '" + dimension + "' that the files could be joined along");
    refuse(own.path, paths[0], "it has no dimension '" + dimension + "'");
  }

  /// Collective.
  void add_first() {
    ends.push_back(length_in(contents));
    for (auto const& one : contents.dimensions) {
      auto const* const coordinate = contents.coordinate(one.name);
      if (coordinate == nullptr || !coordinate->refusal.empty()) continue;
      auto& values = coordinates[one.name] = file(0).coordinate(one.name);
      if (one.name == dimension) require_sorted(0, values, 0);
    }
  }

  /// The files [first, last), none of them the first. Collective.
  void add(std::size_t first, std::size_t last) {
    std::vector<std::uint64_t> identities;
    for (std::size_t i = first; i < last; ++i) identities.push_back(detail::file_identity(paths[i]));
    auto const batch = std::span(paths).subspan(first, last - first);
    auto files = detail::read_later_files(comm, batch, options.file.plugins, contents, dimension);
    auto const num_listed = std::size_t(
        std::count_if(files.begin(), files.end(), [](auto const& one) { return one.catalogue.has_value(); }));
    std::vector<std::filesystem::path> listed;
    for (auto const& path : batch.first(num_listed)) listed.push_back(detail::format_of(path).witness(path));
    require_same_copies(comm, listed);
    for (std::size_t i = 0; i < files.size(); ++i) {
      add(first + i, files[i]);
      known[first + i]->identity = identities[i];
    }
  }

  /// Compares a file with the first one and notes down its length. The same on all ranks.
  void add(std::size_t place, detail::LaterFile& next) {
    if (!next.catalogue) std::rethrow_exception(next.failure);
    auto& own = next.catalogue->contents;
    known[place] = detail::known_file(*next.catalogue, contents, &*known[place - 1]);
    detail::adopt_times(own, contents, dimension);
    ends.push_back(ends.back() + length_in(own));
    for (auto& variable : contents.variables) {
      if (!has_axis(variable, dimension)) continue;
      if (auto const* const same = own.find(variable.name))
        require_like(own, *same, variable, dimension, paths[0]);
      else
        leave_out(variable, paths[place]);
    }
    for (auto const& one : contents.dimensions)
      if (auto const* coordinate = contents.coordinate(one.name); coordinate != nullptr && coordinate->refusal.empty())
        add_coordinate(place, next, one.name);
  }

  /// Files may lack a variable that nobody needs; the joined coordinate is no such variable.
  void leave_out(Variable& variable, std::filesystem::path const& path) const {
    if (variable.name == dimension) refuse(path, paths[0], "it has no variable " + variable.name);
    if (!variable.refusal.empty()) return;
    variable.refusal = path.string() + ", which continues it, has no variable " + variable.name;
    variable.refusal_rule = "BadInput";
  }

  void add_coordinate(std::size_t place, detail::LaterFile const& next, std::string const& name) {
    auto& all = coordinates[name];
    auto const& own = next.catalogue->contents;
    auto const* const coordinate = own.coordinate(name);
    if (coordinate == nullptr) refuse(paths[place], paths[0], "it has no coordinate " + name);
    auto const read = next.coordinates.find(name);
    if (read == next.coordinates.end()) std::rethrow_exception(next.failure);
    auto const& values = read->second;
    if (name == dimension) {
      auto const first = all.size();
      all.insert(all.end(), values.begin(), values.end());
      require_sorted(place, all, first);
      if (auto const& first_times = *contents.coordinate(name); !detail::same_dates(*coordinate, first_times, values))
        refuse(paths[place], paths[0],
               "calendar of " + name + " is '" + coordinate->text("calendar") + "' instead of '" +
                   first_times.text("calendar") + "', and it has times before 1582-10-15, when these differ");
      return;
    }
    auto const& expected = *contents.coordinate(name);
    auto const units = coordinate->text("units");
    // Latitudes and longitudes are in degrees already.
    bool const is_known = degrees_per_unit(contents, name) != 1 || degrees_per_unit(own, name) != 1;
    if (!is_known && !same_units(units, expected.text("units")))
      refuse(paths[place], paths[0],
             "units of " + name + " are '" + units + "' instead of '" + expected.text("units") + "'");
    if (auto const differs = first_difference(values, all)) {
      auto const value = [&](std::vector<double> const& of) {
        return *differs < of.size() ? number_text(of[*differs]) : std::string("nothing");
      };
      refuse(paths[place], paths[0],
             "its values of " + name + " are others, first " + value(values) + " instead of " + value(all) + " at " +
                 std::to_string(*differs));
    }
  }

  /// A value of the joined coordinate, as a date where it is one.
  [[nodiscard]] std::string joined_text(double value) const {
    auto const* const coordinate = contents.coordinate(dimension);
    try {
      if (coordinate != nullptr && counts_from_date(coordinate->text("units"))) {
        auto const calendar = calendar_of(coordinate->text("calendar"));
        return time_text(times_of({value}, coordinate->text("units"), calendar).front(), calendar);
      }
    } catch (Error const&) {  // the number says enough
    }
    return number_text(value);
  }

  /// The values from `first` on continue the order of those before.
  void require_sorted(std::size_t place, std::vector<double> const& values, std::size_t first) const {
    for (std::size_t i = first; i < values.size(); ++i)
      if (std::isnan(values[i]))
        throw Error(Fault::input, "BadInput",
                    dimension + " of " + paths[place].string() + " lacks a value at record " +
                        std::to_string(i - first) + " of " + std::to_string(values.size() - first));
    if (values.size() < 2) return;
    bool const rises = values[1] > values[0];
    for (std::size_t i = std::max<std::size_t>(first, 1); i < values.size(); ++i) {
      if (values[i] != values[i - 1] && (values[i] > values[i - 1]) == rises) continue;
      auto const where = i == first ? "where " + paths[place].string() + " follows " + paths[place - 1].string()
                                    : "within " + paths[place].string();
      throw Error(Fault::input, "BadInput",
                  dimension + " goes from " + joined_text(values[i - 1]) + " to " + joined_text(values[i]) + " " +
                      where + "; give the files in order and without duplicate records");
    }
  }

  /// The part of a selection that lies in one file.
  [[nodiscard]] FileSelection part_of(FileSelection const& selection, int axis, std::size_t place, int ndim) const {
    FileSelection part = selection;
    auto& box = part.box;
    Index const count = box.empty() ? 0 : selection.counts()[axis];
    Index const step = selection.steps.size() > 0 ? selection.steps[axis] : 1;
    Index const first = step > 0 ? box.lo(axis) : box.hi(axis) - 1;
    auto const cell = [&](Index k) { return first + k * step; };
    // Chosen cells [from, to) lie in the file: their places rise or fall along the axis.
    Index from = 0;
    while (from < count && (cell(from) < ends[place] || cell(from) >= ends[place + 1])) ++from;
    Index to = from;
    while (to < count && cell(to) >= ends[place] && cell(to) < ends[place + 1]) ++to;
    if (from == to) {
      part.box = Box(Indices::filled(box.ndim(), 0), Indices::filled(box.ndim(), 0));
      return part;
    }
    box.set(axis, std::min(cell(from), cell(to - 1)) - ends[place],
            std::max(cell(from), cell(to - 1)) + 1 - ends[place]);
    if (part.offset.size() == 0) part.offset = Indices::filled(ndim, 0);
    for (int m = 0; m < ndim; ++m)
      if ((part.axes.size() > 0 ? part.axes[m] : Index(m)) == axis) part.offset[m] += from;
    return part;
  }

  void check(Variable const& variable, FileSelection const& selection, FieldView const& field) const {
    auto const& box = selection.box;
    if (box.ndim() != variable.ndim() || !Box::from_extents(variable.extents).contains(box))
      throw Error("OutOfRange", "the cells must lie in " + to_string(variable) + ", got " + to_string(box));
    (void)selection.counts();
    auto const ndim = field.ndim();
    bool const fits = (selection.axes.size() == 0 && ndim == box.ndim()) || selection.axes.size() == ndim;
    if (!box.empty() && (!fits || (selection.offset.size() != 0 && selection.offset.size() != ndim)))
      throw Error("BadSelection", "axes and offset of the selection and of a field of " + to_string(field.extents) +
                                      " differ in number, for " + to_string(variable));
  }

  void read(std::string_view name, FileSelection const& selection, FieldView const& field) {
    auto const& variable = detail::agreed_variable(comm, contents, name);
    if (!variable.refusal.empty())
      throw Error(
          Fault::input, variable.refusal_rule,
          "variable " + variable.name + " of " + contents.path.string() + " cannot be read: " + variable.refusal);
    if (!has_axis(variable, dimension)) return file(0).read(name, selection, field);
    auto const axis = variable.axis(dimension);
    run_agreed(comm, [&] { check(variable, selection, field); });
    // The cells that any rank needs.
    bool const needs = !selection.box.empty();
    constexpr Index none = std::numeric_limits<Index>::min();
    std::array<Index, 2> range{needs ? -selection.box.lo(axis) : none, needs ? selection.box.hi(axis) : none};
    comm.max(range);
    for (std::size_t place = 0; place < paths.size(); ++place)
      if (range[1] != none && ends[place] < range[1] && ends[place + 1] > -range[0] && ends[place] < ends[place + 1])
        file(place).read(name, part_of(selection, axis, place, field.ndim()), field);
  }

  template <class Value>
  void read(std::string_view name, Box const& box, std::span<Value> values) {
    auto const& variable = detail::agreed_variable(comm, contents, name);
    run_agreed(comm, [&] {
      if (Index(values.size()) != box.num_cells())
        throw Error("ShapeMismatch", "a value is needed for each of the " + std::to_string(box.num_cells()) +
                                         " cells of " + to_string(box) + ", got " + std::to_string(values.size()));
    });
    read(variable.name, FileSelection{.box = box}, field_view(values.data(), box.extents(), 0));
  }
};

FieldSeries::FieldSeries(Comm const& comm, std::vector<std::filesystem::path> files, FieldSeriesOptions const& options)
    : state_(std::make_unique<State>(comm, std::move(files), options)) {}
FieldSeries::FieldSeries(FieldSeries&&) noexcept = default;
FieldSeries& FieldSeries::operator=(FieldSeries&&) noexcept = default;
FieldSeries::~FieldSeries() = default;

FileContents const& FieldSeries::contents() const noexcept { return state_->contents; }
std::vector<std::filesystem::path> const& FieldSeries::files() const noexcept { return state_->paths; }
std::string const& FieldSeries::dimension() const noexcept { return state_->dimension; }
std::vector<Index> const& FieldSeries::file_ends() const noexcept { return state_->ends; }
FilterPlugins FieldSeries::plugins() const noexcept { return state_->options.file.plugins; }

int FieldSeries::threads() const noexcept { return state_->options.file.threads; }
detail::KnownFiles const& FieldSeries::known() const noexcept { return state_->known; }

HorizontalAxes FieldSeries::horizontal_axes(std::string_view name) const {
  return contents().horizontal_axes(variable(name));
}

std::vector<double> FieldSeries::coordinate(std::string_view dimension) const {
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(dimension).value(),
               "coordinate of dimension " + std::string(dimension));
  auto const found = state_->coordinates.find(dimension);
  if (found == state_->coordinates.end()) return state_->file(0).coordinate(dimension);
  return found->second;
}

void FieldSeries::read(std::string_view name, Box const& box, std::span<float> values) const {
  state_->read(name, box, values);
}

void FieldSeries::read(std::string_view name, Box const& box, std::span<double> values) const {
  state_->read(name, box, values);
}

void FieldSeries::read(std::string_view name, FileSelection const& selection, FieldView const& field) const {
  state_->read(name, selection, field);
}

}  // namespace graticule
