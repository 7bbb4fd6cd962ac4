// SPDX-License-Identifier: BSD-3-Clause
// From the bytes of a chunk in a store to its values.
#pragma once

#include "array.hpp"
#include "hdf5/packed_bytes.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace graticule::detail::zarr {

/// Bytes of `count` plain bytes after the codecs that keep sizes; for indexes of shards.
[[nodiscard]] Index encoded_bytes(std::vector<Codec> const& codecs, Index count);

/// Undoes the codecs. @return exactly `count` bytes @throws `BrokenFile` (input) for damaged ones, `UnreadableVariable`
/// (input) for a codec that this program was built without
[[nodiscard]] Bytes decoded(std::vector<Codec> const& codecs, Bytes stored, Index count);

/// The same of a chunk whose bytes no metadata tell, as strings of variable length have it. @param most that are taken
[[nodiscard]] Bytes decoded_up_to(std::vector<Codec> const& codecs, Bytes stored, Index most);

/// What `decoded` undoes. @param value_bytes of one value @throws `BadOption` for a codec that this program was built
/// without, and for a level that it does not have
[[nodiscard]] Bytes encoded(std::vector<Codec> const& codecs, Bytes plain, Index value_bytes);

/// The codecs of version 3 for values of so many bytes, with `bytes` first: of `none`, `gzip:5`, `zstd:3`,
/// `blosc-zstd:3` (or lz4, lz4hc, zlib, blosclz; with shuffle), each with or without a level. Nothing: the first of
/// blosc-zstd, zstd and gzip that this program was built with.
/// @throws `BadOption` (usage)
[[nodiscard]] Json codecs_of(std::string const& choice, Index value_bytes);

/// Whether this program was built with blosc.
[[nodiscard]] bool has_blosc() noexcept;

/// Whether single values can be taken out of a chunk.
[[nodiscard]] bool has_parts(Array const& array);
/// A run of bytes of a stored chunk.
struct StoredRange {
  Index first = 0;
  Index count = 0;
};
/// Bytes before those of a block, which say where blocks lie: at most `bytes`.
[[nodiscard]] Index table_bytes(std::span<std::byte const> header, Index bytes);
/// Where the blocks of a chunk of `bytes` lie that hold the plain bytes `[first, first + count)`: besides the table,
/// `decoded_part` looks at no others. Nothing where the table is not one of blosc: all have to be read then.
[[nodiscard]] std::vector<StoredRange> needed_ranges(std::span<std::byte const> table, Index bytes, Index first,
                                                     Index count);
constexpr Index blosc_header_bytes = 16;

/// Values `[first, first + count)` of a chunk of `num_values`, as they are stored. @pre `has_parts(array)`
/// @throws as `decoded`
[[nodiscard]] Bytes decoded_part(Array const& array, Bytes const& stored, Index num_values, Index first, Index count);

/// Values of a decoded chunk as they are read: in this machine's byte order, axes in the array's order, unscaled.
/// @throws `UnreadableVariable` (input) for times between two seconds
[[nodiscard]] Bytes values_of(Array const& array, Bytes chunk);

/// CRC-32C of RFC 3720.
[[nodiscard]] std::uint32_t crc32c(std::span<std::byte const> bytes) noexcept;

}  // namespace graticule::detail::zarr
