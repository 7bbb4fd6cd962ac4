// SPDX-License-Identifier: BSD-3-Clause
#include "series.hpp"

#include <graticule/app/cf.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/error.hpp>

#include <array>
#include <numbers>
#include <vector>

namespace graticule::swe {

namespace {

using app::FieldSpec;
using app::text;

constexpr std::array specs{FieldSpec{"h", nullptr, "Depth of the fluid", "m"},
                           FieldSpec{"u", "eastward_wind", "Eastward wind", "m s-1"},
                           FieldSpec{"v", "northward_wind", "Northward wind", "m s-1"},
                           FieldSpec{"vorticity", "atmosphere_relative_vorticity", "Relative vorticity", "s-1"},
                           FieldSpec{"divergence", "divergence_of_wind", "Divergence of the wind", "s-1"}};

void define(FieldWriter& writer, Grid const& grid, bool f64) {
  constexpr double degrees = 180 / std::numbers::pi;
  std::vector<double> latitudes;
  std::vector<double> longitudes;
  for (Index j = 0; j < grid.num_rows(); ++j) latitudes.push_back(degrees * grid.latitude(j));
  for (Index i = 0; i < grid.num_columns(); ++i) longitudes.push_back(360 * double(i) / double(grid.num_columns()));
  writer.add_dimension("time", 0, DimensionKind::unlimited);
  writer.add_variable({.name = "time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {text("standard_name", "time"), text("long_name", "time of the simulation"),
                                      text("units", "hours since 2000-01-01 00:00:00"), text("calendar", "standard"),
                                      text("axis", "T")}});
  app::add_grid(writer, latitudes, longitudes);
  for (auto const& spec : specs)
    app::add_field(writer, spec, {"time", "latitude", "longitude"}, f64 ? ValueType::f64 : ValueType::f32);
}

}  // namespace

Series::Series(Solver const& solver, std::filesystem::path path, std::string const& description, bool f64,
               Index num_needed)
    : comm_(solver.comm()), owned_(solver.owned()), path_(std::move(path)) {
  auto const& grid = solver.grid();
  // Rank 0 alone looks, so that all ranks see the same.
  std::array<Index, 1> exists{comm_.rank() == 0 && num_needed > 0 && std::filesystem::exists(path_) ? 1 : 0};
  comm_.max(exists);
  auto const lacks = [&](Index num_found) {
    return Error(Fault::input, "StateMismatch",
                 path_.string() + " has " + std::to_string(num_found) + " records; the checkpoint resumes after " +
                     std::to_string(num_needed) + ": choose another --output, or --resume never");
  };
  if (num_needed > 0 && exists[0] == 0) throw lacks(0);
  if (exists[0] != 0) {
    FieldFile const file(comm_, path_);
    auto const& extents = file.variable("h").extents;
    if (extents.size() != 3 || extents[1] != grid.num_rows() || extents[2] != grid.num_columns())
      throw Error(Fault::input, "LayoutMismatch",
                  path_.string() + " has fields of another grid; remove it or choose another --output");
    if (file.variable("h").type != (f64 ? ValueType::f64 : ValueType::f32))
      throw Error(Fault::input, "StateMismatch",
                  path_.string() + " has values of type " + std::string(to_string(file.variable("h").type)) +
                      ", not of --dtype " + (f64 ? "f64" : "f32") + "; choose another --output, or --resume never");
    num_records_ = num_complete_records(file.contents(), "time");
    if (num_records_ < num_needed) throw lacks(num_records_);
    return;
  }
  FieldWriter writer(comm_, path_,
                     {text("Conventions", "CF-1.8"), text("title", "Shallow-water simulation"),
                      text("source", "graticule-swe"), text("history", description)});
  define(writer, grid, f64);
  writer.commit();
}

void Series::write(Index record, double hours, Diagnostics::Centred& centred, Cells& depth) {
  if (record < num_records_) return;
  auto writer = FieldWriter::append(comm_, path_, AppendTo::in_place);
  writer.extend("time", 1);
  auto const box = owned_.empty() ? Box({0, 0, 0}, {0, 0, 0})
                                  : Box({record, owned_.lo(0), owned_.lo(1)}, {record + 1, owned_.hi(0), owned_.hi(1)});
  std::array<Cells*, 5> const fields{&depth, &centred.u, &centred.v, &centred.vorticity, &centred.divergence};
  for (std::size_t f = 0; f < fields.size(); ++f) {
    // Without the halo.
    std::vector<double> values;
    if (!owned_.empty())
      for (Index j = owned_.lo(0); j < owned_.hi(0); ++j)
        values.insert(values.end(), fields[f]->at(j, owned_.lo(1)), fields[f]->at(j, owned_.lo(1)) + owned_.extent(1));
    writer.write(specs[f].name, box, std::span<double const>(values));
  }
  bool const first = comm_.rank() == 0;
  std::vector<double> const time(first ? 1 : 0, hours);
  writer.write("time", Box({record}, {record + (first ? 1 : 0)}), std::span<double const>(time));
  writer.commit();
  num_records_ = record + 1;
}

}  // namespace graticule::swe
