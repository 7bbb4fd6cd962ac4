// SPDX-License-Identifier: BSD-3-Clause
#include "shard_index.hpp"

#include <graticule/partition/box.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/chunk_cells.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace graticule::detail::zarr {

namespace {

constexpr Index entry_bytes = 16;  ///< offset and number of bytes

std::uint64_t word_of(Bytes const& bytes, std::size_t place, bool is_big_endian) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + place * sizeof word, sizeof word);
  return is_big_endian == (std::endian::native == std::endian::big) ? word : __builtin_bswap64(word);
}

}  // namespace

ShardIndex::ShardIndex(Array const& array, Item const& shard)
    : counts_(array.chunk), shard_bytes_(shard.bytes), is_big_endian_(array.is_index_big_endian) {
  for (int axis = 0; axis < counts_.size(); ++axis) counts_[axis] /= array.inner[axis];
  auto const plain = Box::from_extents(counts_).num_cells() * entry_bytes;
  auto const bytes = encoded_bytes(array.index_codecs, plain);
  if (bytes > shard.bytes)
    throw Error(
        Fault::input, "BrokenFile",
        "a shard of " + std::to_string(shard.bytes) + " bytes cannot hold its index of " + std::to_string(bytes));
  Bytes stored{std::size_t(bytes)};
  shard.read(stored.data(), array.index_at_start ? 0 : shard.bytes - bytes, bytes);
  plain_ = decoded(array.index_codecs, std::move(stored), plain);
}

std::optional<StoredRange> ShardIndex::find(Indices const& number) const {
  auto const entry = std::size_t(place_of(number, counts_));
  auto const offset = word_of(plain_, 2 * entry, is_big_endian_);
  auto const bytes = word_of(plain_, 2 * entry + 1, is_big_endian_);
  if (offset == absent && bytes == absent) return {};
  if (offset > std::uint64_t(shard_bytes_) || bytes > std::uint64_t(shard_bytes_) - offset)
    throw Error(Fault::input, "BrokenFile", "the index of a shard names bytes beyond its end");
  return StoredRange{Index(offset), Index(bytes)};
}

}  // namespace graticule::detail::zarr
