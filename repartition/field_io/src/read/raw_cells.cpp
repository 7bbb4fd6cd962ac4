// SPDX-License-Identifier: BSD-3-Clause
#include "raw_cells.hpp"

#include "hdf5/values.hpp"
#include "packed_chunks.hpp"

#include <algorithm>
#include <cstddef>

namespace graticule::detail {

namespace {

/// Cells beyond those in the file, in its byte order as the others.
void fill_unwritten(Variable const& variable, Index num_cells, void* target) {
  auto value = unwritten_value(variable);
  if (swaps_bytes(variable)) swap_bytes(value.data(), variable.value_bytes, 1);
  auto* at = static_cast<std::byte*>(target);
  for (Index i = 0; i < num_cells; ++i, at += value.size()) std::copy(value.begin(), value.end(), at);
}

}  // namespace

h5::File open_alone(std::filesystem::path const& path) {
  h5::Properties const access(h5::check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  // Some parallel file systems refuse locks; a reader does not need one.
  h5::check(H5Pset_file_locking(access.get(), false, true), "H5Pset_file_locking");
  return h5::File(h5::check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "H5Fopen"));
}

void read_raw(Variable const& variable, hid_t dataset, hid_t transfer, std::optional<Slab> const& slab, void* target,
              int num_threads) {
  bool const ends_early = slab && variable.is_short();
  if (ends_early) fill_unwritten(variable, Box::from_extents(slab->counts).num_cells(), target);
  if (is_packed(variable)) {
    if (slab) read_packed(variable, dataset, *slab, counts_within(*slab, variable.stored_extents), target, num_threads);
    return;
  }
  auto const selection =
      ends_early ? select(dataset, *slab, counts_within(*slab, variable.stored_extents)) : select(dataset, slab);
  h5::Type const type(h5::check(H5Dget_type(dataset), "H5Dget_type"));
  std::byte nothing{};
  h5::check(
      H5Dread(dataset, type.get(), selection.memory.get(), selection.file.get(), transfer, slab ? target : &nothing),
      "H5Dread");
}

}  // namespace graticule::detail
