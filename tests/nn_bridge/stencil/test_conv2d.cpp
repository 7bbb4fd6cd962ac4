// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "conv_comparison.hpp"
#include "expect_error.hpp"
#include "num_set_ups.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_conv2d {

using test::ConvCase;
using test::ConvMode;
using test::Cotangent;
using test::difference;
using test::domains;
using test::leaf_of;
using test::pad_sphere;
using test::Part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;

TEST(Conv2d, equals_serial_for_random_cuts_kernels_strides_dilations_and_padding_modes) {
  test::expect_serial_for_random_cases<2>(std::mt19937(17), 14, {13, 7, 4, 3, 5});
}

TEST(Conv2d, equals_serial_with_same_padding_and_even_kernels) {
  test::expect_serial_with_same_padding<2>(std::mt19937(5), {9, 8}, {2, 3, 4, 5});
}

TEST(Conv2d, equals_serial_in_single_precision) {
  test::expect_serial_in<2>(torch::kFloat, 2e-5, std::mt19937(6), {12, 16});
}

TEST(Conv2d, equals_serial_for_channels_last_and_expanded_cotangents) {
  std::mt19937 random(7);
  ConvCase<2> const c{.extent = {9, 8}, .mode = ConvMode::pole_face};
  for (auto const& domain : test::conv_domains<2>(c.mode)) {
    auto comparison = test::conv_comparison(domain, c, random);
    comparison.memory = [](torch::Tensor const& x) { return x.contiguous(torch::MemoryFormat::ChannelsLast); };

    comparison.expect_equal(random_tensor(random, c.sizes()), random, Cotangent::ones);
  }
}

TEST(Conv2d, double_backward_equals_serial) {
  std::mt19937 random(8);
  ConvCase<2> const c{.extent = {8, 6}, .mode = ConvMode::pole_row};
  for (auto const& domain : test::conv_domains<2>(c.mode)) {
    auto comparison = test::conv_comparison(domain, c, random);
    comparison.layer = [layer = comparison.layer](torch::Tensor const& x) { return layer(x).square(); };
    comparison.oracle = [serial = comparison.oracle](torch::Tensor const& x) { return serial(x).square(); };

    comparison.expect_equal_twice(random_tensor(random, c.sizes()), random);
  }
}

nn::Domain band_domain() { return domains().back(); }

nn::Conv2d small_layer(nn::Domain const& domain) {
  return nn::Conv2d(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);
}

torch::Tensor shard_of(nn::Domain const& domain, std::int64_t rows, std::int64_t batch = 1) {
  auto const cuts = balanced_cuts(rows, domain.grid().extent(0));
  return torch::ones({batch, 2, cuts.size(domain.latitude_part()), 4});
}

TEST(Conv2d, sets_up_once_per_structure_and_again_on_a_global_change) {
  auto const domain = band_domain();
  auto layer = small_layer(domain);

  for (int call = 0; call < 3; ++call) layer(shard_of(domain, 12));
  EXPECT_EQ(test::num_set_ups(layer), 1);
  layer(shard_of(domain, 24));
  EXPECT_EQ(test::num_set_ups(layer), 2);
  layer(shard_of(domain, 12));
  layer(shard_of(domain, 12, 3));
  EXPECT_EQ(test::num_set_ups(layer), 4);
}

TEST(Conv2d, a_change_on_one_rank_only_is_an_error_on_all) {
  auto const domain = band_domain();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank cannot disagree";
  auto layer = small_layer(domain);
  layer(shard_of(domain, 12));

  auto const changed = torch::ones({1, 2, domain.comm().rank() == 0 ? 5 : shard_of(domain, 12).size(2), 4});

  EXPECT_EQ(rule_of([&] { layer(changed); }), "StructureDisagreement");
  layer->reset_structure();
  EXPECT_NO_THROW(layer(changed));
}

