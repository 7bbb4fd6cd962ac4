// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/stencil/channel_split_conv.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_channel_split_conv {

using nn::Consumer;
using nn::FeatureSplit;
using nn::SplitOptions;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
using test::Spread;
using torch::Tensor;

template <std::size_t D>
struct Case {
  std::string name;
  torch::nn::ConvOptions<D> conv;
  std::vector<std::int64_t> space;
  bool batched = true;
};

std::vector<Case<2>> cases() {
  using Options = torch::nn::Conv2dOptions;
  return {
      {"3 x 3", Options(5, 3, 3).padding(1), {6, 7}},
      {"strided, dilated", Options(2, 6, {3, 2}).stride({2, 1}).dilation({1, 2}).bias(false), {8, 7}},
      {"same, circular", Options(4, 4, 4).padding(torch::kSame).padding_mode(torch::kCircular), {6, 5}},
      {"reflect, no batch", Options(3, 2, 3).padding({1, 2}).padding_mode(torch::kReflect), {4, 5}, false},
  };
}

Shard channels(std::int64_t axis, Cuts const& cuts, int rank) {
  return Shard().cut(axis, cuts.lo(rank), cuts.size(rank));
}

template <std::size_t D, class Split, class Serial>
void compare_with_serial(Case<D> const& c, FeatureSplit split, Consumer consumer, std::mt19937& random) {
  auto const comm = Comm::world();
  auto const axis = -std::int64_t(D) - 1;
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const inputs = random_cuts(random, c.conv.in_channels(), comm.num_ranks());
  auto const outputs = random_cuts(random, c.conv.out_channels(), comm.num_ranks());
  SplitOptions options{.split = split, .whole = consumer};
  if (split != FeatureSplit::input) options.output_cuts = outputs;
  Serial serial(c.conv);
  serial->to(torch::kDouble);
  Split layer(c.conv, options, domain);
  layer->to(torch::kDouble);
  {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : serial->parameters()) parameter.copy_(random_tensor(random, parameter.sizes().vec()));
    layer->weight.copy_(serial->weight);
    if (c.conv.bias()) layer->bias.copy_(serial->bias);
  }
  std::vector<std::int64_t> sizes{2, c.conv.in_channels()};
  if (!c.batched) sizes.erase(sizes.begin());
  sizes.insert(sizes.end(), c.space.begin(), c.space.end());
  auto const whole = Shard().spread_as(consumer == Consumer::distinct ? Spread::partial : Spread::replicated);
  auto const input = split == FeatureSplit::output ? whole : channels(axis, inputs, comm.rank());
  auto const output = split == FeatureSplit::input ? whole : channels(axis, outputs, comm.rank());

  SerialComparison{
      .name = c.name + ", split " + std::to_string(int(split)) + ", consumer " + std::to_string(int(consumer)),
      .layer = layer,
      .oracle = serial,
      .input = input,
      .output = [&](Tensor const&) { return output; },
      .module = layer.ptr(),
      .parameters = serial->named_parameters()}
      .expect_equal(random_tensor(random, sizes), random);
}

TEST(ChannelSplitConv, equals_the_serial_layer_for_every_split_and_any_cuts) {
  std::mt19937 random(1);
  for (auto const split : {FeatureSplit::input, FeatureSplit::output, FeatureSplit::both})
    for (auto const consumer : {Consumer::replicated, Consumer::distinct}) {
      if (split == FeatureSplit::both && consumer == Consumer::distinct) continue;  // No side is whole.
      for (auto const& c : cases())
        compare_with_serial<2, nn::ChannelSplitConv2d, torch::nn::Conv2d>(c, split, consumer, random);
      compare_with_serial<1, nn::ChannelSplitConv1d, torch::nn::Conv1d>(
          {"1d", torch::nn::Conv1dOptions(3, 4, 3).padding(2).padding_mode(torch::kReplicate), {6}}, split, consumer,
          random);
      compare_with_serial<3, nn::ChannelSplitConv3d, torch::nn::Conv3d>(
          {"3d", torch::nn::Conv3dOptions(4, 2, {2, 3, 3}).padding({0, 1, 1}), {3, 4, 5}}, split, consumer, random);
    }
}

TEST(ChannelSplitConv, second_derivatives_are_the_numeric_ones) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const cuts = random_cuts(random, 3, comm.num_ranks());
  for (auto const split : {FeatureSplit::input, FeatureSplit::both}) {
    nn::ChannelSplitConv2d layer(torch::nn::Conv2dOptions(3, 2, 3).padding(1), SplitOptions{.split = split}, domain);
    layer->to(torch::kDouble);
    nn::GradientSync(*layer, {{comm, nn::Reduction::sum}}).broadcast();

    auto const errors = test::gradient_errors(
        {.function = [&](Tensor const& t) { return layer(t).square(); },
         .output = split == FeatureSplit::input ? test::Spread::replicated : test::Spread::sharded},
        channels(-3, cuts, comm.rank()).of(random_tensor(random, {2, 3, 4, 5})).clone(), comm);

    EXPECT_LE(errors.first, 1e-7);
    EXPECT_LE(errors.second, 1e-7);
  }
}

TEST(ChannelSplitConv, refuses_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == 0;
  auto const make = [&](torch::nn::Conv2dOptions const& options) {
    return nn::ChannelSplitConv2d(options, SplitOptions(), domain);
  };
  auto const size = balanced_cuts(4, comm.num_ranks()).size(comm.rank());
  auto const x = torch::ones({1, size, 4, 4});

  EXPECT_EQ(rule_of([&] { make(torch::nn::Conv2dOptions(4, 4, 3).groups(2)); }), "Unsupported");
  EXPECT_EQ(rule_of([&] {
              make(torch::nn::Conv2dOptions(4, 4, 3))(torch::ones({1, size + odd_one, 4, 4}));
            }),
            "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(torch::nn::Conv2dOptions(4, 4, 3))(odd_one ? x[0][0] : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(torch::nn::Conv2dOptions(4, 4, 5))(x); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { make(torch::nn::Conv2dOptions(4, 4, 9).padding(4).padding_mode(torch::kReflect))(x); }),
            "BadHaloWidth");
  EXPECT_EQ(make(torch::nn::Conv2dOptions(4, 4, 3))(x).size(-1), 2);
}

}  // namespace test_channel_split_conv
}  // namespace graticule
