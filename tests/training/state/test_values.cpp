// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/values.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace graticule {
namespace test_values {

using test::thrown_by;
using training::Values;
using training::detail::value_of;

TEST(Values, are_found_by_name_and_type) {
  Values const values{{"epoch", Index(3)}, {"best", 0.5}, {"kind", std::string("Adam")}};

  EXPECT_EQ(value_of<Index>(values, "epoch"), 3);
  EXPECT_EQ(value_of<double>(values, "best"), 0.5);
  EXPECT_EQ(value_of<std::string>(values, "kind"), "Adam");
  auto const missing = thrown_by([&] { (void)value_of<Index>(values, "step"); });
  EXPECT_EQ(missing.rule, "MissingVariable");
  EXPECT_EQ(missing.fault, Fault::input);
  EXPECT_NE(missing.text.find("step"), std::string::npos);
  auto const other = thrown_by([&] { (void)value_of<double>(values, "epoch"); });
  EXPECT_EQ(other.rule, "WrongType");
  EXPECT_NE(other.text.find("epoch"), std::string::npos);
}

TEST(Values, below_a_prefix_are_those_that_the_prefix_was_given_to) {
  Values const own{{"epoch", Index(3)}, {"a/b", 0.5}};
  auto all = training::detail::with_prefix("daso/", own);
  all.emplace("das", Index(1));
  all.emplace("epoch", Index(2));

  EXPECT_EQ(value_of<Index>(all, "daso/epoch"), 3);
  EXPECT_EQ(training::detail::values_below(all, "daso/"), own);
  EXPECT_EQ(training::detail::values_below(all, ""), all);
  EXPECT_TRUE(training::detail::values_below(all, "other/").empty());
}

}  // namespace test_values
}  // namespace graticule
