// SPDX-License-Identifier: BSD-3-Clause
#include "sink.hpp"

#include <graticule/field_io/detail/writes_store.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5_sink.hpp"
#include "zarr/store.hpp"
#include "zarr/store_writer.hpp"

#include <array>

namespace graticule {

namespace detail {

namespace {

constexpr SinkFormat hdf5{create_hdf5, append_hdf5};
constexpr SinkFormat store{zarr::create_store, zarr::append_store};

}  // namespace

SinkFormat const& format_of_new(std::filesystem::path const& path) { return writes_store(path) ? store : hdf5; }

SinkFormat const& format_of_existing(Comm const& comm, std::filesystem::path const& path) {
  std::array<Index, 1> is_store{0};
  if (comm.rank() == 0) is_store[0] = zarr::is_store(path) ? 1 : 0;
  comm.max(is_store);
  return is_store[0] != 0 ? store : hdf5;
}

std::size_t WrittenTable::place_of(std::string_view name) const {
  auto const found = std::find_if(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
  if (found == dimensions.end()) throw Error("MissingVariable", "there is no dimension '" + std::string(name) + "'");
  return std::size_t(found - dimensions.begin());
}

Shape WrittenTable::shape_of(std::vector<std::string> const& names) const {
  if (names.size() > std::size_t(max_ndim))
    throw Error("AxesMismatch",
                "variables have at most " + std::to_string(max_ndim) + " axes, got " + std::to_string(names.size()));
  Shape shape;
  for (auto const& name : names) {
    shape.extents.push_back(dimension(name).extent);
    shape.unlimited.push_back(dimension(name).is_unlimited);
  }
  return shape;
}

Indices grown_extents(WrittenVariable const& variable, std::string_view dimension, Index count) {
  auto extents = variable.extents;
  for (int axis = 0; axis < extents.size(); ++axis)
    if (variable.dimensions[std::size_t(axis)] == dimension) extents[axis] += count;
  return extents;
}

}  // namespace detail

bool writes_store(std::filesystem::path const& path) {
  auto const name = (path.has_filename() ? path : path.parent_path()).filename().string();
  if (name.ends_with(".zarr.zip"))
    throw Error(Fault::usage, "BadOption",
                path.string() + ": Zarr stores are written as folders; name one that ends in .zarr");
  return name.ends_with(".zarr");
}

}  // namespace graticule
