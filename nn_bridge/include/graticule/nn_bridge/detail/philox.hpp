// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

namespace graticule::nn::detail {

/// Four random 32-bit words, a function of counter and key only: Philox4x32-10 (Salmon, Moraes, Dror and Shaw
/// 2011, "Parallel random numbers: as easy as 1, 2, 3", doi:10.1145/2063384.2063405).
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                            std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const even = std::uint64_t{0xD2511F53U} * counter[0];
    std::uint64_t const odd = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {std::uint32_t(odd >> 32U) ^ counter[1] ^ key[0], std::uint32_t(odd),
               std::uint32_t(even >> 32U) ^ counter[3] ^ key[1], std::uint32_t(even)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

}  // namespace graticule::nn::detail
