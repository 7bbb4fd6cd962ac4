// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/fields.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_fields {

using test::random_field_cuts;

TEST(Fields, come_back_whole_from_any_cuts) {
  std::mt19937 random(1);
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    nn::Domain const domain(comm, grid);
    auto const whole = torch::arange(2 * 3 * 9 * 5, torch::kInt64).view({2, 3, 9, 5});
    for (int repetition = 0; repetition < 4; ++repetition) {
      auto const cuts = random_field_cuts(domain, random, {9, 5});
      auto const shard = nn::shard_of(whole, domain, cuts);

      auto const part = nn::part_of(shard, domain);
      auto const back = nn::whole_field(shard, domain);

      EXPECT_EQ(part.rows.cuts, cuts.rows);
      EXPECT_EQ(part.columns.cuts, cuts.columns);
      EXPECT_EQ(part.rows.size(), shard.size(-2));
      EXPECT_EQ(part.rows.part, domain.latitude_part());
      EXPECT_EQ(part.columns.part, domain.longitude_part());
      EXPECT_TRUE(torch::equal(back, whole)) << to_string(grid);
    }
  }
}

TEST(Fields, are_cut_into_balanced_views_by_default) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const whole = torch::rand({7, 4});

  auto const shard = nn::shard_of(whole, domain);

  EXPECT_EQ(shard.size(0), balanced_cuts(7, comm.num_ranks()).size(comm.rank()));
  EXPECT_TRUE(shard.is_alias_of(whole));
}

TEST(Fields, gather_their_gradients) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const weight = torch::rand({2, 7, 4}, torch::kDouble);
  auto const factor = torch::arange(2 * 7 * 4, torch::kDouble).view({2, 7, 4});
  auto const x = nn::shard_of(factor + 1, domain).clone().requires_grad_();

  auto const whole = nn::whole_field(x, domain);
  // Each rank contributes to the loss by what it makes of the whole field.
  auto const loss = nn::reduce_loss((whole.square() * factor).sum() * double(comm.rank() + 1), domain);
  loss.backward();

  auto const ranks = double(comm.num_ranks() * (comm.num_ranks() + 1)) / 2;
  EXPECT_LT(test::difference(x.grad(), nn::shard_of(2 * (factor + 1) * factor * ranks, domain)), 1e-12);
}

TEST(Fields, reject_what_has_no_rows) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});

  EXPECT_EQ(test::rule_of([&] { (void)nn::shard_of(torch::rand({4}), domain); }), "UnsupportedTensor");
  EXPECT_EQ(test::rule_of([&] { (void)nn::part_of(torch::rand({4}), domain); }), "UnsupportedTensor");
  EXPECT_EQ(test::rule_of([&] { (void)nn::whole_field(torch::rand({4}), domain); }), "UnsupportedTensor");
  EXPECT_EQ(
      test::rule_of([&] {
        (void)nn::shard_of(torch::rand({7, 4}), domain, nn::FieldCuts{balanced_cuts(8, comm.num_ranks()), Cuts{4}});
      }),
      "BadCuts");
}

}  // namespace test_fields
}  // namespace graticule
