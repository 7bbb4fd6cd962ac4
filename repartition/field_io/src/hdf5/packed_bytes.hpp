// SPDX-License-Identifier: BSD-3-Clause
// Bytes of chunks, and the filters that HDF5 and Zarr have both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace graticule::detail {

/// Memory for a chunk, not set to zero first: that takes a tenth of the time of inflating.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::size_t size) : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] std::byte const* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte const> span() const noexcept { return {data_.get(), size_}; }
  void shorten(std::size_t size) noexcept { size_ = std::min(size, size_); }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

enum class Wrapping : std::uint8_t { zlib, gzip };

struct Inflated {
  bool is_whole = false;    ///< the data ended well
  std::size_t written = 0;  ///< bytes
};

/// Inflates into `bytes`, which it need not fill: by libdeflate, which is twice as fast, or by zlib, which also knows
/// several members of gzip after each other.
[[nodiscard]] Inflated inflate_into(Wrapping wrapping, Bytes const& packed, Bytes& bytes);

/// What `inflate_into` inflates, the same bytes on every machine. @param level 0 to 9
[[nodiscard]] Bytes deflated(Wrapping wrapping, Bytes const& plain, int level);

/// CRC-32 of zip and gzip.
[[nodiscard]] std::uint32_t zip_checksum(std::span<std::byte const> bytes) noexcept;

/// The filter `shuffle` for values of so many bytes.
[[nodiscard]] Bytes shuffled(Bytes const& bytes, std::size_t value_bytes);
/// Undoes the filter `shuffle` for values of so many bytes.
[[nodiscard]] Bytes unshuffled(Bytes bytes, std::size_t value_bytes);

}  // namespace graticule::detail
