// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace graticule::detail {

/// How the segments of large messages are packed for one peer on the node: into the cache, from which the peer reads
/// them, or past it, into memory.
///
/// Which is faster depends on whether the cores of both ranks share a cache, and ranks may move. So packing is timed,
/// and four of every 64 segments go the other way. Values and messages are the same.
class SegmentPath {
 public:
  SegmentPath() noexcept {
    for (auto& times : seconds_per_byte_) times.fill(std::numeric_limits<double>::infinity());
  }
  /// Chooses for the next segment.
  void begin_segment() noexcept {
    auto const before = way_;
    bool const is_trial = num_segments_ % period < trial;
    // Both ways first: the slots are new memory in the first trial, of which the beginning does not count.
    if (num_segments_ < 2 * trial) {
      way_ = is_trial ? cached : past;
      faster_ = cached;
    } else {
      if (!is_trial && shortest(1 - faster_) < gain * shortest(faster_)) faster_ = 1 - faster_;
      way_ = is_trial ? 1 - faster_ : faster_;
    }
    in_a_row_ = way_ == before ? in_a_row_ + 1 : 1;
    ++num_segments_;
  }
  [[nodiscard]] bool past_cache() const noexcept { return way_ == past; }
  /// The segment has been packed.
  void end_segment(std::size_t bytes, double seconds) noexcept {
    // Before that, the slot's memory lay where the other way had left it.
    if (in_a_row_ <= 2 || bytes == 0) return;
    auto& times = seconds_per_byte_[way_];
    times[num_timed_[way_]++ % times.size()] = seconds / double(bytes);
  }

 private:
  static constexpr std::size_t cached = 0;
  static constexpr std::size_t past = 1;
  static constexpr std::uint64_t trial = 4;    ///< segments that go the other way
  static constexpr std::uint64_t period = 64;  ///< segments from one trial to the next
  static constexpr double gain = 0.97;         ///< of a way that replaces the other

  /// A copy may be interrupted.
  [[nodiscard]] double shortest(std::size_t way) const noexcept {
    return *std::min_element(seconds_per_byte_[way].begin(), seconds_per_byte_[way].end());
  }

  std::array<std::array<double, 4>, 2> seconds_per_byte_;  ///< of the last segments by each way
  std::array<std::uint64_t, 2> num_timed_{};
  std::uint64_t num_segments_ = 0;
  std::uint64_t in_a_row_ = 0;  ///< that went the same way up to now
  std::size_t way_ = cached;
  std::size_t faster_ = cached;
};

}  // namespace graticule::detail
