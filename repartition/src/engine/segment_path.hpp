// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace graticule::detail {

/// How the segments of large calls are packed for a peer on the node: into the cache, from which the peer reads them,
/// or past it, into memory.
///
/// Which is faster depends on whether the cores of both ranks share a cache, and ranks may move. So the copies of this
/// rank are timed, and every 32nd call tries the other way. Calls without such copies do not count. Values and messages
/// are the same.
class SegmentPath {
 public:
  /// Ends the call before, and chooses for the next one.
  void begin_call() noexcept {
    if (bytes_ > 0) {
      seconds_per_byte_[way_] = seconds_ / double(bytes_);
      ++num_timed_;
    }
    bytes_ = 0;
    seconds_ = 0;
    std::size_t const faster = seconds_per_byte_[past] < seconds_per_byte_[cached] ? past : cached;
    // The first call also touches new memory; the third replaces its time.
    if (num_timed_ < 3)
      way_ = num_timed_ == 1 ? past : cached;
    else
      way_ = (num_timed_ + 1) % calls_per_trial == 0 ? 1 - faster : faster;
  }
  [[nodiscard]] bool past_cache() const noexcept { return way_ == past; }
  /// Adds a copy into a segment or from one.
  void add(std::size_t bytes, double seconds) noexcept {
    bytes_ += bytes;
    seconds_ += seconds;
  }

 private:
  static constexpr std::size_t cached = 0;
  static constexpr std::size_t past = 1;
  static constexpr std::uint64_t calls_per_trial = 32;

  std::array<double, 2> seconds_per_byte_{};  ///< of the last call by each way
  std::size_t way_ = cached;
  std::size_t bytes_ = 0;
  double seconds_ = 0;
  std::uint64_t num_timed_ = 0;  ///< calls with copies
};

}  // namespace graticule::detail
