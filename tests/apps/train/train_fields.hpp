// SPDX-License-Identifier: BSD-3-Clause
// A small file of winds and the geopotential that they follow, with a known formula.
#pragma once

#include <graticule/field_io/writer.hpp>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace graticule::test {

struct TrainFields {
  Index num_rows = 19;  ///< both poles among them
  Index num_columns = 36;
  Index num_times = 2;
  Index num_levels = 2;
  double first_time = 0;  ///< days; the others follow by one
  int deflate = 0;
  bool has_missing = false;  ///< a few cells of u and z
};

/// Writes z, u and v(time, level, latitude, longitude): waves on a jet, u = -dz/dy / f, v = dz/dx / f with |f| bounded
/// below. Collective.
inline void write_train_fields(Comm const& comm, std::filesystem::path const& path, TrainFields const& shape) {
  constexpr double radians = std::numbers::pi / 180;
  std::vector<double> latitudes;
  std::vector<double> longitudes;
  for (Index i = 0; i < shape.num_rows; ++i) latitudes.push_back(90 - 180.0 * double(i) / double(shape.num_rows - 1));
  for (Index j = 0; j < shape.num_columns; ++j) longitudes.push_back(360.0 * double(j) / double(shape.num_columns));

  std::vector<double> z;
  std::vector<double> u;
  std::vector<double> v;
  for (Index t = 0; t < shape.num_times; ++t)
    for (Index level = 0; level < shape.num_levels; ++level)
      for (double const latitude : latitudes)
        for (double const longitude : longitudes) {
          double const sine = std::sin(latitude * radians);
          double const cosine = std::cos(latitude * radians);
          double const phase = longitude * radians * 3 + double(t) + 0.5 * double(level);
          double const strength = 1 + 0.3 * double(level);
          double const f = 1.458e-4 * (sine >= 0 ? std::max(sine, 0.2) : std::min(sine, -0.2));
          z.push_back(5e4 * double(level + 1) -
                      strength * (5000 * sine * sine - 800 * cosine * cosine * std::cos(phase)));
          double const north = -strength * (10000 * sine * cosine + 1600 * cosine * sine * std::cos(phase)) / 6.371e6;
          double const east = -strength * 2400 * cosine * std::sin(phase) / 6.371e6;
          u.push_back(-north / f);
          v.push_back(east / f);
        }
  if (shape.has_missing)
    for (std::size_t i = 0; i < z.size(); i += 97)
      z[i] = u[i + 5 < u.size() ? i + 5 : i] = std::numeric_limits<double>::quiet_NaN();

  FieldWriter writer(comm, path);
  std::vector<double> times;
  for (Index t = 0; t < shape.num_times; ++t) times.push_back(shape.first_time + double(t));
  writer.add_coordinate("time", times, ValueType::f64, {Attribute::of_text("units", "days since 2000-01-01")});
  writer.add_dimension("level", shape.num_levels);
  writer.add_coordinate("latitude", latitudes, ValueType::f64, {Attribute::of_text("units", "degrees_north")});
  writer.add_coordinate("longitude", longitudes, ValueType::f64, {Attribute::of_text("units", "degrees_east")});
  Box const all({0, 0, 0, 0}, {shape.num_times, shape.num_levels, shape.num_rows, shape.num_columns});
  Box const box = comm.rank() == 0 ? all : Box({0, 0, 0, 0}, {0, 0, 0, 0});
  auto const add = [&](char const* name, char const* standard_name, char const* units,
                       std::vector<double> const& values) {
    VariableSpec spec{.name = name, .dimensions = {"time", "level", "latitude", "longitude"}, .type = ValueType::f64};
    if (shape.deflate > 0) spec.chunk = {1, 1, 5, 7};
    spec.deflate = shape.deflate;
    spec.fill = -9999;
    spec.attributes = {Attribute::of_text("standard_name", standard_name), Attribute::of_text("units", units)};
    writer.add_variable(spec);
    writer.write(name, box, std::span(values.data(), std::size_t(box.num_cells())));
  };
  add("z", "geopotential", "m2 s-2", z);
  add("u", "eastward_wind", "m s-1", u);
  add("v", "northward_wind", "m s-1", v);
  writer.commit();
}

}  // namespace graticule::test
