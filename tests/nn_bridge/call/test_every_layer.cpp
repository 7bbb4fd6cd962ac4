// SPDX-License-Identifier: BSD-3-Clause
// What holds for every layer: derivatives of derivatives, several calls in one graph, and gradients that few ranks
// need.
#include "expect_error.hpp"
#include "layer_table.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_every_layer {

using test::add_gradients;
using test::difference;
using test::domain_of;
using test::expect_as_exact;
using test::for_each_layer;
using test::layer_table;
using test::LayerFunction;
using test::LayerResults;
using test::over_ranks;
using test::part_of;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::run_layer;
using torch::Tensor;

/// The gradient, times `direction`, of what the sum of cubes of the layer's output has for a gradient.
LayerResults second_derivative(LayerFunction const& function, std::vector<Tensor> const& parameters, Tensor const& x,
                               Tensor const& direction) {
  LayerResults results;
  auto const leaf = x.detach().clone().requires_grad_();
  results.y = function(leaf);
  auto const first = torch::autograd::grad({results.y.pow(3).sum()}, {leaf}, {}, true, true)[0];
  add_gradients(results, first, leaf, parameters, direction);
  return results;
}

TEST(EveryLayer, has_the_second_derivatives_of_the_serial_layer_or_refuses_them) {
  for_each_layer([](test::TableLayer const& layer, nn::Domain const& domain) {
    std::mt19937 random(11);
    auto const whole = random_tensor(random, layer.sizes);
    auto const direction = random_tensor(random, layer.sizes);
    auto const part = random_part(domain, random, layer.sizes);
    auto const made = layer.make(domain, torch::kDouble);

    LayerResults found;
    auto const rule = rule_of(
        [&] { found = second_derivative(made.sharded, made.sharded_parameters, part.of(whole), part.of(direction)); });

    if (!layer.twice_differentiable) {
      EXPECT_EQ(rule, "Unsupported");
      return;
    }
    ASSERT_EQ(rule, "nothing was thrown");
    auto const expected = second_derivative(made.serial, made.serial_parameters, whole, direction);
    EXPECT_LE(difference(found.x_grad, part.of(expected.x_grad)), 1e-9);
    for (std::size_t p = 0; p < expected.parameter_grads.size(); ++p)
      EXPECT_LE(difference(over_ranks(domain.comm(), found.parameter_grads[p]), expected.parameter_grads[p]), 1e-9);
  });
}

/// Two calls in one graph, and one without a graph between them.
Tensor called_thrice(LayerFunction const& function, Tensor const& x) {
  auto const first = function(x);
  {
    torch::NoGradGuard const no_grad;
    (void)function(x + 1);
  }
  return first + 2 * function(x * 0.5);
}

TEST(EveryLayer, may_be_called_twice_in_one_graph_and_without_one_between) {
  for_each_layer([](test::TableLayer const& layer, nn::Domain const& domain) {
    std::mt19937 random(12);
    auto const whole = random_tensor(random, layer.sizes);
    auto const part = random_part(domain, random, layer.sizes);
    auto const made = layer.make(domain, torch::kDouble);
    auto const thrice = [](LayerFunction const& function) {
      return [&](Tensor const& x) { return called_thrice(function, x); };
    };
    auto const cotangent = [&](Tensor const& y) {
      std::mt19937 same(4);
      return random_tensor(same, y.sizes().vec());
    };
    auto const serial = run_layer(thrice(made.serial), made.serial_parameters, whole, cotangent);

    auto const found = run_layer(thrice(made.sharded), made.sharded_parameters, part.of(whole),
                                 [&](Tensor const& y) { return part_of(domain, y).of(cotangent(serial.y)); });

    expect_as_exact(domain, found, part, serial, serial);
  });
}

TEST(EveryLayer, gives_a_gradient_to_the_one_rank_that_needs_it) {
  for_each_layer([](test::TableLayer const& layer, nn::Domain const& domain) {
    std::mt19937 random(13);
    auto const whole = random_tensor(random, layer.sizes).requires_grad_();
    auto const part = random_part(domain, random, layer.sizes);
    auto const made = layer.make(domain, torch::kDouble);
    auto const expected = made.serial(whole);
    auto const cotangent = random_tensor(random, expected.sizes().vec());
    expected.backward(cotangent);
    bool const needs = domain.comm().rank() == domain.comm().num_ranks() - 1;
    for (auto& parameter : made.sharded_parameters) Tensor(parameter).requires_grad_(false);
    auto const shard = part.of(whole.detach()).clone().requires_grad_(needs);

    auto const found = made.sharded(shard);
    auto const own = part_of(domain, found).of(cotangent);
    // A layer that only looks at its own cells has nothing to do on the others.
    if (found.requires_grad()) found.backward(own);

    EXPECT_EQ(shard.grad().defined(), needs);
    if (needs) {
      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
    }
  });
}

TEST(EveryLayer, gives_an_output_that_may_be_changed_in_place) {
  auto const in_place = [](LayerFunction const& function) {
    return [&](Tensor const& x) { return function(x).mul_(2).clamp_min_(-0.5); };
  };
  std::size_t repeat = 0;
  for (auto const& layer : layer_table()) {
    for (bool const channels_last : {false, true}) {
      SCOPED_TRACE(layer.name + (channels_last ? ", channels last" : ""));
      std::mt19937 random(14);
      auto const domain = domain_of(repeat++, layer);
      auto const whole = random_tensor(random, layer.sizes);
      auto const part = random_part(domain, random, layer.sizes);
      auto const made = layer.make(domain, torch::kDouble);
      auto const format =
          layer.sizes.size() == 5 ? torch::MemoryFormat::ChannelsLast3d : torch::MemoryFormat::ChannelsLast;
      auto const shard = part.of(whole).clone(channels_last ? format : torch::MemoryFormat::Contiguous);
      auto const cotangent = [&](Tensor const& y) {
        std::mt19937 same(4);
        return random_tensor(same, y.sizes().vec());
      };
      auto const serial = run_layer(in_place(made.serial), made.serial_parameters, whole, cotangent);

      LayerResults found;
      auto const thrown = test::thrown_by([&] {
        found = run_layer(in_place(made.sharded), made.sharded_parameters, shard,
                          [&](Tensor const& y) { return part_of(domain, y).of(cotangent(serial.y)); });
      });

      EXPECT_EQ(thrown.rule, "nothing was thrown") << thrown.text.substr(0, 200);
      if (thrown.rule != "nothing was thrown") continue;
      expect_as_exact(domain, found, part, serial, serial);
      EXPECT_TRUE(torch::equal(shard, part.of(whole)));
    }
  }
}

}  // namespace test_every_layer
}  // namespace graticule
