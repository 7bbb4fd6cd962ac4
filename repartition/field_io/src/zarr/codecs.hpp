// SPDX-License-Identifier: BSD-3-Clause
// From the bytes of a chunk in a store to its values.
#pragma once

#include "array.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace graticule::detail::zarr {

/// Memory for a chunk, not set to zero first.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::size_t size) : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] std::byte const* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte const> span() const noexcept { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

/// Bytes of `count` plain bytes after the codecs that keep sizes; for indexes of shards.
[[nodiscard]] Index encoded_bytes(std::vector<Codec> const& codecs, Index count);

/// Undoes the codecs. @return exactly `count` bytes @throws `BrokenFile` (input) for damaged ones, `UnreadableVariable`
/// (input) for a codec that this program was built without
[[nodiscard]] Bytes decoded(std::vector<Codec> const& codecs, Bytes stored, Index count);

/// Whether single values can be taken out of a chunk.
[[nodiscard]] bool has_parts(Array const& array);
/// Values `[first, first + count)` of a chunk of `num_values`, as they are stored. @pre `has_parts(array)`
/// @throws as `decoded`
[[nodiscard]] Bytes decoded_part(Array const& array, Bytes const& stored, Index num_values, Index first, Index count);

/// Values of a decoded chunk as they are read: in this machine's byte order, axes in the array's order, unscaled.
/// @throws `UnreadableVariable` (input) for times between two seconds
[[nodiscard]] Bytes values_of(Array const& array, Bytes chunk);

/// CRC-32C of RFC 3720.
[[nodiscard]] std::uint32_t crc32c(std::span<std::byte const> bytes) noexcept;

}  // namespace graticule::detail::zarr
