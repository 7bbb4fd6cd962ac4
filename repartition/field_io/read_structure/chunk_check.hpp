// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include "hdf5/undo_file.hpp"

#include <hdf5.h>

#include <cstdint>
#include <vector>

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
  void operator()(hid_t dataset, Variable const& variable);

  /// Where the cells lie that stay as they are when records are appended: those of whole chunks, and of variables
  /// without chunks. Short ones are left out.
  [[nodiscard]] std::vector<ByteRange> take_unchanged();

 private:
  void check_chunks(hid_t dataset, Variable const& variable);
  void keep(std::uint64_t address, std::uint64_t bytes);

  std::uintmax_t file_bytes_;
  std::vector<ByteRange> unchanged_;
};

}  // namespace graticule::detail
