// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include <hdf5.h>

#include <cstdint>

namespace graticule::detail {

/// Walks the index of a dataset's chunks, and checks that chunks lie in the file and are as long as they may be: HDF5
/// 1.10.8 looks neither at the length of a chunk that it reads, nor, where all ranks read together, at its place.
///
/// Takes the standard output over, on which HDF5 lists chunks.
class ChunkCheck {
 public:
  explicit ChunkCheck(std::uintmax_t file_bytes);
  ChunkCheck(ChunkCheck const&) = delete;
  ChunkCheck& operator=(ChunkCheck const&) = delete;

  /// @throws `Hdf5Error`, `BrokenFile`
  void operator()(hid_t dataset, Variable const& variable) const;

 private:
  std::uintmax_t file_bytes_;
};

}  // namespace graticule::detail
