// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/division.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace graticule {
namespace {

TEST(Division, rounds_down_and_up_for_all_signs) {
  for (std::int64_t a = -13; a <= 13; ++a)
    for (std::int64_t b = -5; b <= 5; ++b) {
      if (b == 0) continue;
      auto const quotient = double(a) / double(b);
      EXPECT_EQ(detail::floor_div(a, b), std::int64_t(std::floor(quotient))) << a << " / " << b;
      EXPECT_EQ(detail::ceil_div(a, b), std::int64_t(std::ceil(quotient))) << a << " / " << b;
    }
}

TEST(Division, does_not_overflow_at_the_ends_of_the_type) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(detail::floor_div(least, 2), least / 2);
  EXPECT_EQ(detail::floor_div(most, 2), most / 2);
  EXPECT_EQ(detail::floor_div(least, most), -2);
  EXPECT_EQ(detail::ceil_div(most, 2), most / 2 + 1);
  EXPECT_EQ(detail::ceil_div(most - 1, most), 1);
  EXPECT_EQ(detail::ceil_div(least, most), -1);
}

}  // namespace
}  // namespace graticule
