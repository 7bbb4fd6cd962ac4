// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>

#include <gtest/gtest.h>

namespace graticule {
namespace test_gradient_sync {

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

}  // namespace test_gradient_sync
}  // namespace graticule
