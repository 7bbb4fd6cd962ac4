// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/options.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace graticule {
namespace test_options {

using test::bands;
using test::difference;
using test::Part;
using test::random_tensor;
using test::row_weights;
using test::row_weights_of;

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
              sum += row_weights()[std::size_t(i)] * (squared ? d * d : std::abs(d));
              weight += row_weights()[std::size_t(i)];
            }

      nn::LossOptions const options{.row_weights = row_weights_of(part)};
      auto shard = part.of(prediction).clone().requires_grad_();
      auto const found = squared ? nn::MSELoss(domain, options)(shard, part.of(target))
                                 : nn::L1Loss(domain, options)(shard, part.of(target));
      found.backward();

      EXPECT_NEAR(found.item<double>(), sum / weight, 1e-13);
      EXPECT_FALSE(shard.grad().isnan().any().item<bool>());
      auto const scaled = torch::where(
          part.of(target).isnan(), torch::zeros_like(shard),
          squared ? 2 * (part.of(prediction) - part.of(target)) : (part.of(prediction) - part.of(target)).sign());
      auto const rows = torch::tensor(row_weights_of(part), torch::kDouble).unsqueeze(-1);
      EXPECT_LE(difference(shard.grad(), scaled * rows / weight), 1e-13);
    }
  }
}

TEST(RowWeightedLoss, refuses_bad_arguments_on_all_ranks) {
  auto const domain = bands();
  Part const part(domain, balanced_cuts(7, domain.grid().extent(0)), Cuts{4});
  nn::MSELoss loss(domain, nn::LossOptions{.row_weights = row_weights_of(part)});
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
            "ShapeMismatch");
  EXPECT_EQ(rule_of(good, torch::full_like(good, std::numeric_limits<float>::quiet_NaN())), "TooFewValues");
}

}  // namespace test_options
}  // namespace graticule
