// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace graticule::training {

/// How large the messages are in which gradients travel.
struct BucketSizes {
  Index first_bytes = Index(1) << 20;  ///< of the first one, which should leave early
  Index bytes = Index(25) << 20;       ///< of the others; a larger gradient travels alone
};

/// One gradient, as far as buckets are concerned.
struct BucketItem {
  Index bytes = 0;
  std::uint64_t kind = 0;  ///< only gradients of one kind share a bucket
};

/// Fills buckets with items in `order`, and lists them in the order in which they become full.
///
/// Items of one kind are taken in `order` as long as they fit; the first bucket of all is the small one.
/// Example: items of 3, 3 and 3 bytes of one kind, order {2, 1, 0}, sizes {3, 6}: buckets {2}, {1, 0}.
/// @param order places in `items`, each once @throws `BucketSizes` unless both sizes are positive
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(std::span<BucketItem const> items,
                                                                   std::span<std::size_t const> order,
                                                                   BucketSizes sizes);

}  // namespace graticule::training
