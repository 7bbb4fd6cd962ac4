// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/hash.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

using namespace graticule;

namespace {

TEST(Hash, tells_sequences_apart) {
  std::set<std::uint64_t> seen;
  auto const add = [&](Hash const& hash) { EXPECT_TRUE(seen.insert(hash.value()).second); };

  add(Hash());
  add(Hash().add(0));
  add(Hash().add(0).add(0));
  add(Hash().add(1).add(2));
  add(Hash().add(2).add(1));
  add(Hash().add(-1));
  add(Hash().add(1.0));
  add(Hash().add(std::string_view("ab")).add(std::string_view("c")));
  add(Hash().add(std::string_view("a")).add(std::string_view("bc")));
  add(Hash().add(std::vector<int>{5}).add(std::vector<int>{6, 7}));
  add(Hash().add(std::vector<int>{5, 6}).add(std::vector<int>{7}));
  EXPECT_EQ(Hash().add(7).add(8).value(), Hash().add(7).add(8).value());
}

/// The first outputs of SplitMix64 with the seed 1234567, as in the published test vectors: the state, not the output,
/// goes on by the constant, so each is the mixer of one sum.
TEST(Hash, is_the_mixer_of_splitmix64) {
  std::array<std::uint64_t, 3> const published{6457827717110365317U, 3203168211198807973U, 9817491932198370423U};
  std::uint64_t state = 1234567;
  for (auto const expected : published) {
    EXPECT_EQ(Hash().add(state).value(), expected);
    state += 0x9e3779b97f4a7c15U;
  }
}

TEST(Hash, of_numbers_is_that_of_their_bits_and_of_a_range_has_its_count) {
  EXPECT_NE(Hash().add(0.0).value(), Hash().add(-0.0).value());
  EXPECT_EQ(Hash().add(0.0).value(), Hash().add(0).value());
  EXPECT_EQ(Hash().add(-1).value(), Hash().add(std::int64_t(-1)).value());
  EXPECT_EQ(Hash().add(std::vector<int>{3, 4}).value(), Hash().add(3).add(4).add(2).value());
  EXPECT_EQ(Hash().add(std::string_view("a")).value(), Hash().add(1).add(int('a')).value());
}

}  // namespace
