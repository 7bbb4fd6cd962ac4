// SPDX-License-Identifier: BSD-3-Clause
// Dimensions and variables as netCDF-4 lays them out.
#include <graticule/field_io/detail/value_types.hpp>

#include "hdf5/disk_room.hpp"
#include "hdf5/types.hpp"
#include "state.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <cstdio>

namespace graticule {

std::size_t FieldWriter::State::place_of(std::string_view name) const {
  auto const found = std::find_if(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
  if (found == dimensions.end()) throw Error("MissingVariable", "there is no dimension '" + std::string(name) + "'");
  return std::size_t(found - dimensions.begin());
}

void FieldWriter::State::require_name(std::string_view name) {
  if (name.empty() || name.find('/') != std::string_view::npos)
    throw Error("BadName", "'" + std::string(name) + "' cannot be the name of a variable");
}

void FieldWriter::State::require_free(std::string_view name) const {
  require_name(name);
  if (has_dimension(name) || targets.contains(name))
    throw Error("BadName", "there is already a dimension or variable '" + std::string(name) + "'");
}

detail::Shape FieldWriter::State::shape_of(std::vector<std::string> const& names) const {
  if (names.size() > std::size_t(max_ndim))
    throw Error("AxesMismatch", std::to_string(names.size()) + " axes, at most " + std::to_string(max_ndim));
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
  detail::FileWatch const watch(comm, path, "writing");
  return h5::Dataset(
      h5::check(H5Dcreate2(file->id(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                "H5Dcreate2"));
}

std::string FieldWriter::State::stored_name(VariableSpec const& spec) const {
  bool const clashes = has_dimension(spec.name) && (spec.dimensions.empty() || spec.dimensions.front() != spec.name);
  return (clashes ? "_nc4_non_coord_" : "") + spec.name;
}

void FieldWriter::State::add_variable(VariableSpec const& spec) {
  Target target;
  detail::Shape shape;
  h5::Properties creation;
  if (store) {
    run_agreed(comm, [&] {
      shape = shape_of(spec.dimensions);
      target.plan = detail::packing_plan_of(spec);
      target.array = store->add(spec, shape);
    });
    target.dimensions = spec.dimensions;
    target.extents = shape.extents;
    target.chunk = store->chunk(target.array);
    target.value_bytes = spec.type == ValueType::text ? spec.text_bytes : size_in_bytes(spec.type);
    targets.emplace(spec.name, std::move(target));
    return;
  }
  run_agreed(comm, [&] {
    if (spec.shard.size() > 0)
      throw Error("BadOption", "variable " + spec.name + ": shards are for Zarr stores; name one that ends in .zarr");
    shape = shape_of(spec.dimensions);
    creation = detail::creation_list();
    target.dimensions = spec.dimensions;
    target.extents = shape.extents;
    target.plan = detail::packing_plan_of(spec);
    target.chunk = detail::chunk_of(spec, shape);
    target.memory_type = detail::memory_type(spec.type, spec.text_bytes);
    target.value_bytes = Index(H5Tget_size(target.memory_type.get()));
    detail::set_storage(creation, spec, target.chunk);
    detail::set_fill(creation, spec);
    target.has_filters = H5Pget_nfilters(creation.get()) > 0;
  });
  auto room = room_for(target, target.extents);
  reserve(room += room_for(spec.attributes));
  run_agreed(comm, [&] {
    if (!writes()) return;
    target.dataset = create(stored_name(spec), detail::file_type(spec.type, spec.text_bytes), shape, creation);
    detail::write_attributes(target.dataset.get(), spec);
  });
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

FieldWriter::State::Room& FieldWriter::State::Room::operator+=(Room const& more) {
  if (__builtin_add_overflow(length, more.length, &length)) throw Error("OutOfRange", "a file of more than 2^63 bytes");
  on_disk += more.on_disk;
  return *this;
}

FieldWriter::State::Room FieldWriter::State::room_for(Target const& target, Indices const& extents) {
  Index bytes = target.value_bytes;
  Index num_chunks = 1;
  bool overflows = false;
  for (int axis = 0; axis < extents.size(); ++axis) {
    Index const chunk = axis < target.chunk.size() ? target.chunk[axis] : std::max<Index>(extents[axis], 1);
    Index const count = extents[axis] / chunk + (extents[axis] % chunk != 0 ? 1 : 0);
    overflows = overflows || __builtin_mul_overflow(bytes, std::max<Index>(count * chunk, 1), &bytes);
    overflows = overflows || __builtin_mul_overflow(num_chunks, std::max<Index>(count, 1), &num_chunks);
  }
  constexpr Index most = Index(1) << 62U;
  constexpr Index header_bytes = Index(8) << 10U;
  constexpr Index chunk_note_bytes = 256;
  if (overflows || bytes > most / 2 || num_chunks > most / 2 / chunk_note_bytes)
    throw Error("OutOfRange", "a variable of more than 2^62 bytes");
  Index const notes = num_chunks * chunk_note_bytes + header_bytes;
  return {bytes + notes + (Index(1) << 20), (target.has_filters ? 0 : bytes) + notes};
}

FieldWriter::State::Room FieldWriter::State::room_for(std::vector<Attribute> const& attributes) {
  Index bytes = 0;
  for (auto const& attribute : attributes)
    bytes += Index(attribute.name.size() + attribute.text().size() + 8 * attribute.numbers().size()) + 256;
  return {bytes, bytes};
}

void FieldWriter::State::reserve(Room const& room) {
  run_agreed(comm, [&] {
    if (disk.get() < 0) return;
    if (auto const why = detail::lack_of_room(disk.get(), taken, reserved - taken + room.on_disk); !why.empty())
      detail::fail_output(path, why);
  });
  reserved += room.on_disk;
  if (writes()) file->reserve(room.length);
}

void FieldWriter::State::take_room() {
  if (taken == reserved) return;
  run_agreed(comm, [&] {
    if (disk.get() < 0) return;
    if (auto const why = detail::reserve_on_disk(disk.get(), taken, reserved - taken); !why.empty())
      detail::fail_output(path, why);
  });
  taken = reserved;
}

void FieldWriter::State::on_disk(std::function<void()> const& action) const {
  if (!writes()) return;
  try {
    detail::FileWatch const watch(comm, path, "writing");
    action();
  } catch (Error const& error) {
    if (error.rule() != "Hdf5Error" && error.rule() != "MpiError") throw;
    detail::fail_output(path, detail::disk_failure(error.text(), output ? output->temporary() : path));
  }
}

}  // namespace graticule
