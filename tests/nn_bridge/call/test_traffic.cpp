// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <gtest/gtest.h>

namespace graticule {
namespace test_traffic {

TEST(Traffic, counts_messages_and_bytes_of_halos_and_of_their_adjoints) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::uniform(2, Edge::replicate));
  nn::HaloExchange layer(nn::HaloExchangeOptions{{1, 1}, {0, 0}, {}}, domain);
  auto const x = torch::ones({2, 3, 4}, torch::kDouble).requires_grad_();
  Index const peers = (comm.rank() > 0 ? 1 : 0) + (comm.rank() + 1 < comm.num_ranks() ? 1 : 0);
  Index const row_bytes = 2 * 4 * 8;
  auto const start = nn::traffic();

  auto const y = layer(x);
  auto const forward = nn::traffic() - start;
  y.sum().backward();
  auto const both = nn::traffic() - start;

  EXPECT_EQ(forward.num_messages, peers);
  EXPECT_EQ(forward.bytes, peers * row_bytes);
  EXPECT_EQ(both.num_messages, 2 * peers);
  EXPECT_EQ(both.bytes, 2 * peers * row_bytes);
}

TEST(Traffic, leaves_out_comparisons_of_calls_and_sums_over_ranks) {
  auto const comm = Comm::world();
  torch::nn::Linear module(3, 2);
  nn::GradientSync const sync(*module, {{comm, nn::Reduction::sum}});
  sync.broadcast();
  module->weight.mutable_grad() = torch::ones_like(module->weight);
  auto const start = nn::traffic();

  sync.reduce();

  auto const made = nn::traffic() - start;
  EXPECT_EQ(made.num_messages, 0);
  EXPECT_EQ(made.bytes, 0);
}

}  // namespace test_traffic
}  // namespace graticule
