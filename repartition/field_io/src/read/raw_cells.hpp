// SPDX-License-Identifier: BSD-3-Clause
// Cells of a dataset in the file's own type and byte order.
#pragma once

#include <graticule/field_io/contents.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/hyperslab.hpp"

#include <filesystem>
#include <optional>

namespace graticule::detail {

/// A file that this process opens by itself, without MPI. @throws `Hdf5Error`
[[nodiscard]] h5::File open_alone(std::filesystem::path const& path);

/// Reads the slab's cells, or takes part in a collective call without any: in the file's own type and byte order,
/// because a conversion inside HDF5 would turn collective calls into single ones. Cells beyond those in the file are
/// `unwritten_value`s. @param num_threads that unpack chunks @throws `Hdf5Error`
void read_raw(Variable const& variable, hid_t dataset, hid_t transfer, std::optional<Slab> const& slab, void* target,
              int num_threads);

}  // namespace graticule::detail
