// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/training/data_parallel/buckets.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace graticule::training::detail {

/// Size and kind of one gradient, for the assignment to buckets.
struct BucketItem {
  Index bytes = 0;
  std::uint64_t kind = 0;  ///< only gradients of equal kind share a bucket
};

/// Fills buckets with items in `order`, and returns them in the order in which they become full.
///
/// Items of one kind are added in `order` as long as they fit; the very first bucket is the small one.
/// Example: items of 3, 3 and 3 bytes of one kind, order {2, 1, 0}, sizes {3, 6}: buckets {2}, {1, 0}.
/// @param items all gradients @param sizes in bytes @param order positions in `items`, each once @throws `BadOption`
///        unless both sizes are positive
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(std::span<BucketItem const> items,
                                                                   std::span<std::size_t const> order,
                                                                   BucketSizes sizes);

}  // namespace graticule::training::detail
