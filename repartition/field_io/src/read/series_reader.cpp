// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/series_reader.hpp>

#include "catalogue.hpp"
#include "hdf5/reading_threads.hpp"
#include "hdf5/values.hpp"
#include "later_files.hpp"
#include "write/dense.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

namespace graticule {

namespace h5 = detail::h5;

Index StoredCells::num_bytes() const noexcept {
  return std::accumulate(parts_.begin(), parts_.end(), Index(0),
                         [](Index sum, Part const& part) { return sum + Index(part.bytes.size()); });
}

void StoredCells::unpack(std::span<double> values) const {
  if (Index(values.size()) != num_cells())
    throw Error("ShapeMismatch", "a value is needed for each of " + std::to_string(num_cells()) + " cells, got " +
                                     std::to_string(values.size()));
  std::vector<double> staging;
  for (auto const& part : parts_) {
    if (part.box == box_) return detail::unpack(*part.unpacking, part.bytes.data(), values);
    staging.resize(std::size_t(part.box.num_cells()));
    detail::unpack(*part.unpacking, part.bytes.data(), std::span(staging));
    detail::copy_in(box_, part.box, Index(sizeof(double)), staging.data(), values.data());
  }
}

struct SeriesReader::State {
  struct Open {
    std::size_t place;
    std::unique_ptr<detail::Source> source;
  };
  using Unpackings = std::map<std::string, std::shared_ptr<detail::Unpacking const>, std::less<>>;

  std::vector<std::filesystem::path> paths;
  FileContents contents;
  std::string dimension;
  std::vector<Index> ends;
  FilterPlugins plugins;
  int num_threads;
  std::size_t most_open;
  detail::KnownFiles known;            ///< of each file that is listed
  std::vector<bool> is_checked;        ///< whether a file is still the one that the series has listed
  std::vector<Unpackings> unpackings;  ///< of each file
  std::list<Open> open;                ///< the last used first

  State(FieldSeries const& series, int most)
      : paths(series.files()),
        contents(series.contents()),
        dimension(series.dimension()),
        ends(series.file_ends()),
        plugins(series.plugins()),
        num_threads(detail::reading_threads(series.threads())),
        most_open(std::size_t(std::max(most, 1))),
        known(series.known()),
        is_checked(paths.size()),
        unpackings(paths.size()) {}

  ~State() {
    h5::Quiet const quiet(plugins);
    open.clear();
  }

  /// Opens the file unless it is open, and closes the one that was not used for longest.
  detail::Source& source(std::size_t place) {
    auto const found = std::find_if(open.begin(), open.end(), [&](auto const& one) { return one.place == place; });
    if (found != open.end()) {
      open.splice(open.begin(), open, found);
      return *open.front().source;
    }
    if (open.size() >= most_open) open.pop_back();
    open.push_front({place, detail::format_of(paths[place]).open(paths[place], {.num_threads = num_threads})});
    return *open.front().source;
  }

  [[nodiscard]] static Error broken(std::filesystem::path const& path, std::string_view name, std::string const& what) {
    return {Fault::input, "BrokenFile",
            path.string() + " cannot be read (variable " + std::string(name) + ": " + what +
                "); it is damaged or incomplete, copy or make it again"};
  }

  detail::KnownFile const& listed(std::size_t place) {
    auto& one = known[place];
    if (!is_checked[place] && (!one || one->identity != detail::file_identity(paths[place])))
      one = detail::known_file(detail::read_catalogue(paths[place], plugins), contents, nullptr);
    is_checked[place] = true;
    return *one;
  }

  /// What a file holds of a variable, as it was when the series was opened.
  detail::KnownVariable const& variable_of(std::size_t place, Variable const& expected) {
    auto const& variables = listed(place).variables;
    auto const found = variables.find(expected.name);
    if (found == variables.end() || found->second.variable->extents != extents_in(place, expected))
      throw Error("BrokenFile", "the file has changed since it was opened");
    auto const& variable = *found->second.variable;
    if (!same_units(variable.text("units"), expected.text("units")))
      throw Error(Fault::input, "UnreadableVariable",
                  "units of " + expected.name + " of " + paths[place].string() + " are '" + variable.text("units") +
                      "' instead of '" + expected.text("units") + "'");
    return found->second;
  }

