// SPDX-License-Identifier: BSD-3-Clause
#include "spectral/batched_product.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_batched_product {

using torch::Tensor;

double rounding_of(torch::Dtype dtype) { return dtype == torch::kFloat ? 1e-5 : 1e-13; }

/// Sums of at most 40 products of numbers below about 4.
void expect_product(Tensor const& found, Tensor const& a, Tensor const& b) {
  auto const exact = a.to(torch::kDouble).matmul(b.to(torch::kDouble));
  ASSERT_EQ(found.sizes(), exact.sizes());
  if (found.numel() == 0) return;
  EXPECT_LE((found.to(torch::kDouble) - exact).abs().max().item<double>(), 40 * rounding_of(found.scalar_type()));
}

TEST(BatchedProduct, is_right_for_any_number_of_rows_and_columns) {
  torch::manual_seed(1);
  for (auto const dtype : {torch::kFloat, torch::kDouble})
    for (std::int64_t columns = 1; columns < 68; ++columns) {
      SCOPED_TRACE(testing::Message() << columns << " columns of " << dtype);
      auto const rows = 1 + columns % 14;
      auto const inner = columns % 41;
      auto const a = torch::randn({3, rows, inner}, dtype);
      auto const b = torch::randn({3, inner, columns}, dtype);
      auto const c = torch::full({3, rows, columns}, NAN, dtype);
      nn::detail::batched_product(c, a, b);
      expect_product(c, a, b);
    }
}

TEST(BatchedProduct, leaves_alone_what_lies_between_strided_rows) {
  torch::manual_seed(2);
  for (std::int64_t const columns : {2, 5, 20, 33}) {
    auto const a = torch::randn({2, 9, 7}).transpose(1, 2);
    auto const all_b = torch::randn({2, 18, columns});
    auto const b = all_b.slice(1, 1, {}, 2);
    auto const all_c = torch::full({2, 15, columns}, -1, torch::kFloat);
    auto const c = all_c.slice(1, 1, {}, 2);
    nn::detail::batched_product(c, a, b);
    expect_product(c, a, b);
    EXPECT_TRUE((all_c.slice(1, 0, {}, 2) == -1).all().item<bool>());
  }
}

TEST(BatchedProduct, of_columns_does_not_depend_on_their_number) {
  torch::manual_seed(3);
  auto const a = torch::randn({1, 11, 40});
  auto const b = torch::randn({1, 40, 16});
  auto const product = [&](std::int64_t first, std::int64_t columns) {
    auto const c = torch::empty({1, 11, columns});
    nn::detail::batched_product(c, a, b.narrow(2, first, columns));
    return c;
  };
  auto const whole = product(0, 16);
  for (std::int64_t const columns : {1, 3, 9, 13})
    EXPECT_TRUE(torch::equal(product(3, columns), whole.narrow(2, 3, columns)));
}

}  // namespace test_batched_product
}  // namespace graticule
