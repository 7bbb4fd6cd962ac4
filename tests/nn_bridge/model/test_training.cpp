// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_training {

using test::bands;
using test::Part;
using test::random_tensor;
using test::row_weights_of;

TEST(Training, loss_and_parameters_follow_the_serial_run) {
  std::mt19937 random(2);
  auto const world = bands();
  nn::Domain const alone(world.comm().split(world.comm().rank(), 0), ProcessGrid{1, 1});
  auto const x = random_tensor(random, {2, 1, 7, 6});
  auto const target = random_tensor(random, {2, 1, 7, 6});
  auto const weight = random_tensor(random, {1, 1, 3, 3});
  auto const cuts = test::random_cuts(random, 7, world.grid().extent(0));
  auto const losses = [&](nn::Domain const& domain, Cuts const& rows) {
    Part const part(domain, rows, Cuts{6});
    nn::Conv2d layer(nn::ConvOptions(torch::nn::Conv2dOptions(1, 1, 3).padding(1).bias(false), nn::Padding::by_domain),
                     domain);
    layer->to(torch::kDouble);
    {
      torch::NoGradGuard const no_grad;
      layer->weight.copy_(weight);
    }
    nn::MSELoss loss(domain, nn::LossOptions{.row_weights = row_weights_of(part)});
    nn::GradientSync const sync(*layer, {{domain.comm(), nn::Reduction::sum}});
    torch::optim::Adam optimizer(layer->parameters(), torch::optim::AdamOptions(0.05));
    std::vector<double> result;
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      auto const value = loss(layer(part.of(x)), part.of(target));
      value.backward();
      sync.reduce();
      optimizer.step();
      result.push_back(value.item<double>());
    }
    return result;
  };

  auto const found = losses(world, cuts);
  auto const expected = losses(alone, Cuts{7});

  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(found[step] / expected[step], 1, 1e-12) << "step " << step;
  EXPECT_LT(found.back(), 0.9 * found.front());
}

}  // namespace test_training
}  // namespace graticule