TEST(Conv2d, disagreements_are_the_same_error_on_all_ranks) {
  auto const domain = band_domain();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank cannot disagree";
  auto layer = small_layer(domain);
  auto other = small_layer(domain);
  bool const odd_one = domain.comm().rank() == domain.comm().num_ranks() - 1;

  EXPECT_EQ(rule_of([&] { layer(shard_of(domain, 12, odd_one ? 2 : 1)); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { layer(odd_one ? torch::ones({1, 3, 4, 4}) : shard_of(domain, 12)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              torch::AutoGradMode const mode(!odd_one);
              layer(shard_of(domain, 12));
            }),
            "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (odd_one ? layer : other)(shard_of(domain, 12)); }), "CallDisagreement");
}

TEST(Conv2d, a_gradient_wanted_on_one_rank_only_is_right) {
  std::mt19937 random(9);
  auto const domain = band_domain();
  Part const part(domain, balanced_cuts(9, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
  auto layer = small_layer(domain);
  layer->to(torch::kDouble);
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
  for (auto& parameter : layer->parameters()) parameter.requires_grad_(false);
  auto const x = random_tensor(random, {1, 2, 9, 4});
  auto const cotangent = random_tensor(random, {1, 2, 9, 4});
  auto whole = x.clone().requires_grad_();
  torch::conv2d(pad_sphere(whole, {1, 1}, {1, 1}, false, {}), layer->weight, layer->bias).backward(cotangent);

  bool const wanted = domain.comm().rank() == 0;
  auto shard = part.of(x).clone().requires_grad_(wanted);
  layer(shard).backward(part.of(cotangent));

  if (wanted) {
    EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
  } else {
    EXPECT_FALSE(shard.grad().defined());
  }
}

TEST(Conv2d, the_same_layer_twice_and_a_layer_gone_before_backward_are_right) {
  std::mt19937 random(10);
  auto const domain = band_domain();
  Part const part(domain, balanced_cuts(9, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
  auto const x = random_tensor(random, {1, 2, 9, 4});
  auto const cotangent = random_tensor(random, {1, 2, 9, 4});
  auto layer = small_layer(domain);
  layer->to(torch::kDouble);
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
  auto const weight = layer->weight.detach().clone();
  auto const bias = layer->bias.detach().clone();
  auto whole = x.clone().requires_grad_();
  auto const once = [&](torch::Tensor const& t) {
    return torch::conv2d(pad_sphere(t, {1, 1}, {1, 1}, false, {}), weight, bias);
  };
  once(once(whole).tanh()).backward(cotangent);

  auto shard = part.of(x).clone().requires_grad_();
  auto const y = layer(layer(shard).tanh());
  {
    torch::NoGradGuard const no_grad;
    layer(part.of(x).clone());
  }
  layer = nullptr;
  y.backward(part.of(cotangent));

  EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
}

TEST(Conv2d, refuses_what_no_serial_layer_could_do) {
  auto const domain = band_domain();
  nn::Conv2d large(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 7)), domain);
  nn::Conv2d wide(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(4).padding_mode(torch::kReflect)), domain);
  nn::Conv2d odd(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);

  EXPECT_EQ(rule_of([&] { large(shard_of(domain, 4)); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { wide(shard_of(domain, 12)); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { odd(shard_of(domain, 12).narrow(3, 0, 3).contiguous()); }), "BadBoundary");
}

TEST(Conv2d, refuses_windows_that_are_none_when_it_is_made) {
  auto const domain = band_domain();
  using Options = torch::nn::Conv2dOptions;
  for (auto const& options : {Options(2, 2, 0), Options(2, 2, 3).stride({1, 0}), Options(2, 2, 3).dilation({0, 1}),
                              Options(2, 2, 3).padding({-1, 0})})
    EXPECT_EQ(rule_of([&] { nn::Conv2d layer(options, domain); }), "BadOption");
}

TEST(Conv2d, has_the_names_and_shapes_of_the_serial_layer) {
  auto const domain = band_domain();
  auto const options = torch::nn::Conv2dOptions(4, 6, 3).groups(2);
  nn::Conv2d sharded(options, domain);
  torch::nn::Conv2d plain(options);

  auto const found = sharded->named_parameters();
  auto const expected = plain->named_parameters();

  ASSERT_EQ(found.keys(), expected.keys());
  for (auto const& item : expected) EXPECT_EQ(found[item.key()].sizes(), item.value().sizes());
  auto const copy = std::dynamic_pointer_cast<nn::Conv2dImpl>(sharded->clone());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(torch::equal(copy->weight, sharded->weight));
  EXPECT_EQ(test::num_set_ups(copy), 0);
}

}  // namespace test_conv2d
}  // namespace graticule
