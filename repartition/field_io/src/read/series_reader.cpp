// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/conventions.hpp>
#include <graticule/field_io/series_reader.hpp>

#include "catalogue.hpp"
#include "hdf5/values.hpp"
#include "raw_cells.hpp"
#include "write/dense.hpp"
#include "zarr/catalogue.hpp"

#include <algorithm>
#include <list>
#include <map>
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
    throw Error("ShapeMismatch",
                std::to_string(values.size()) + " values for " + std::to_string(num_cells()) + " cells");
  std::vector<double> staging;
  for (auto const& part : parts_) {
    if (part.box == box_) return detail::unpack(*part.unpacking, part.bytes.data(), values);
    staging.resize(std::size_t(part.box.num_cells()));
    detail::unpack(*part.unpacking, part.bytes.data(), std::span(staging));
    detail::copy_in(box_, part.box, Index(sizeof(double)), staging.data(), values.data());
  }
}

struct SeriesReader::State {
  /// A variable of one file.
  struct Source {
    Variable variable;
    std::uint64_t address = 0;
    std::string array;  ///< of a Zarr store
    std::shared_ptr<detail::Unpacking const> unpacking;
  };
  struct Open {
    std::size_t place;
    h5::File file;
    std::map<std::string, h5::Object, std::less<>> datasets;
    std::optional<detail::zarr::OpenStore> store;  ///< instead of the file
  };

  std::vector<std::filesystem::path> paths;
  FileContents contents;
  std::string dimension;
  std::vector<Index> ends;
  FilterPlugins plugins;
  std::size_t most_open;
  std::vector<std::map<std::string, Source, std::less<>>> sources;  ///< of each file, empty until it was listed
  std::list<Open> open;                                             ///< the last used first

  State(FieldSeries const& series, int most)
      : paths(series.files()),
        contents(series.contents()),
        dimension(series.dimension()),
        ends(series.file_ends()),
        plugins(series.plugins()),
        most_open(std::size_t(std::max(most, 1))),
        sources(paths.size()) {}

  ~State() {
    h5::Quiet const quiet(plugins);
    open.clear();
  }

  /// The file with its datasets; closes the one that was not used for longest.
  Open& file(std::size_t place) {
    auto const found = std::find_if(open.begin(), open.end(), [&](auto const& one) { return one.place == place; });
    if (found != open.end()) {
      open.splice(open.begin(), open, found);
      return open.front();
    }
    if (open.size() >= most_open) open.pop_back();
    open.push_front({place, {}, {}, {}});
    if (detail::zarr::is_store(paths[place]))
      open.front().store.emplace(paths[place]);
    else
      open.front().file = detail::open_alone(paths[place]);
    return open.front();
  }

  [[nodiscard]] static Error broken(std::filesystem::path const& path, std::string_view name, std::string const& what) {
    return {Fault::input, "BrokenFile",
            path.string() + " cannot be read (variable " + std::string(name) + ": " + what +
                "); it is damaged or incomplete, copy or make it again"};
  }

  void list(std::size_t place) {
    auto const catalogue = detail::read_catalogue(paths[place], plugins);
    for (std::size_t i = 0; i < catalogue.contents.variables.size(); ++i) {
      auto const& variable = catalogue.contents.variables[i];
      if (variable.refusal.empty() && contents.find(variable.name) != nullptr)
        sources[place].emplace(variable.name,
                               Source{variable, catalogue.addresses[i],
                                      catalogue.arrays.empty() ? std::string() : catalogue.arrays[i], nullptr});
    }
  }

  /// What a file holds of a variable, as it was when the series was opened.
  Source const& source(std::size_t place, Variable const& expected) {
    auto& known = sources[place];
    if (known.empty()) list(place);
    auto const found = known.find(expected.name);
    if (found == known.end() || found->second.variable.extents != extents_in(place, expected))
      throw Error("BrokenFile", "the file has changed since it was opened");
    auto& [variable, address, array, unpacking] = found->second;
    if (!same_units(variable.text("units"), expected.text("units")))
      throw Error(Fault::input, "UnreadableVariable",
                  "units of " + expected.name + " of " + paths[place].string() + " are '" + variable.text("units") +
                      "' instead of '" + expected.text("units") + "'");
    if (!unpacking) {
      FileContents named;
      named.path = paths[place];
      unpacking = std::make_shared<detail::Unpacking const>(detail::unpacking_of(named, variable));
    }
    return found->second;
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
      auto const& [variable, address, array, unpacking] = source(place, expected);
      StoredCells::Part part{box, unpacking,
                             std::vector<std::byte>(std::size_t(box.num_cells() * variable.value_bytes))};
      auto& opened = file(place);
      auto const slab = detail::slab_of(&box);
      if (opened.store)
        opened.store->read(variable, array, *slab, part.bytes.data());
      else
        detail::read_raw(variable, dataset(opened, variable.name, address), H5P_DEFAULT, slab, part.bytes.data());
      return part;
    } catch (Error const& error) {
      if (error.rule() == "UnreadableVariable") throw;
      throw broken(paths[place], expected.name, error.text());
    }
  }

  static hid_t dataset(Open& opened, std::string const& name, std::uint64_t address) {
    auto& datasets = opened.datasets;
    auto found = datasets.find(name);
    if (found == datasets.end())
      found =
          datasets.emplace(name, h5::Object(h5::check(H5Oopen_by_addr(opened.file.get(), address), "H5Oopen_by_addr")))
              .first;
    return found->second.get();
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
    throw Error("OutOfRange", "cells outside of the variable: " + to_string(box) + " of " + to_string(variable));
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