  std::shared_ptr<detail::Unpacking const> const& unpacking_of(std::size_t place, Variable const& variable) {
    auto& unpacking = unpackings[place][variable.name];
    if (!unpacking) {
      FileContents named;
      named.path = paths[place];
      unpacking = std::make_shared<detail::Unpacking const>(detail::unpacking_of(named, variable));
    }
    return unpacking;
  }

  [[nodiscard]] int axis_of(Variable const& variable) const {
    return dimension.empty() ? -1 : variable.axis(dimension);
  }

  [[nodiscard]] Indices extents_in(std::size_t place, Variable const& variable) const {
    Indices extents = variable.extents;
    if (int const axis = axis_of(variable); axis >= 0) extents[axis] = ends[place + 1] - ends[place];
    return extents;
  }

  /// The cells of `box`, in coordinates of the file.
  StoredCells::Part read(std::size_t place, Variable const& expected, Box const& box) {
    h5::Quiet const quiet(plugins);
    try {
      auto const& found = variable_of(place, expected);
      StoredCells::Part part{box, unpacking_of(place, *found.variable),
                             std::vector<std::byte>(std::size_t(box.num_cells() * found.variable->value_bytes))};
      source(place).reader_of(*found.variable, found.place)(detail::slab_of(&box), part.bytes.data());
      return part;
    } catch (Error const& error) {
      if (error.rule() == "UnreadableVariable") throw;
      if (error.rule() == "UnreadableFile")
        throw Error(error.fault(), error.rule(),
                    "variable " + expected.name + " of " + paths[place].string() + " cannot be read: " + error.text());
      throw broken(paths[place], expected.name, error.text());
    }
  }
};

SeriesReader::SeriesReader(FieldSeries const& series, int most_open)
    : state_(std::make_unique<State>(series, most_open)) {}
SeriesReader::SeriesReader(SeriesReader&&) noexcept = default;
SeriesReader& SeriesReader::operator=(SeriesReader&&) noexcept = default;
SeriesReader::~SeriesReader() = default;

Index SeriesReader::value_bytes(std::string_view name) const { return state_->contents.variable(name).value_bytes; }

StoredCells SeriesReader::read(std::string_view name, Box const& box) {
  auto const& variable = state_->contents.variable(name);
  if (!variable.refusal.empty())
    throw Error(
        Fault::input, variable.refusal_rule,
        "variable " + variable.name + " of " + state_->contents.path.string() + " cannot be read: " + variable.refusal);
  if (box.ndim() != variable.ndim() || !Box::from_extents(variable.extents).contains(box))
    throw Error("OutOfRange", "the cells must lie in " + to_string(variable) + ", got " + to_string(box));
  StoredCells cells;
  cells.box_ = box;
  if (box.empty()) return cells;
  int const axis = state_->axis_of(variable);
  if (axis < 0) {
    cells.parts_.push_back(state_->read(0, variable, box));
    return cells;
  }
  auto const& ends = state_->ends;
  auto const first = std::upper_bound(ends.begin(), ends.end(), box.lo(axis)) - ends.begin() - 1;
  for (auto place = std::size_t(first); place + 1 < ends.size() && ends[place] < box.hi(axis); ++place) {
    if (ends[place] == ends[place + 1]) continue;
    Box part = box;
    part.set(axis, std::max(box.lo(axis), ends[place]), std::min(box.hi(axis), ends[place + 1]));
    Box in_file = part;
    in_file.set(axis, part.lo(axis) - ends[place], part.hi(axis) - ends[place]);
    cells.parts_.push_back(state_->read(place, variable, in_file));
    cells.parts_.back().box = part;
  }
  return cells;
}

}  // namespace graticule
