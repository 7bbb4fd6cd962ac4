// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/overlap.hpp>

#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

using namespace graticule;
using detail::share_memory;
using test::draw;
using test::Random;

namespace {

std::set<std::byte const*> bytes_of(FieldView const& view) {
  std::set<std::byte const*> result;
  test::for_each_cell(Box::from_extents(view.extents), [&](Indices const& element) {
    Index at = 0;
    for (int m = 0; m < view.ndim(); ++m) at += element[m] * view.strides[m];
    auto const* const first = static_cast<std::byte const*>(view.data) + at * size_of(view.dtype);
    for (Index b = 0; b < size_of(view.dtype); ++b) result.insert(first + b);
  });
  return result;
}

bool meet(std::set<std::byte const*> const& a, std::set<std::byte const*> const& b) {
  for (auto const* byte : a)
    if (b.count(byte) > 0) return true;
  return false;
}

TEST(Overlap, is_found_exactly_for_random_views) {
  Random random(20);
  std::vector<std::byte> memory(4000);
  auto const random_view = [&] {
    FieldView view;
    view.dtype =
        std::vector{DType::u8, DType::i16, DType::f32, DType::f64, DType::c128}[std::size_t(draw(random, 0, 4))];
    for (Index m = draw(random, 0, 3); m > 0; --m) {
      view.extents.push_back(draw(random, 0, 20) == 0 ? 0 : draw(random, 1, 5));
      view.strides.push_back(draw(random, -12, 12));
    }
    view.data = memory.data() + 2000 + draw(random, -60, 60) * (draw(random, 0, 3) == 0 ? 1 : size_of(view.dtype));
    return view;
  };
  int num_apart = 0;
  int num_interleaved = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    auto const a = random_view();
    auto const b = random_view();
    bool const expected = meet(bytes_of(a), bytes_of(b));

    ASSERT_EQ(share_memory(a, b), expected) << trial;
    ASSERT_EQ(share_memory(b, a), expected) << trial;

    num_apart += expected ? 0 : 1;
    auto const range_a = detail::address_range(a);
    auto const range_b = detail::address_range(b);
    num_interleaved += !expected && range_a.lo < range_b.hi && range_b.lo < range_a.hi ? 1 : 0;
  }
  EXPECT_GT(num_apart, 5000);
  EXPECT_GT(num_interleaved, 1000);
}

TEST(Overlap, of_a_view_with_itself_is_found_exactly) {
  Random random(21);
  int num_sharing = 0;
  int num_nested = 0;
  std::vector<double> memory(1);
  for (int trial = 0; trial < 20000; ++trial) {
    FieldView view{memory.data(), DType::f64, {}, {}, {}, MemorySpace::host};
    for (Index m = draw(random, 0, 4); m > 0; --m) {
      view.extents.push_back(draw(random, 0, 20) == 0 ? 0 : draw(random, 1, 4));
      view.strides.push_back(draw(random, -14, 14) * (draw(random, 0, 2) == 0 ? 5 : 1));
    }
    std::set<Index> seen;
    bool expected = false;
    test::for_each_cell(Box::from_extents(view.extents), [&](Indices const& element) {
      Index at = 0;
      for (int m = 0; m < view.ndim(); ++m) at += element[m] * view.strides[m];
      expected = !seen.insert(at).second || expected;
    });

    ASSERT_EQ(detail::shares_own_memory(view), expected)
        << trial << ": " << to_string(view.extents) << " " << to_string(view.strides);

    num_sharing += expected ? 1 : 0;
    num_nested += !expected && view.ndim() > 2 ? 1 : 0;
  }
  EXPECT_GT(num_sharing, 2000);
  EXPECT_GT(num_nested, 1000);
}

// What programs hand over side by side: large views of one array that share nothing.
TEST(Overlap, of_parts_of_one_array_is_told_from_parts_that_meet) {
  std::vector<float> memory(1);
  auto const view = [&](Index offset, Indices const& extents, Indices const& strides) {
    return FieldView{memory.data() + offset, DType::f32, extents, strides, {}, MemorySpace::host};
  };
  Index const row = 14400;
  // Channels last: 7 of them.
  for (Index c = 1; c < 7; ++c)
    EXPECT_FALSE(share_memory(view(0, {721, 1440}, {7 * 1440, 7}), view(c, {721, 1440}, {7 * 1440, 7})));
  EXPECT_TRUE(share_memory(view(0, {721, 1440}, {7 * 1440, 7}), view(7, {721, 1440}, {7 * 1440, 7})));
  // Halves of rows, and halves that meet in one column.
  EXPECT_FALSE(share_memory(view(0, {721, 7200}, {row, 1}), view(7200, {721, 7200}, {row, 1})));
  EXPECT_TRUE(share_memory(view(0, {721, 7201}, {row, 1}), view(7200, {721, 7200}, {row, 1})));
  // Odd and even rows of columns first to last and last to first.
  EXPECT_FALSE(share_memory(view(0, {360, row}, {2 * row, 1}), view(720 * row - 1, {360, row}, {-2 * row, -1})));
  EXPECT_TRUE(share_memory(view(0, {360, row}, {2 * row, 1}), view(719 * row - 1, {360, row}, {-2 * row, -1})));
  // Channel ranges of a batch, and the owned cells and the rows around them of a field with a halo.
  EXPECT_FALSE(share_memory(view(0, {8, 3, 100, 90}, {64 * 9000, 9000, 90, 1}),
                            view(3 * 9000, {8, 61, 100, 90}, {64 * 9000, 9000, 90, 1})));
  EXPECT_FALSE(share_memory(view(row, {40, 98, row}, {100 * row, row, 1}), view(0, {40, 1, row}, {100 * row, row, 1})));
  // A square and its transpose; blocks on and off the diagonal.
  EXPECT_TRUE(share_memory(view(0, {512, 512}, {512, 1}), view(0, {512, 512}, {1, 512})));
  EXPECT_FALSE(share_memory(view(0, {256, 256}, {512, 1}), view(256 * 513, {256, 256}, {1, 512})));
  // Memory of another view altogether.
  EXPECT_FALSE(share_memory(view(0, {721, row}, {row, 1}), view(721 * row, {721, row}, {row, 1})));
  EXPECT_FALSE(share_memory(view(0, {0, row}, {row, 1}), view(0, {721, row}, {row, 1})));
}

}  // namespace
