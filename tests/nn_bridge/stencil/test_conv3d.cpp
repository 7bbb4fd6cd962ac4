// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/conv3d.hpp>

#include "conv_comparison.hpp"
#include "expect_error.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_conv3d {

using test::rule_of;

TEST(Conv3d, equals_serial_for_random_cuts_kernels_strides_dilations_and_padding_modes) {
  test::expect_serial_for_random_cases<3>(std::mt19937(23), 9, {8, 5, 3, 2, 4});
}

TEST(Conv3d, equals_serial_with_same_padding_and_even_kernels) {
  test::expect_serial_with_same_padding<3>(std::mt19937(24), {4, 7, 6}, {2, 3, 4});
}

TEST(Conv3d, equals_serial_in_half_width_precision) {
  test::expect_serial_in<3>(torch::kBFloat16, 0.04, std::mt19937(25), {4, 7, 6});
}

TEST(Conv3d, double_backward_equals_serial_for_channels_last_and_expanded_cotangents) {
  std::mt19937 random(26);
  test::ConvCase<3> const c{.extent = {3, 7, 6}, .mode = test::ConvMode::pole_face};
  for (auto const& domain : test::conv_domains<3>(c.mode)) {
    auto comparison = test::conv_comparison(domain, c, random);
    comparison.layer = [layer = comparison.layer](torch::Tensor const& x) { return layer(x).square(); };
    comparison.oracle = [serial = comparison.oracle](torch::Tensor const& x) { return serial(x).square(); };
    comparison.memory = [](torch::Tensor const& x) { return x.contiguous(torch::MemoryFormat::ChannelsLast3d); };

    comparison.expect_equal_twice(test::random_tensor(random, c.sizes()), random, test::Cotangent::ones);
  }
}

TEST(Conv3d, refuses_kernels_and_padding_that_the_levels_do_not_allow) {
  auto const domain = test::domains().front();
  auto const x = torch::ones({1, 2, 3, 4, 4});
  auto const options = [](std::int64_t levels) { return torch::nn::Conv3dOptions(2, 2, {levels, 1, 1}); };
  nn::Conv3d deep(options(4), domain);
  nn::Conv3d reflected(options(3).padding({3, 0, 0}).padding_mode(torch::kReflect), domain);
  nn::Conv3d round(options(3).padding({4, 0, 0}).padding_mode(torch::kCircular), domain);

  EXPECT_EQ(rule_of([&] { deep(x); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { reflected(x); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { round(x); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { deep(x[0][0]); }), "ShapeMismatch");
}

}  // namespace test_conv3d
}  // namespace graticule
