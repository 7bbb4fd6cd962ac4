// SPDX-License-Identifier: BSD-3-Clause
#include "data_parallel/gradient_buckets.hpp"
#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace graticule {
namespace test_buckets {

using test::rule_of;

TEST(AssignBuckets, fills_in_order_up_to_the_sizes) {
  using Buckets = std::vector<std::vector<std::size_t>>;
  std::vector<training::detail::BucketItem> const items{{3, 0}, {3, 0}, {3, 0}, {20, 0}, {2, 1}, {2, 1}};
  auto const assigned = [&](std::vector<std::size_t> const& order) {
    return training::detail::assign_buckets(items, order, {3, 6});
  };

  EXPECT_EQ(assigned({2, 1, 0}), (Buckets{{2}, {1, 0}}));
  EXPECT_EQ(assigned({0, 4, 1, 3, 5, 2}), (Buckets{{0}, {1}, {3}, {4, 5}, {2}}));
  EXPECT_EQ(assigned({}), Buckets{});
  EXPECT_EQ(rule_of([&] { (void)training::detail::assign_buckets(items, {}, {0, 1}); }), "BadOption");
}

}  // namespace test_buckets
}  // namespace graticule
