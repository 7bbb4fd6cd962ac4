// SPDX-License-Identifier: BSD-3-Clause
#include "static_fields.hpp"

#include <graticule/field_io/file.hpp>
#include <graticule/samples/detail/fields.hpp>

#include <algorithm>
#include <cmath>

namespace graticule::forecasting {

bool same_places(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return std::abs(std::remainder(x - y, 360)) < 1e-4;
         });
}

namespace {

std::vector<double> read_static(FieldFile const& file, std::string const& path, std::string const& name,
                                models::Grid const& grid, Box const& box) {
  Variable const& variable = file.variable(name);
  HorizontalAxes const axes = file.horizontal_axes(name);
  Box wanted = Box::from_extents(Indices::filled(variable.ndim(), 1));
  for (int a = 0; a < variable.ndim(); ++a)
    if (a != axes.latitude && a != axes.longitude && variable.extents[a] != 1)
      throw Error(
          Fault::input, "BadInput",
          "--static: " + to_string(variable) + " of " + path + " varies along more than latitude and longitude");
  auto longitudes = file.coordinate(variable.dimensions[std::size_t(axes.longitude)]);
  if (Index(longitudes.size()) > grid.num_columns()) samples::drop_repeated(longitudes);
  if (!same_places(file.coordinate(variable.dimensions[std::size_t(axes.latitude)]), grid.latitudes) ||
      !same_places(longitudes, grid.longitudes))
    throw Error(Fault::input, "BadInput",
                "--static: " + to_string(variable) + " of " + path +
                    " is on another grid than the input, or its rows "
                    "are in another order");
  wanted.set(axes.latitude, box.lo(0), box.hi(0));
  wanted.set(axes.longitude, box.lo(1), box.hi(1));
  std::vector<double> values(std::size_t(box.extent(0) * box.extent(1)));
  if (axes.latitude < axes.longitude) {
    file.read(name, wanted, std::span(values));
    return values;
  }
  std::vector<double> turned(values.size());
  file.read(name, wanted, std::span(turned));
  auto const rows = std::size_t(box.extent(0));
  auto const columns = std::size_t(box.extent(1));
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) values[i * columns + j] = turned[j * rows + i];
  return values;
}

}  // namespace

StaticFields read_statics(Comm const& comm, std::string const& path, std::vector<std::string> const& names,
                          models::Grid const& grid, Box const& box) {
  StaticFields fields;
  if (names.empty()) return fields;
  FieldFile const file(comm, path);
  Box const opposite({grid.num_rows() - box.hi(0), box.lo(1)}, {grid.num_rows() - box.lo(0), box.hi(1)});
  for (std::string const& name : names) {
    fields.names.push_back(name);
    fields.values.push_back(read_static(file, path, name, grid, box));
    auto image = read_static(file, path, name, grid, opposite);
    auto const columns = std::size_t(box.extent(1));
    for (std::size_t i = 0, n = std::size_t(box.extent(0)); i < n / 2; ++i)
      std::swap_ranges(image.begin() + std::ptrdiff_t(i * columns), image.begin() + std::ptrdiff_t((i + 1) * columns),
                       image.begin() + std::ptrdiff_t((n - 1 - i) * columns));
    fields.mirrored.push_back(std::move(image));
  }
  return fields;
}

}  // namespace graticule::forecasting
