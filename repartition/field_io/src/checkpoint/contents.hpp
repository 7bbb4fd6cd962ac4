// SPDX-License-Identifier: BSD-3-Clause
// Metadata of a checkpoint file, written by the writer and checked by the reader.
//
// Fields are datasets under `fields/`, values datasets under `values/`. Each carries `graticule_dtype`, fields with
// grid axes `graticule_grid_axes`, all `graticule_checksum` of their cells. The root carries the version of this
// format, step, number, and `graticule_contents`: a hash of all of that, of extents and of users' attributes.
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include "hdf5/handle.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

inline constexpr Index checkpoint_version = 1;

/// Attributes whose names begin so are the format's own.
inline constexpr std::string_view own_prefix = "graticule_";

struct CheckpointContents {
  Index step = 0;
  Index number = 0;
  std::vector<CheckpointField> fields;
  std::vector<std::uint64_t> checksums;                         ///< of each field
  std::vector<Index> offsets;                                   ///< of each field's first cell, in bytes
  std::vector<std::pair<std::string, CheckpointValue>> values;  ///< in order of names
};

/// A value as it lies in the file: bytes of `dtype`, as one number (`ndim` 0), a list (1) or a text.
struct RawValue {
  DType dtype = DType::u8;
  bool is_text = false;
  int ndim = 0;
  std::vector<std::byte> bytes;

  [[nodiscard]] Index count() const noexcept { return Index(bytes.size()) / size_of(dtype); }
  [[nodiscard]] std::uint64_t checksum() const;
};

[[nodiscard]] RawValue raw_value(CheckpointValue const& value);

/// HDF5's type of a field's elements, in the file (little-endian) or in memory. h5py reads all of them; `bf16`, which
/// it does not know, as the bits.
enum class Place : std::uint8_t { file, memory };
[[nodiscard]] h5::Type element_type(DType dtype, Place place);
/// Type of a text's `size` bytes. @pre `size > 0`
[[nodiscard]] h5::Type text_type(std::size_t size);

/// Hash of what the file says of itself. Cells are not read.
/// @throws `BrokenFile` for what this format does not have
[[nodiscard]] std::uint64_t contents_hash(hid_t file);

/// Reads and checks the metadata and the values in this process, which a damaged file may crash. Calls `reads` with the
/// next item, such as "field z".
[[nodiscard]] CheckpointContents list_checkpoint(std::filesystem::path const& path,
                                                 std::function<void(std::string const&)> const& reads);

/// The same by a process that may crash. Serial.
/// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input)
[[nodiscard]] CheckpointContents read_checkpoint_contents(std::filesystem::path const& path);

[[nodiscard]] std::string to_bytes(CheckpointContents const& contents);
/// @pre `bytes` come from `to_bytes` of the same program
[[nodiscard]] CheckpointContents checkpoint_contents_from_bytes(std::string_view bytes);

}  // namespace graticule::detail
