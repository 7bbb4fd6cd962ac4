// SPDX-License-Identifier: BSD-3-Clause
#include "flattened.hpp"

#include <graticule/partition/error.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace graticule::detail::zarr {

namespace {

constexpr Index most_cells = Index(1) << 24;

template <class Value>
Value const* attribute_as(FileContents const& contents, char const* name) {
  for (auto const& attribute : contents.attributes)
    if (attribute.name == name) return std::get_if<Value>(&attribute.value);
  return nullptr;
}

struct Grid {
  Index rows = 0;
  Index columns = 0;
  std::vector<std::string> variables;
};

/// Nothing where the store is not such a data set.
std::optional<Grid> grid_of(FileContents const& contents) {
  auto const* const shape = attribute_as<std::vector<Index>>(contents, "field_shape");
  auto const* names = attribute_as<std::vector<std::string>>(contents, "variables");
  auto const* const only = attribute_as<std::string>(contents, "variables");
  auto const* const data = contents.find("data");
  if (shape == nullptr || shape->size() != 2 || data == nullptr || !data->refusal.empty()) return {};
  if (data->dimensions != std::vector<std::string>{"time", "variable", "ensemble", "cell"}) return {};
  Grid grid{(*shape)[0], (*shape)[1], names != nullptr ? *names : std::vector<std::string>{only ? *only : ""}};
  auto const cells = data->extents[3];
  bool const fits = grid.rows > 0 && grid.columns > 0 && cells <= most_cells && cells % grid.columns == 0 &&
                    cells / grid.columns == grid.rows && data->extents[1] == Index(grid.variables.size());
  if (!fits) return {};
  std::set<std::string> names_met{"time", "latitude", "longitude"};
  for (auto const& name : grid.variables)
    if (!names_met.insert(name).second || name.empty() || contents.find(name) != nullptr) return {};
  return grid;
}

class Unfolding {
 public:
  Unfolding(Store const& store, Listed& listed, Grid grid) : store_(store), listed_(listed), grid_(std::move(grid)) {}

  void run() {
    auto const latitudes = place_of("latitudes");
    auto const longitudes = place_of("longitudes");
    auto const data = place_of("data");
    if (!latitudes || !longitudes || !is_regular(*latitudes, *longitudes)) return;
    add_coordinate(*latitudes, "latitude", grid_.rows, grid_.columns, "degrees_north");
    add_coordinate(*longitudes, "longitude", grid_.columns, 1, "degrees_east");
    for (std::size_t i = 0; i < grid_.variables.size(); ++i) add_variable(*data, Index(i));
    if (auto const dates = place_of("dates"); dates && !place_of("time")) {
      listed_.contents.variables[*dates].name = "time";
      variables_.push_back(std::move(listed_.contents.variables[*dates]));
      arrays_.push_back(std::move(listed_.arrays[*dates]));
      gone_.insert(*dates);
    }
    for (auto const place : {*latitudes, *longitudes, *data}) gone_.insert(place);
    for (std::size_t i = 0; i < listed_.arrays.size(); ++i) {
      if (gone_.contains(i)) continue;
      variables_.push_back(std::move(listed_.contents.variables[i]));
      arrays_.push_back(std::move(listed_.arrays[i]));
    }
    listed_.contents.variables = std::move(variables_);
    listed_.arrays = std::move(arrays_);
  }

 private:
  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view name) const {
    auto const* const found = listed_.contents.find(name);
    if (found == nullptr || !found->refusal.empty()) return {};
    return std::size_t(found - listed_.contents.variables.data());
  }

  [[nodiscard]] Json described(std::size_t place) const { return Json::parse(listed_.arrays[place]); }

  [[nodiscard]] std::vector<double> values_of_cells(std::size_t place) const {
    auto const& variable = listed_.contents.variables[place];
    if (variable.extents != Indices{grid_.rows * grid_.columns}) return {};
    auto const description = described(place);
    auto found = describe(variable.name, description.at("metadata"), description.at("attributes"));
    ArrayReader reader(store_, description.at("key").get<std::string>(), std::move(found.array), 1);
    std::vector<double> values(std::size_t(variable.extents[0]));
    Slab const all{{0}, {1}, variable.extents};
    if (variable.type == ValueType::f64) {
      reader.read(all, reinterpret_cast<std::byte*>(values.data()));
    } else if (variable.type == ValueType::f32) {
      std::vector<float> narrow(values.size());
      reader.read(all, reinterpret_cast<std::byte*>(narrow.data()));
      std::copy(narrow.begin(), narrow.end(), values.begin());
    } else {
      return {};
    }
    return values;
  }

