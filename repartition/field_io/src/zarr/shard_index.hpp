// SPDX-License-Identifier: BSD-3-Clause
// Where the inner chunks of a shard lie.
#pragma once

#include "array.hpp"
#include "codecs.hpp"
#include "store.hpp"

#include <optional>

namespace graticule::detail::zarr {

class ShardIndex {
 public:
  /// Reads it from the start or the end of the shard. @throws `BrokenFile` (input)
  ShardIndex(Array const& array, Item const& shard);

  /// Inner chunks along each axis.
  [[nodiscard]] Indices const& counts() const noexcept { return counts_; }
  /// The bytes of an inner chunk within the shard; nothing for one that the shard does not hold.
  /// @param number of the chunk along each axis, from the shard's first @throws `BrokenFile` (input)
  [[nodiscard]] std::optional<StoredRange> find(Indices const& number) const;

 private:
  Indices counts_;
  Bytes plain_;
  Index shard_bytes_ = 0;
  bool is_big_endian_ = false;
};

}  // namespace graticule::detail::zarr
