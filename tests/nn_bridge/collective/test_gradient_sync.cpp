// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>

#include "expect_error.hpp"

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

TEST(GradientSync, refuses_tensors_without_values_on_all_ranks) {
  auto const comm = Comm::world();
  for (int odd_one : {-1, 0, comm.num_ranks() - 1})
    for (bool const of_buffer : {false, true}) {
      torch::nn::Module module;
      bool const odd = odd_one < 0 || odd_one == comm.rank();
      auto const tensor = torch::zeros({2}, odd ? torch::kMeta : torch::kCPU);
      of_buffer ? module.register_buffer("a", tensor) : module.register_parameter("a", tensor);

      EXPECT_EQ(test::rule_of([&] {
                  nn::GradientSync(module, {{comm, nn::Reduction::sum}});
                }),
                (test::ErrorWith{"UnsupportedTensor", "'a' has no values"}));
    }
}

TEST(GradientSync, names_a_sparse_gradient_on_all_ranks) {
  auto const comm = Comm::world();
  for (int odd_one : {-1, 0, comm.num_ranks() - 1}) {
    torch::nn::Embedding module(torch::nn::EmbeddingOptions(5, 2).sparse(true));
    nn::GradientSync const sync(*module, {{comm, nn::Reduction::sum}});
    sync.broadcast();
    if (odd_one < 0 || odd_one == comm.rank()) module(torch::arange(2)).sum().backward();

    EXPECT_EQ(test::rule_of([&] { sync.reduce(); }),
              (test::ErrorWith{"UnsupportedTensor", "the gradient of 'weight' is sparse"}));
  }
}

TEST(GradientSync, names_a_parameter_that_is_frozen_on_some_ranks) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replica";
  TwoParameters module;
  nn::GradientSync const sync(module, {{comm, nn::Reduction::sum}});
  (module.a.sum() + module.c.sum()).backward();
  if (comm.rank() == 0) module.c.set_requires_grad(false);

  EXPECT_EQ(test::rule_of([&] { sync.reduce(); }), (test::ErrorWith{"ReplicaMismatch", "c Double [ 2 ], frozen"}));
}

TEST(GradientSync, finds_gradients_that_were_not_reduced_and_parameters_that_differ) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replica";
  TwoParameters module;
  nn::GradientSync sync(module, {{comm, nn::Reduction::mean}});
  sync.set_rules("b", {});
  (module.a.sum() * comm.rank() + module.b.sum() * comm.rank()).backward();

  EXPECT_EQ(test::rule_of([&] { sync.require_equal(); }), (test::ErrorWith{"ReplicaMismatch", "the gradient of 'a'"}));
  sync.reduce();
  EXPECT_NO_THROW(sync.require_equal());
  if (comm.rank() == 1) module.c.mutable_grad() = torch::ones({2}, torch::kDouble);
  EXPECT_EQ(test::rule_of([&] { sync.require_equal(); }), (test::ErrorWith{"ReplicaMismatch", "no gradient of 'c'"}));
  module.c.mutable_grad() = torch::Tensor();
  torch::NoGradGuard const no_grad;
  module.c.add_(comm.rank());
  EXPECT_EQ(test::rule_of([&] { sync.require_equal(); }), (test::ErrorWith{"ReplicaMismatch", "c with checksum"}));
}

}  // namespace test_gradient_sync
}  // namespace graticule
