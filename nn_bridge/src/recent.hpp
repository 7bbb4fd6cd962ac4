// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>

namespace graticule::nn::detail {

/// The few most recently used set-ups of a layer, by structure, so that alternating structures do not rebuild them.
/// Used in the same order on all ranks, it hits and misses on all ranks alike.
template <class T>
class Recent {
 public:
  static constexpr std::size_t capacity = 8;

  [[nodiscard]] std::shared_ptr<T const> get(std::uint64_t key, std::function<std::shared_ptr<T const>()> const& make) {
    ++num_requests_;
    auto found = std::find_if(entries_.begin(), entries_.end(), [&](auto const& entry) { return entry.first == key; });
    if (found == entries_.end()) {
      entries_.emplace_front(key, make());
      if (entries_.size() > capacity) entries_.pop_back();
    } else {
      entries_.splice(entries_.begin(), entries_, found);
    }
    return entries_.front().second;
  }
  void clear() noexcept { entries_.clear(); }
  [[nodiscard]] int num_requests() const noexcept { return num_requests_; }

 private:
  std::list<std::pair<std::uint64_t, std::shared_ptr<T const>>> entries_;
  int num_requests_ = 0;
};

}  // namespace graticule::nn::detail
