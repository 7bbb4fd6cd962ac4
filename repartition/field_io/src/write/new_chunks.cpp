// SPDX-License-Identifier: BSD-3-Clause
#include "new_chunks.hpp"

#include <graticule/partition/box.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/process_grid.hpp>

#include "hdf5/hyperslab.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graticule::detail {

namespace {

/// As it lies in the file: what the filters made of it, and those that were left out.
struct StoredChunk {
  std::vector<std::byte> bytes;
  std::uint32_t filter_mask = 0;
};

h5::File file_in_memory() {
  h5::Properties const access(h5::check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  h5::check(H5Pset_fapl_core(access.get(), std::size_t(1) << 20, false), "H5Pset_fapl_core");
  return h5::File(h5::check(H5Fcreate("graticule-chunk", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "H5Fcreate"));
}

std::vector<std::byte> filled(hid_t creation, hid_t type, Index num_cells) {
  auto const size = H5Tget_size(type);
  std::vector<std::byte> value(size, std::byte{});
  H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
  h5::check(H5Pfill_value_defined(creation, &status), "H5Pfill_value_defined");
  if (status != H5D_FILL_VALUE_UNDEFINED)
    h5::check(H5Pget_fill_value(creation, type, value.data()), "H5Pget_fill_value");
  std::vector<std::byte> cells;
  cells.reserve(std::size_t(num_cells) * size);
  for (Index i = 0; i < num_cells; ++i) cells.insert(cells.end(), value.begin(), value.end());
  return cells;
}

/// A chunk of fill values. HDF5 runs its filters on the way to a file only, so one in memory serves.
StoredChunk chunk_of_fill(hid_t dataset, hid_t creation, Indices const& chunk) {
  h5::Type const type(h5::check(H5Dget_type(dataset), "H5Dget_type"));
  auto const cells = filled(creation, type.get(), Box::from_extents(chunk).num_cells());
  if (H5Pget_nfilters(creation) == 0) return {cells, 0};
  auto file = file_in_memory();
  StoredChunk stored;
  {
    h5::Space const space(
        h5::check(H5Screate_simple(chunk.size(), sizes_of(chunk).data(), nullptr), "H5Screate_simple"));
    h5::Dataset const copy(h5::check(
        H5Dcreate2(file.get(), "chunk", type.get(), space.get(), H5P_DEFAULT, creation, H5P_DEFAULT), "H5Dcreate2"));
    h5::check(H5Dwrite(copy.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()), "H5Dwrite");
    h5::check(H5Dflush(copy.get()), "H5Dflush");
    Sizes const origin{};
    hsize_t size = 0;
    h5::check(H5Dget_chunk_storage_size(copy.get(), origin.data(), &size), "H5Dget_chunk_storage_size");
    stored.bytes.resize(std::size_t(size));
    h5::check(H5Dread_chunk(copy.get(), H5P_DEFAULT, origin.data(), &stored.filter_mask, stored.bytes.data()),
              "H5Dread_chunk");
  }
  h5::check(file.close(), "H5Fclose");
  return stored;
}

Indices num_chunks(Indices extents, Indices const& chunk) {
  for (int axis = 0; axis < extents.size(); ++axis) extents[axis] = (extents[axis] + chunk[axis] - 1) / chunk[axis];
  return extents;
}

void reopen(h5::Dataset& dataset) {
  h5::File const file(h5::check(H5Iget_file_id(dataset.get()), "H5Iget_file_id"));
  H5O_info_t info{};
  h5::check(H5Oget_info2(dataset.get(), &info, H5O_INFO_BASIC), "H5Oget_info2");
  h5::check(dataset.close(), "H5Dclose");
  dataset = h5::Dataset(h5::check(H5Oopen_by_addr(file.get(), info.addr), "H5Oopen_by_addr"));
}

}  // namespace

void allocate_new_chunks(h5::Dataset& dataset, Indices const& before, Indices const& after) {
  h5::Properties const creation(h5::check(H5Dget_create_plist(dataset.get()), "H5Dget_create_plist"));
  H5D_alloc_time_t time = H5D_ALLOC_TIME_EARLY;
  h5::check(H5Pget_alloc_time(creation.get(), &time), "H5Pget_alloc_time");
  if (time != H5D_ALLOC_TIME_INCR) return;
  Sizes sizes{};
  int const ndim = h5::check(H5Pget_chunk(creation.get(), max_ndim, sizes.data()), "H5Pget_chunk");
  Indices chunk;
  for (int axis = 0; axis < ndim; ++axis) chunk.push_back(Index(sizes[std::size_t(axis)]));

  auto const all = Box::from_extents(num_chunks(after, chunk));
  auto const old = Box::from_extents(num_chunks(before, chunk));
  if (all.empty() || old.contains(all)) return;
  auto const stored = chunk_of_fill(dataset.get(), creation.get(), chunk);
  for (Index number = 0; number < all.num_cells(); ++number) {
    auto place = coords_of(number, all.extents());
    if (old.contains(place)) continue;
    for (int axis = 0; axis < ndim; ++axis) place[axis] *= chunk[axis];
    h5::check(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, stored.filter_mask, sizes_of(place).data(),
                             stored.bytes.size(), stored.bytes.data()),
              "H5Dwrite_chunk");
  }
  reopen(dataset);
}

}  // namespace graticule::detail
