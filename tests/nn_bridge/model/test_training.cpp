// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace graticule {
namespace {

using test::difference;
using test::Part;
using test::random_tensor;

nn::Domain bands() {
  auto const comm = Comm::world();
  return {comm, ProcessGrid{comm.num_ranks(), 1}};
}

std::vector<double> some_weights() { return {0.1, 0.5, 0.9, 1.0, 0.8, 0.4, 0.05}; }

std::vector<double> weights_of(Part const& part) {
  auto const all = some_weights();
  return {all.begin() + part.row, all.begin() + part.row + part.num_rows};
}

TEST(RowWeightedLoss, equals_the_serial_formula_with_missing_cells) {
  std::mt19937 random(1);
  auto const domain = bands();
  for (bool const squared : {true, false}) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      Part const part(domain, test::random_cuts(random, 7, domain.grid().extent(0)), Cuts{4});
      auto const prediction = random_tensor(random, {2, 3, 7, 4});
      auto target = random_tensor(random, {2, 3, 7, 4});
      target[0][1][2][3].fill_(std::numeric_limits<double>::quiet_NaN());
      target[1][2][6].fill_(std::numeric_limits<double>::quiet_NaN());
      double sum = 0;
      double weight = 0;
      auto const p = prediction.accessor<double, 4>();
      auto const t = target.accessor<double, 4>();
      for (int b = 0; b < 2; ++b)
        for (int c = 0; c < 3; ++c)
          for (int i = 0; i < 7; ++i)
            for (int j = 0; j < 4; ++j) {
              if (std::isnan(t[b][c][i][j])) continue;
              double const d = p[b][c][i][j] - t[b][c][i][j];
              sum += some_weights()[std::size_t(i)] * (squared ? d * d : std::abs(d));
              weight += some_weights()[std::size_t(i)];
            }

      nn::LossOptions const options{.row_weights = weights_of(part)};
      auto shard = part.of(prediction).clone().requires_grad_();
      auto const found = squared ? nn::MSELoss(domain, options)(shard, part.of(target))
                                 : nn::L1Loss(domain, options)(shard, part.of(target));
      found.backward();

      EXPECT_NEAR(found.item<double>(), sum / weight, 1e-13);
      EXPECT_FALSE(shard.grad().isnan().any().item<bool>());
      auto const scaled = torch::where(
          part.of(target).isnan(), torch::zeros_like(shard),
          squared ? 2 * (part.of(prediction) - part.of(target)) : (part.of(prediction) - part.of(target)).sign());
      auto const rows = torch::tensor(weights_of(part), torch::kDouble).unsqueeze(-1);
      EXPECT_LE(difference(shard.grad(), scaled * rows / weight), 1e-13);
    }
  }
}

TEST(RowWeightedLoss, refuses_bad_arguments_on_all_ranks) {
  auto const domain = bands();
  Part const part(domain, balanced_cuts(7, domain.grid().extent(0)), Cuts{4});
  nn::MSELoss loss(domain, nn::LossOptions{.row_weights = weights_of(part)});
  auto const good = torch::zeros({1, part.num_rows, 4});
  bool const odd_one = domain.comm().rank() == 0;
  auto const rule_of = [&](torch::Tensor const& a, torch::Tensor const& b) -> std::string {
    try {
      loss(a, b);
    } catch (Error const& error) {
      return error.rule();
    }
    return "none";
  };

  EXPECT_EQ(rule_of(odd_one ? torch::zeros({1, part.num_rows, 3}) : good, good), "ShapeMismatch");
  EXPECT_EQ(rule_of(odd_one ? torch::zeros({1, 9, 4}) : good, odd_one ? torch::zeros({1, 9, 4}) : good),
            "WeightLength");
  EXPECT_EQ(rule_of(good, torch::full_like(good, std::numeric_limits<float>::quiet_NaN())), "EmptyLoss");
}

struct TwoParameters : torch::nn::Module {
  TwoParameters() {
    a = register_parameter("a", torch::zeros({3}, torch::kDouble));
    b = register_parameter("b", torch::zeros({2}, torch::kFloat));
    c = register_parameter("c", torch::zeros({2}, torch::kDouble));
  }
  torch::Tensor a, b, c;
};

TEST(GradientSync, sums_or_averages_by_rule_and_keeps_undefined_gradients) {
  auto const comm = Comm::world();
  double const n = comm.num_ranks();
  TwoParameters module;
  nn::GradientSync sync(module, {{comm, nn::Reduction::sum}});
  sync.set_rules("b", {{comm, nn::Reduction::mean}});
  module.a.mutable_grad() = torch::full({3}, double(comm.rank() + 1), torch::kDouble);
  if (comm.rank() == 0) module.b.mutable_grad() = torch::full({2}, float(n), torch::kFloat);

  sync.reduce();

  EXPECT_TRUE(torch::equal(module.a.grad(), torch::full({3}, n * (n + 1) / 2, torch::kDouble)));
  ASSERT_TRUE(module.b.grad().defined());
  EXPECT_TRUE(torch::equal(module.b.grad(), torch::ones({2}, torch::kFloat)));
  EXPECT_FALSE(module.c.grad().defined());
  EXPECT_THROW(sync.set_rules("d", {}), Error);
}

TEST(GradientSync, broadcast_gives_the_first_ranks_values_to_all) {
  auto const comm = Comm::world();
  TwoParameters module;
  {
    torch::NoGradGuard const no_grad;
    module.a.fill_(comm.rank() + 5);
  }

  nn::GradientSync(module, {{comm, nn::Reduction::sum}}).broadcast();

  EXPECT_TRUE(torch::equal(module.a, torch::full({3}, 5.0, torch::kDouble)));
}

TEST(GradientSync, refuses_replicas_that_differ) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replica";
  torch::nn::Linear module(2, comm.rank() == 0 ? 2 : 3);

  EXPECT_THROW(nn::GradientSync(*module, {{comm, nn::Reduction::sum}}), Error);
}

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
    nn::Conv2d layer(
        nn::Conv2dOptions(torch::nn::Conv2dOptions(1, 1, 3).padding(1).bias(false), nn::Padding::by_domain), domain);
    layer->to(torch::kDouble);
    {
      torch::NoGradGuard const no_grad;
      layer->weight.copy_(weight);
    }
    nn::MSELoss loss(domain, nn::LossOptions{.row_weights = weights_of(part)});
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

}  // namespace
}  // namespace graticule
