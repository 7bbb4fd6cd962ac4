// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace graticule {

/// 64-bit fingerprint of a sequence of values, equal on every platform and run.
///
/// Order matters. Used to check that replicated arguments agree between ranks; not cryptographic.
/// Source of the mixer: SplitMix64 (Steele, Lea, Flood 2014).
class Hash {
 public:
  Hash& add(std::integral auto value) noexcept {
    mix(std::uint64_t(value));
    return *this;
  }
  Hash& add(double value) noexcept {
    mix(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Hash& add(std::string_view text) noexcept {
    add(text.size());
    for (char c : text) mix(std::uint64_t(static_cast<unsigned char>(c)));
    return *this;
  }
  /// Adds each element of a range of integers or floating-point numbers, and their count.
  template <class Range>
  requires requires(Range const& r) { r.begin(); }
  Hash& add(Range const& values) noexcept {
    std::uint64_t count = 0;
    for (auto const& value : values) {
      add(value);
      ++count;
    }
    return add(count);
  }

  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

 private:
  void mix(std::uint64_t value) noexcept {
    std::uint64_t z = (state_ ^ value) + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    state_ = z ^ (z >> 31U);
  }

  std::uint64_t state_ = 0;
};

}  // namespace graticule
