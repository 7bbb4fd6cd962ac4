// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "gradient_buckets.hpp"

#include <map>
#include <string>
#include <utility>

namespace graticule::training::detail {

namespace {

struct Filling {
  std::vector<std::size_t> members;
  Index bytes = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(std::span<BucketItem const> items,
                                                     std::span<std::size_t const> order, BucketSizes sizes) {
  if (sizes.first_bytes < 1 || sizes.bytes < 1)
    throw Error("BadOption", "buckets need at least 1 byte, got " + std::to_string(sizes.first_bytes) +
                                 " for the first and " + std::to_string(sizes.bytes) + " for others");
  std::vector<std::vector<std::size_t>> full;
  std::map<std::uint64_t, Filling> filling;
  auto const close = [&](Filling& bucket) { full.push_back(std::exchange(bucket, {}).members); };
  std::vector<std::uint64_t> kinds;  // by the time of their last item
  for (auto const i : order) {
    auto const& item = items[i];
    auto& bucket = filling[item.kind];
    auto const cap = [&] { return full.empty() ? sizes.first_bytes : sizes.bytes; };
    if (!bucket.members.empty() && bucket.bytes + item.bytes > cap()) close(bucket);
    bucket.members.push_back(i);
    bucket.bytes += item.bytes;
    if (bucket.bytes >= cap()) close(bucket);
    std::erase(kinds, item.kind);
    kinds.push_back(item.kind);
  }
  for (auto const kind : kinds)
    if (auto& bucket = filling[kind]; !bucket.members.empty()) close(bucket);
  return full;
}

}  // namespace graticule::training::detail
