// SPDX-License-Identifier: BSD-3-Clause
// Dimensions and variables as netCDF-4 lays them out.
#include <graticule/field_io/detail/value_types.hpp>

#include "hdf5/types.hpp"
#include "hdf5_sink.hpp"

#include <hdf5_hl.h>

#include <array>
#include <cstdio>

namespace graticule::detail {

namespace {

/// netCDF's name for a variable that has the name of a dimension without being its coordinate.
std::string stored_name(WrittenTable const& table, VariableSpec const& spec) {
  bool const clashes =
      table.has_dimension(spec.name) && (spec.dimensions.empty() || spec.dimensions.front() != spec.name);
  return (clashes ? "_nc4_non_coord_" : "") + spec.name;
}

}  // namespace

h5::Dataset Hdf5Sink::create(std::string const& name, h5::Type const& type, Shape const& shape,
                             h5::Properties const& creation) const {
  std::array<hsize_t, max_ndim> sizes{};
  std::array<hsize_t, max_ndim> limits{};
  int const ndim = shape.extents.size();
  for (int axis = 0; axis < ndim; ++axis) {
    sizes[std::size_t(axis)] = hsize_t(shape.extents[axis]);
    limits[std::size_t(axis)] = shape.unlimited[std::size_t(axis)] ? H5S_UNLIMITED : hsize_t(shape.extents[axis]);
  }
  h5::Space const space(h5::check(
      ndim == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(ndim, sizes.data(), limits.data()), "H5Screate_simple"));
  FileWatch const watch(comm_, path_, "writing");
  return h5::Dataset(h5::check(
      H5Dcreate2(file_->id(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "H5Dcreate2"));
}

void Hdf5Sink::add(WrittenTable const& table, VariableSpec const& spec, WrittenVariable& variable) {
  Target target;
  Shape shape;
  h5::Properties creation;
  h5::Quiet const quiet;
  run_agreed(comm_, [&] {
    if (spec.shard.size() > 0)
      throw Error("BadOption", "variable " + spec.name + ": shards are for Zarr stores; name one that ends in .zarr");
    if (spec.type == ValueType::f16)
      throw Error("WrongType", "variable " + spec.name +
                                   " is of type f16, which netCDF lacks; make it f32, which holds its values, or write "
                                   "a Zarr store: name one that ends in .zarr");
    shape = table.shape_of(spec.dimensions);
    creation = creation_list();
    variable.chunk = chunk_of(spec, shape);
    target.memory_type = memory_type(spec.type, spec.text_bytes);
    target.value_bytes = variable.value_bytes;
    set_storage(creation, spec, variable.chunk);
    set_fill(creation, spec);
    target.has_filters = H5Pget_nfilters(creation.get()) > 0;
  });
  auto room = room_for(target, variable.chunk, variable.extents);
  reserve(room += room_for(spec.attributes));
  run_agreed(comm_, [&] {
    if (!writes()) return;
    target.dataset = create(stored_name(table, spec), file_type(spec.type, spec.text_bytes), shape, creation);
    detail::write_attributes(target.dataset.get(), spec);
  });
  targets_.emplace(spec.name, std::move(target));
}

h5::Dataset Hdf5Sink::add_bare_scale(WrittenDimension const& dimension) const {
  auto const creation = creation_list();
  hsize_t const chunk = 1024;
  if (dimension.is_unlimited) h5::check(H5Pset_chunk(creation.get(), 1, &chunk), "H5Pset_chunk");
  h5::Type const type(h5::check(H5Tcopy(H5T_IEEE_F32BE), "H5Tcopy"));
  return create(dimension.name, type, {Indices{dimension.extent}, {dimension.is_unlimited}}, creation);
}

void Hdf5Sink::set_scales(WrittenTable const& table) {
  std::vector<h5::Dataset> bare(table.dimensions.size());
  std::vector<hid_t> scales;
  for (std::size_t i = 0; i < table.dimensions.size(); ++i) {
    auto const& name = table.dimensions[i].name;
    auto const found = table.variables.find(name);
    std::string label = name;
    if (found != table.variables.end() && found->second.is_coordinate(name)) {
      scales.push_back(targets_.find(name)->second.dataset.get());
    } else {
      std::array<char, 80> text{};
      std::snprintf(text.data(), text.size(), "This is a netCDF dimension but not a netCDF variable.%10lld",
                    static_cast<long long>(table.dimensions[i].extent));
      label = text.data();
      bare[i] = add_bare_scale(table.dimensions[i]);
      scales.push_back(bare[i].get());
    }
    h5::check(H5DSset_scale(scales.back(), label.c_str()), "H5DSset_scale");
    h5::write_attribute(scales.back(), Attribute{"_Netcdf4Dimid", ValueType::i32, std::vector<Index>{Index(i)}});
  }
  for (auto const& [name, variable] : table.variables) {
    auto const dataset = targets_.find(name)->second.dataset.get();
    std::vector<Index> ids;
    for (auto const& dimension_name : variable.dimensions) ids.push_back(Index(table.place_of(dimension_name)));
    if (!variable.is_coordinate(name))
      for (std::size_t axis = 0; axis < ids.size(); ++axis)
        h5::check(H5DSattach_scale(dataset, scales[std::size_t(ids[axis])], unsigned(axis)), "H5DSattach_scale");
    else if (ids.size() > 1)
      // Scales cannot be attached to a scale, so netCDF lists the dimensions' numbers.
      h5::write_attribute(dataset, Attribute{"_Netcdf4Coordinates", ValueType::i32, std::move(ids)});
  }
}

}  // namespace graticule::detail
