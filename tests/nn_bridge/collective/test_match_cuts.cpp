// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/fields.hpp>
#include <graticule/nn_bridge/collective/match_cuts.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_match_cuts {

using test::random_field_cuts;

TEST(MatchCuts, moves_every_cell_to_the_other_cuts) {
  std::mt19937 random(1);
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    nn::Domain const domain(comm, grid);
    for (int repetition = 0; repetition < 8; ++repetition) {
      nn::MatchCuts match(domain);
      auto const from = random_field_cuts(domain, random, {11, 6});
      auto const to = random_field_cuts(domain, random, {11, 6});
      auto const whole = torch::arange(3 * 11 * 6, torch::kDouble).view({3, 11, 6});

      auto const moved =
          match->forward(nn::shard_of(whole, domain, from), nn::shard_of(torch::zeros({2, 5, 11, 6}), domain, to));

      EXPECT_TRUE(torch::equal(moved, nn::shard_of(whole, domain, to))) << to_string(grid) << " " << repetition;
    }
  }
}

TEST(MatchCuts, has_derivatives_of_any_order) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::MatchCuts match(domain);
  auto const whole = test::random_tensor(random, {2, 9, 4});
  auto const factor = test::random_tensor(random, {2, 9, 4});
  auto const from = random_field_cuts(domain, random, {9, 4});
  auto const to = random_field_cuts(domain, random, {9, 4});
  auto const x = nn::shard_of(whole, domain, from).clone().requires_grad_();

  auto const y = match->forward(x, nn::shard_of(factor, domain, to));
  auto const loss = nn::reduce_loss((y.pow(3) * nn::shard_of(factor, domain, to)).sum(), domain);
  auto const first = torch::autograd::grad({loss}, {x}, {}, true, true)[0];
  auto const again = nn::reduce_loss(first.square().sum(), domain);
  auto const second = torch::autograd::grad({again}, {x})[0];

  auto const slope = 3 * whole.square() * factor;
  EXPECT_LT(test::difference(first.detach(), nn::shard_of(slope, domain, from)), 1e-12);
  EXPECT_LT(test::difference(second, nn::shard_of(2 * slope * 6 * whole * factor, domain, from)), 1e-12);
}

TEST(MatchCuts, returns_a_field_of_the_same_cuts_itself) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const x = nn::shard_of(torch::rand({1, 2, 7, 4}), domain);

  EXPECT_TRUE(nn::MatchCuts(domain)->forward(x, nn::shard_of(torch::rand({7, 4}), domain)).is_same(x));
  EXPECT_TRUE(nn::MatchCuts()->forward(x, x).is_same(x));
}

TEST(MatchCuts, follows_new_cuts) {
  std::mt19937 random(3);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::MatchCuts match(domain);
  auto const whole = test::random_tensor(random, {1, 13, 4});
  auto const from = random_field_cuts(domain, random, {13, 4});
  for (int repetition = 0; repetition < 6; ++repetition) {
    auto const to = random_field_cuts(domain, random, {13, 4});
    match->reset_structure();
    auto const moved = match->forward(nn::shard_of(whole, domain, from), nn::shard_of(whole, domain, to));
    EXPECT_TRUE(torch::equal(moved, nn::shard_of(whole, domain, to))) << repetition;
  }
}

TEST(MatchCuts, rejects_other_rows_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::MatchCuts match(domain);
  auto const x = nn::shard_of(torch::rand({1, 2, 12, 4}), domain);

  EXPECT_EQ(test::rule_of([&] {
              match->forward(x, nn::shard_of(torch::rand({1, 2, 13, 4}), domain));
            }),
            "ShapeMismatch");
  match->reset_structure();
  EXPECT_EQ(test::rule_of([&] { match->forward(torch::rand({4}), x); }), "UnsupportedTensor");
  match->reset_structure();
  EXPECT_TRUE(match->forward(x, x).is_same(x));
}

}  // namespace test_match_cuts
}  // namespace graticule
