// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/indices.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

using namespace graticule;
using graticule::test::rule_of;

namespace {

TEST(Indices, refuse_more_than_max_ndim_axes) {
  std::vector<Index> const nine(9, 1);

  EXPECT_EQ(rule_of([&] { Indices{std::span<Index const>(nine)}; }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)Indices::filled(9, 1); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)Indices::filled(-1, 1); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] {
              auto full = Indices::filled(8, 1);
              full.push_back(1);
            }),
            "AxesMismatch");
}

TEST(Indices, compare_lexicographically) {
  EXPECT_TRUE(Indices({1, 5}) < Indices({2, 0}));
  EXPECT_TRUE(Indices({1}) < Indices({1, 0}));
  EXPECT_FALSE(Indices({2, 0}) < Indices({1, 5}));
  EXPECT_FALSE(Indices({1, 2}) < Indices({1, 2}));
  EXPECT_FALSE(Indices({1, 2}) == Indices({1, 2, 0}));
}

TEST(Indices, hold_their_values_in_order) {
  Indices values;
  for (Index i = 0; i < max_ndim; ++i) values.push_back(10 - i);

  EXPECT_EQ(values.size(), max_ndim);
  EXPECT_EQ(values, Indices({10, 9, 8, 7, 6, 5, 4, 3}));
  EXPECT_EQ(std::vector<Index>(values.begin(), values.end()), (std::vector<Index>{10, 9, 8, 7, 6, 5, 4, 3}));
  values[2] = -8;
  EXPECT_EQ(static_cast<Indices const&>(values)[2], -8);
  EXPECT_EQ(Indices::filled(3, 7), Indices({7, 7, 7}));
  EXPECT_EQ(Indices::filled(0, 7), Indices());
}

TEST(Indices, print_in_parentheses) {
  EXPECT_EQ(to_string(Indices{1, -2, 3}), "(1, -2, 3)");
  EXPECT_EQ(to_string(Indices()), "()");
}

}  // namespace
