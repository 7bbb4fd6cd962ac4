// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "gradient_check.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_reduce_loss {

TEST(ReduceLoss, is_the_sum_on_all_ranks_and_passes_the_cotangent_on) {
  auto const comm = Comm::world();
  double const n = comm.num_ranks();
  auto const part = torch::full({2}, comm.rank() + 1.0, torch::kDouble).requires_grad_();

  auto const sum = nn::reduce_loss(part, comm);
  sum.backward(torch::tensor({3.0, -2.0}, torch::kDouble));

  EXPECT_TRUE(torch::equal(sum.detach(), torch::full({2}, n * (n + 1) / 2, torch::kDouble)));
  EXPECT_TRUE(torch::equal(part.grad(), torch::tensor({3.0, -2.0}, torch::kDouble)));
}

TEST(ReduceLoss, has_the_numeric_derivatives_of_both_orders) {
  auto const comm = Comm::world();
  auto const x = torch::linspace(1, 2, 3 + comm.rank(), torch::kDouble);

  auto const errors = test::gradient_errors(
      {.function = [&](torch::Tensor const& t) { return nn::reduce_loss(t.pow(2).sum(), comm).pow(3); },
       .input = test::Spread::sharded,
       .output = test::Spread::replicated},
      x, comm);

  EXPECT_LE(errors.first, 1e-7);
  EXPECT_LE(errors.second, 1e-6);
}

TEST(ReduceLoss, of_a_domain_ties_layers_to_it_whose_output_one_rank_does_not_use) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::Conv2d layer(torch::nn::Conv2dOptions(1, 1, 3).padding(1).bias(false), domain);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.fill_(1);
  }
  auto const x = torch::ones({1, 1, 2, 3}).requires_grad_();
  bool const uses = comm.rank() == comm.num_ranks() - 1;

  auto const y = layer(x);
  auto const loss = nn::reduce_loss(uses ? y.sum() : torch::zeros({}), domain);
  loss.backward();

  // The last rank's two rows read the two of their own and one of the rank before: 2 x 4 + 3 and, there, 2 x 4 + 3
  // more.
  EXPECT_EQ(loss.item<float>(), comm.num_ranks() == 1 ? 28 : 35);
  bool const reads = comm.rank() + 2 >= comm.num_ranks();
  ASSERT_TRUE(x.grad().defined());
  EXPECT_EQ(x.grad().sum().item<float>() > 0, reads);
}

}  // namespace test_reduce_loss
}  // namespace graticule
