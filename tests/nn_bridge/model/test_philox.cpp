// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/philox.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace graticule {
namespace test_philox {

TEST(Philox, gives_its_published_answers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(nn::detail::philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(nn::detail::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(nn::detail::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Each bit of the counter and of the key changes about half of the bits of the words.
TEST(Philox, depends_on_every_bit_of_counter_and_key) {
  auto const base = nn::detail::philox({1, 2, 3, 4}, {5, 6});
  for (std::size_t bit = 0; bit < 192; ++bit) {
    std::array<std::uint32_t, 4> counter{1, 2, 3, 4};
    std::array<std::uint32_t, 2> key{5, 6};
    (bit < 128 ? counter[bit / 32] : key[bit / 32 - 4]) ^= 1U << (bit % 32);

    auto const changed = nn::detail::philox(counter, key);

    int num_changed = 0;
    for (std::size_t word = 0; word < 4; ++word) num_changed += __builtin_popcount(base[word] ^ changed[word]);
    EXPECT_GT(num_changed, 32) << "bit " << bit;
    EXPECT_LT(num_changed, 96) << "bit " << bit;
  }
}

static_assert(nn::detail::philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5, "computed by the compiler, too");

}  // namespace test_philox
}  // namespace graticule
