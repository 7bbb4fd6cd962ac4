// SPDX-License-Identifier: BSD-3-Clause
// Dimensions and variables as netCDF-4 lays them out.
#include "types.hpp"
#include "writer_state.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <cstdio>

namespace graticule {

std::array<hsize_t, max_ndim> FieldWriter::State::sizes(Indices const& extents) noexcept {
  std::array<hsize_t, max_ndim> result{};
  std::copy(extents.begin(), extents.end(), result.begin());
  return result;
}

std::size_t FieldWriter::State::place_of(std::string_view name) const {
  auto const found = std::find_if(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
  if (found == dimensions.end()) throw Error("MissingDimension", "there is no dimension '" + std::string(name) + "'");
  return std::size_t(found - dimensions.begin());
}

void FieldWriter::State::require_name(std::string_view name) {
  if (name.empty() || name.find('/') != std::string_view::npos)
    throw Error("BadName", "'" + std::string(name) + "' cannot be the name of a variable");
}

void FieldWriter::State::require_free(std::string_view name) const {
  require_name(name);
  if (has_dimension(name) || targets.contains(name))
    throw Error("NameTaken", "there is already a dimension or variable '" + std::string(name) + "'");
}

detail::Shape FieldWriter::State::shape_of(std::vector<std::string> const& names) const {
  if (names.size() > std::size_t(max_ndim))
    throw Error("TooManyAxes", std::to_string(names.size()) + " axes, at most " + std::to_string(max_ndim));
  detail::Shape shape;
  for (auto const& name : names) {
    shape.extents.push_back(dimension(name).extent);
    shape.unlimited.push_back(dimension(name).is_unlimited);
  }
  return shape;
}

h5::Dataset FieldWriter::State::create(std::string const& name, h5::Type const& type, detail::Shape const& shape,
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
  return h5::Dataset(
      h5::check(H5Dcreate2(file->id(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                "H5Dcreate2"));
}

std::string FieldWriter::State::stored_name(VariableSpec const& spec) const {
  bool const clashes = has_dimension(spec.name) && (spec.dimensions.empty() || spec.dimensions.front() != spec.name);
  return (clashes ? "_nc4_non_coord_" : "") + spec.name;
}

void FieldWriter::State::add_variable(VariableSpec const& spec) {
  auto const shape = shape_of(spec.dimensions);
  auto const creation = detail::creation_list();
  Target target;
  target.dimensions = spec.dimensions;
  target.extents = shape.extents;
  target.plan = detail::packing_plan_of(spec);
  target.chunk = detail::chunk_of(spec, shape);
  target.memory_type = detail::memory_type(spec.type, spec.text_bytes);
  target.value_bytes = Index(H5Tget_size(target.memory_type.get()));
  detail::set_storage(creation, spec, target.chunk);
  detail::set_fill(creation, spec);
  auto const type = detail::file_type(spec.type, spec.text_bytes);
  if (writes()) {
    target.dataset = create(stored_name(spec), type, shape, creation);
    reserve(target, target.extents);
    detail::write_attributes(target.dataset.get(), spec);
  }
  targets.emplace(spec.name, std::move(target));
}

bool FieldWriter::State::is_coordinate(std::string const& name, Target const& target) const {
  return !target.dimensions.empty() && target.dimensions.front() == name;
}

h5::Dataset FieldWriter::State::add_bare_scale(Dimension const& dimension) const {
  auto const creation = detail::creation_list();
  hsize_t const chunk = 1024;
  if (dimension.is_unlimited) h5::check(H5Pset_chunk(creation.get(), 1, &chunk), "H5Pset_chunk");
  h5::Type const type(h5::check(H5Tcopy(H5T_IEEE_F32BE), "H5Tcopy"));
  return create(dimension.name, type, {Indices{dimension.extent}, {dimension.is_unlimited}}, creation);
}

void FieldWriter::State::set_scales() {
  std::vector<h5::Dataset> bare(dimensions.size());
  std::vector<hid_t> scales;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    auto const& name = dimensions[i].name;
    auto const found = targets.find(name);
    std::string label = name;
    if (found != targets.end() && is_coordinate(name, found->second)) {
      scales.push_back(found->second.dataset.get());
    } else {
      std::array<char, 80> text{};
      std::snprintf(text.data(), text.size(), "This is a netCDF dimension but not a netCDF variable.%10lld",
                    static_cast<long long>(dimensions[i].extent));
      label = text.data();
      bare[i] = add_bare_scale(dimensions[i]);
      scales.push_back(bare[i].get());
    }
    h5::check(H5DSset_scale(scales.back(), label.c_str()), "H5DSset_scale");
    h5::write_attribute(scales.back(), Attribute{"_Netcdf4Dimid", ValueType::i32, std::vector<Index>{Index(i)}});
  }
  for (auto const& [name, target] : targets) {
    std::vector<Index> ids;
    for (auto const& dimension_name : target.dimensions) ids.push_back(Index(place_of(dimension_name)));
    if (!is_coordinate(name, target))
      for (std::size_t axis = 0; axis < ids.size(); ++axis)
        h5::check(H5DSattach_scale(target.dataset.get(), scales[std::size_t(ids[axis])], unsigned(axis)),
                  "H5DSattach_scale");
    else if (ids.size() > 1)
      // Scales cannot be attached to a scale, so netCDF lists the dimensions' numbers.
      h5::write_attribute(target.dataset.get(), Attribute{"_Netcdf4Coordinates", ValueType::i32, std::move(ids)});
  }
}

void FieldWriter::State::reserve(Target const& target, Indices const& extents) {
  Index bytes = target.value_bytes;
  Index num_chunks = 1;
  for (int axis = 0; axis < extents.size(); ++axis) {
    Index const chunk = axis < target.chunk.size() ? target.chunk[axis] : std::max<Index>(extents[axis], 1);
    Index const count = (extents[axis] + chunk - 1) / chunk;
    num_chunks *= std::max<Index>(count, 1);
    bytes *= std::max<Index>(count * chunk, 1);
  }
  file->reserve(bytes + num_chunks * 256 + (Index(1) << 20));
}

}  // namespace graticule
