// SPDX-License-Identifier: BSD-3-Clause
// Hand-written parallel output and input of a field; the candidates that FieldWriter and FieldFile are compared with.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <string>

namespace graticule::bench {

/// A field [channel, row, column] in row-major order, of which each rank holds the cells of a box, dense.
struct FileShape {
  Indices extents;  ///< channels, rows, columns
  Box box;          ///< of this rank
  Index element_bytes;
};

/// A plain file: each rank at its own offsets, row by row or, where rows are whole, all of a channel at once; on the
/// disk when it returns. Collective. @throws `OutputError`
void write_plain(Comm const& comm, std::filesystem::path const& path, FileShape const& shape, void const* data);
void read_plain(std::filesystem::path const& path, FileShape const& shape, void* data);

/// One contiguous dataset by one collective call of HDF5; on the disk when it returns. Collective. @throws
/// `OutputError`
void write_hdf5(Comm const& comm, std::filesystem::path const& path, FileShape const& shape, void const* data);
void read_hdf5(Comm const& comm, std::filesystem::path const& path, FileShape const& shape, void* data);

}  // namespace graticule::bench