  /// Each row has one latitude, each column one longitude.
  [[nodiscard]] bool is_regular(std::size_t latitudes, std::size_t longitudes) const {
    auto const latitude = values_of_cells(latitudes);
    auto const longitude = values_of_cells(longitudes);
    auto const columns = std::size_t(grid_.columns);
    if (latitude.empty() || longitude.empty()) return false;
    for (std::size_t i = 0; i < latitude.size(); ++i)
      if (latitude[i] != latitude[i / columns * columns] || longitude[i] != longitude[i % columns]) return false;
    return true;
  }

  void add(Variable variable, std::size_t place, Json fold) {
    auto description = described(place);
    description["fold"] = std::move(fold);
    variables_.push_back(std::move(variable));
    arrays_.push_back(description.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  void add_coordinate(std::size_t place, char const* name, Index extent, Index step, char const* units) {
    auto variable = listed_.contents.variables[place];
    variable.name = name;
    variable.dimensions = {name};
    variable.extents = variable.stored_extents = variable.chunk = {extent};
    variable.attributes = {Attribute::of_text("units", units)};
    add(std::move(variable), place, {{"step", step}});
  }

  void add_variable(std::size_t place, Index number) {
    auto const& data = listed_.contents.variables[place];
    auto variable = data;
    variable.name = grid_.variables[std::size_t(number)];
    variable.dimensions = {"time"};
    variable.extents = {data.extents[0]};
    variable.chunk = {data.chunk[0]};
    if (data.extents[2] > 1) {
      variable.dimensions.emplace_back("ensemble");
      variable.extents.push_back(data.extents[2]);
      variable.chunk.push_back(data.chunk[2]);
    }
    variable.dimensions.insert(variable.dimensions.end(), {"latitude", "longitude"});
    for (auto const extent : {grid_.rows, grid_.columns}) variable.extents.push_back(extent);
    variable.chunk.push_back(std::clamp<Index>(data.chunk[3] / grid_.columns, 1, grid_.rows));
    variable.chunk.push_back(grid_.columns);
    variable.stored_extents = variable.extents;
    add(std::move(variable), place, {{"variable", number}, {"columns", grid_.columns}});
  }

  Store const& store_;
  Listed& listed_;
  Grid grid_;
  std::vector<Variable> variables_;
  std::vector<std::string> arrays_;
  std::set<std::size_t> gone_;
};

}  // namespace

void unfold(Store const& store, Listed& listed) {
  auto grid = grid_of(listed.contents);
  if (!grid) return;
  try {
    Unfolding(store, listed, std::move(*grid)).run();
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), store.path().string() + ": " + error.text());
  }
}

void read_unfolded(ArrayReader& reader, Json const& fold, Index value_bytes, Slab const& slab, std::byte* target) {
  if (auto const step = fold.find("step"); step != fold.end())
    return reader.read({{slab.start[0] * step->get<Index>()}, {slab.steps[0] * step->get<Index>()}, slab.counts},
                       target);
  int const row = slab.counts.size() - 2;
  int const column = row + 1;
  auto const columns = fold.at("columns").get<Index>();
  bool const has_members = row == 2;
  Index const num_rows = slab.counts[row];
  Index const num_columns = slab.counts[column];
  if (Box::from_extents(slab.counts).empty()) return;
  auto const variable = fold.at("variable").get<Index>();
  // All columns between the first and the last row.
  Index const span = ((num_rows - 1) * slab.steps[row] + 1) * columns;
  Slab part{{slab.start[0], variable, has_members ? slab.start[1] : 0, slab.start[row] * columns},
            {slab.steps[0], 1, has_members ? slab.steps[1] : 1, 1},
            {slab.counts[0], 1, has_members ? slab.counts[1] : 1, span}};
  if (num_columns == columns && slab.steps[row] == 1) return reader.read(part, target);
  auto const size = std::size_t(value_bytes);
  std::vector<std::byte> cells(std::size_t(span) * size);
  Index const num_members = part.counts[2];
  part.counts[0] = part.counts[2] = 1;
  for (Index time = 0; time < slab.counts[0]; ++time)
    for (Index member = 0; member < num_members; ++member) {
      part.start[0] = slab.start[0] + time * slab.steps[0];
      part.start[2] = has_members ? slab.start[1] + member * slab.steps[1] : 0;
      reader.read(part, cells.data());
      for (Index j = 0; j < num_rows; ++j)
        for (Index i = 0; i < num_columns; ++i, target += size) {
          auto const cell = j * slab.steps[row] * columns + slab.start[column] + i * slab.steps[column];
          std::memcpy(target, cells.data() + std::size_t(cell) * size, size);
        }
    }
}

}  // namespace graticule::detail::zarr
