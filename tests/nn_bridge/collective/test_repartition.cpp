// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace graticule {
namespace test_repartition {

using test::difference;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;

nn::Domain make_domain() {
  auto const comm = Comm::world();
  return nn::Domain(comm, ProcessGrid{comm.num_ranks(), 1});
}

std::vector<Cuts> random_cuts_of(std::mt19937& random, nn::Sharding const& sharding, torch::Tensor const& whole) {
  std::vector<Cuts> cuts;
  for (std::size_t a = 0; a < sharding.axes.size(); ++a)
    cuts.push_back(random_cuts(random, whole.size(sharding.axes[a]), sharding.grid.extent(int(a))));
  return cuts;
}

std::vector<Cuts> balanced_cuts_of(nn::Sharding const& sharding, torch::Tensor const& whole) {
  std::vector<Cuts> cuts;
  for (std::size_t a = 0; a < sharding.axes.size(); ++a)
    cuts.push_back(balanced_cuts(whole.size(sharding.axes[a]), sharding.grid.extent(int(a))));
  return cuts;
}

/// What this rank holds of `whole`.
torch::Tensor part_of(torch::Tensor const& whole, nn::Sharding const& sharding, std::vector<Cuts> const& cuts,
                      int rank) {
  auto part = whole;
  auto const coords = sharding.grid.coords(rank);
  for (std::size_t a = 0; a < sharding.axes.size(); ++a)
    part = part.narrow(sharding.axes[a], cuts[a].lo(int(coords[int(a)])), cuts[a].size(int(coords[int(a)])));
  return part;
}

/// Shardings of one to three axes on `num_ranks`, with axes in either order and ranks in any.
std::vector<nn::Sharding> shardings(int num_ranks) {
  std::vector<nn::Sharding> result{
      {{-2}, ProcessGrid{num_ranks}}, {{-3}, ProcessGrid{num_ranks}}, {{-1}, ProcessGrid{num_ranks}}};
  for (auto const& grid : test::grids_of(num_ranks)) {
    result.push_back({{-2, -1}, grid});
    result.push_back({{-1, -3}, grid});
  }
  std::vector<int> reversed;
  for (int r = num_ranks - 1; r >= 0; --r) reversed.push_back(r);
  result.push_back({{-4, -2, -1}, ProcessGrid::on_ranks({1, num_ranks, 1}, reversed)});
  return result;
}

TEST(Repartition, moves_from_any_sharding_to_any_other_and_back) {
  std::mt19937 random(1);
  auto const domain = make_domain();
  int const rank = domain.comm().rank();
  auto const kinds = shardings(domain.comm().num_ranks());
  for (auto const& from : kinds) {
    for (auto const& to : kinds) {
      SCOPED_TRACE(to_string(from) + " to " + to_string(to));
      auto const whole = random_tensor(random, {2, 3, 7, 6});
      auto const cotangent = random_tensor(random, {2, 3, 7, 6});
      bool const given = random() % 2;
      auto const from_cuts = random_cuts_of(random, from, whole);
      auto const to_cuts = given ? random_cuts_of(random, to, whole) : balanced_cuts_of(to, whole);
      nn::Repartition layer(nn::RepartitionOptions{from, to, given ? to_cuts : std::vector<Cuts>{}}, domain);

      auto shard = part_of(whole, from, from_cuts, rank).clone().requires_grad_();
      auto const y = layer(shard);
      auto const z = layer->back(y * y);
      z.backward(part_of(cotangent, from, from_cuts, rank));

      EXPECT_TRUE(torch::equal(y, part_of(whole, to, to_cuts, rank)));
      EXPECT_TRUE(torch::equal(z, part_of(whole.square(), from, from_cuts, rank)));
      EXPECT_LE(difference(shard.grad(), part_of(2 * whole * cotangent, from, from_cuts, rank)), 1e-15);
      for (std::size_t a = 0; a < to.axes.size(); ++a) EXPECT_EQ(layer->after(to.axes[a]).cuts, to_cuts[a]);
      for (std::size_t a = 0; a < from.axes.size(); ++a) EXPECT_EQ(layer->before(from.axes[a]).cuts, from_cuts[a]);
    }
  }
}

/// Rows over all ranks, and channels over all ranks.
nn::RepartitionOptions rows_to_channels(nn::Domain const& domain) {
  return {domain.sharding(), {{-3}, ProcessGrid{domain.comm().num_ranks()}}};
}

struct Moved {
  torch::Tensor there, back;
};

Moved gradients_of(nn::Domain const& domain, torch::Tensor const& shard) {
  nn::Repartition layer(rows_to_channels(domain), domain);
  auto leaf = shard.detach().requires_grad_();
  auto const y = layer(leaf);
  y.sum().backward();
  auto back = y.detach().requires_grad_();
  layer->back(back).sum().backward();
  return {leaf.grad(), back.grad()};
}

TEST(Repartition, adjoints_take_the_expanded_cotangent_of_a_sum) {
  auto const domain = make_domain();
  auto const rows = balanced_cuts(5, domain.grid().extent(0)).size(domain.comm().rank());

  auto const found = gradients_of(domain, torch::full({3, rows, 4}, 2.0, torch::kDouble));

  EXPECT_TRUE(torch::equal(found.there, torch::ones({3, rows, 4}, torch::kDouble)));
  EXPECT_TRUE(torch::equal(found.back, torch::ones_like(found.back)));
}

TEST(Repartition, double_backward_equals_serial) {
  std::mt19937 random(2);
  auto const domain = make_domain();
  auto const options = rows_to_channels(domain);
  int const rank = domain.comm().rank();
  auto const whole = random_tensor(random, {3, 5, 4});
  auto const cotangent = random_tensor(random, {3, 5, 4});
  auto const direction = random_tensor(random, {3, 5, 4});
  auto const cuts = random_cuts_of(random, options.from, whole);
  auto const mine = [&](torch::Tensor const& t) { return part_of(t, options.from, cuts, rank); };
  nn::Repartition layer(options, domain);

  auto shard = mine(whole).clone().requires_grad_();
  auto const z = layer->back(layer(shard).pow(3));
  auto const first = torch::autograd::grad({z}, {shard}, {mine(cotangent)}, true, true)[0];
  auto const second = torch::autograd::grad({first}, {shard}, {mine(direction)}, true, true)[0];
  auto const third = torch::autograd::grad({second}, {shard}, {mine(direction)})[0];

  EXPECT_LE(difference(first, mine(3 * whole.square() * cotangent)), 1e-14);
  EXPECT_LE(difference(second, mine(6 * whole * cotangent * direction)), 1e-14);
  EXPECT_LE(difference(third, mine(6 * cotangent * direction.square())), 1e-14);
}

TEST(Repartition, takes_tensors_of_any_type_and_strides) {
  auto const domain = make_domain();
  auto const options = rows_to_channels(domain);
  int const rank = domain.comm().rank();
  auto const base = torch::arange(2 * 3 * 6 * 4, torch::kFloat).view({2, 3, 6, 4});
  auto const rows = balanced_cuts_of(options.from, base);
  auto const channels = balanced_cuts_of(options.to, base);
  for (auto const type : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kComplexFloat,
                          torch::kComplexDouble, torch::kLong, torch::kBool}) {
    auto const whole = base.to(type);
    auto const contiguous = part_of(whole, options.from, rows, rank).clone();
    auto const last = contiguous.contiguous(torch::MemoryFormat::ChannelsLast);
    auto const permuted = contiguous.permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0});
    for (auto const& x : {contiguous, last, permuted}) {
      nn::Repartition layer(options, domain);
      auto const y = layer(x);

      EXPECT_TRUE(torch::equal(y, part_of(whole, options.to, channels, rank))) << type;
      EXPECT_TRUE(torch::equal(layer->back(y), contiguous)) << type;
      EXPECT_EQ(y.suggest_memory_format(), y.numel() ? x.suggest_memory_format() : y.suggest_memory_format());
      EXPECT_TRUE(torch::equal(x, contiguous));
    }
    nn::Repartition layer(options, domain);
    auto const one = torch::ones({}, type);
    auto const y = layer(one.expand(contiguous.sizes()));
    EXPECT_TRUE(torch::equal(y, torch::ones_like(y)));
  }
}

TEST(Repartition, counts_the_bytes_that_it_sends) {
  auto const domain = make_domain();
  auto const options = rows_to_channels(domain);
  int const rank = domain.comm().rank();
  auto const rows = balanced_cuts(7, domain.comm().num_ranks()).size(rank);
  auto const channels = balanced_cuts(3, domain.comm().num_ranks()).size(rank);
  nn::Repartition layer(options, domain);
  auto const start = nn::traffic();

  auto const y = layer(torch::ones({2, 3, rows, 4}, torch::kDouble));
  auto const there = nn::traffic() - start;
  layer->back(y);
  auto const both = nn::traffic() - start;

  EXPECT_EQ(there.bytes, 8 * 2 * 4 * rows * (3 - channels));
  EXPECT_EQ((both - there).bytes, 8 * 2 * 4 * channels * (7 - rows));
}

TEST(Repartition, conjugates_that_libtorch_puts_off_arrive_as_such) {
  std::mt19937 random(5);
  auto const domain = make_domain();
  auto const options = rows_to_channels(domain);
  int const rank = domain.comm().rank();
  auto const whole = torch::view_as_complex(random_tensor(random, {3, 5, 4, 2}));
  auto const rows = balanced_cuts_of(options.from, whole);
  auto const channels = balanced_cuts_of(options.to, whole);
  nn::Repartition layer(options, domain);

  auto shard = part_of(whole, options.from, rows, rank).clone().requires_grad_();
  auto const y = layer(shard.conj());
  auto const z = layer->back(y.conj());
  auto const w = at::imag(layer(shard).conj());
  (at::real(y * y).sum() + at::imag(z.conj()).sum() + w.sum()).backward();

  EXPECT_TRUE(torch::equal(y, part_of(whole.conj().resolve_conj(), options.to, channels, rank)));
  EXPECT_TRUE(torch::equal(z, shard));
  EXPECT_LE(difference(
                shard.grad(),
                2 * shard.detach().conj() -
                    2 * torch::complex(torch::zeros_like(at::real(shard)), torch::ones_like(at::real(shard))).detach()),
            1e-14);
}

TEST(Repartition, a_gradient_wanted_on_one_rank_only_is_right) {
  std::mt19937 random(3);
  auto const domain = make_domain();
  auto const options = rows_to_channels(domain);
  int const rank = domain.comm().rank();
  auto const whole = random_tensor(random, {3, 5, 4});
  auto const cuts = balanced_cuts_of(options.from, whole);
  bool const wanted = rank == domain.comm().num_ranks() - 1;
  nn::Repartition layer(options, domain);

  auto shard = part_of(whole, options.from, cuts, rank).clone().requires_grad_(wanted);
  layer(shard).square().sum().backward();

  EXPECT_EQ(shard.grad().defined(), wanted);
  if (wanted) {
    EXPECT_LE(difference(shard.grad(), 2 * shard.detach()), 1e-15);
  }
}

TEST(Repartition, two_calls_of_a_layer_that_is_gone_before_backward_are_right) {
  std::mt19937 random(4);
  auto const domain = make_domain();
  auto const options = rows_to_channels(domain);
  int const rank = domain.comm().rank();
  auto const whole = random_tensor(random, {3, 5, 4});
  auto const cuts = random_cuts_of(random, options.from, whole);
  nn::Repartition layer(options, domain);
  auto shard = part_of(whole, options.from, cuts, rank).clone().requires_grad_();

  auto const y = layer(shard).sin();
  auto const z = layer(layer->back(y).exp());
  {
    torch::NoGradGuard const no_grad;
    layer(shard);
  }
  auto const unused = layer(shard * 2);
  layer = nullptr;
  nn::reduce_loss(rank == 0 ? z.sum() + 0 * unused.sum() : z.sum(), domain).backward();

  auto const expected = part_of(whole.sin().exp() * whole.cos(), options.from, cuts, rank);
  EXPECT_LE(difference(shard.grad(), expected), 1e-14);
}

TEST(Repartition, sets_up_once_per_structure_and_back_takes_other_batch_axes) {
  auto const domain = make_domain();
  auto const rows = balanced_cuts(6, domain.grid().extent(0)).size(domain.comm().rank());
  nn::Repartition layer(rows_to_channels(domain), domain);

  for (int call = 0; call < 3; ++call) layer(torch::ones({3, rows, 4}));
  EXPECT_EQ(test::num_set_ups(layer), 1);
  auto const y = layer(torch::ones({2, 3, rows, 4}));
  EXPECT_EQ(test::num_set_ups(layer), 2);
  auto const x = layer->back(torch::stack({y, y, y}).to(torch::kDouble));
  EXPECT_TRUE(torch::equal(x, torch::ones({3, 2, 3, rows, 4}, torch::kDouble)));
  auto const copy = std::dynamic_pointer_cast<nn::RepartitionImpl>(layer->clone());
  ASSERT_TRUE(copy);
  EXPECT_EQ(test::num_set_ups(copy), 0);
  EXPECT_TRUE(torch::equal(copy->forward(torch::ones({2, 3, rows, 4})), y));
}

TEST(Repartition, new_cuts_after_reset_structure) {
  auto const domain = make_domain();
  int const rank = domain.comm().rank();
  int const last = domain.comm().num_ranks() - 1;
  nn::Repartition layer(rows_to_channels(domain), domain);
  layer->back(layer(torch::ones({3, rank == 0 ? 6 : 0, 4})));

  layer->reset_structure();
  auto const y = layer(torch::ones({3, rank == last ? 6 : 0, 4}));

  EXPECT_EQ(y.size(1), 6);
  EXPECT_EQ(layer->back(y).size(1), rank == last ? 6 : 0);
}

TEST(Repartition, refuses_by_name_on_all_ranks) {
  auto const domain = make_domain();
  int const ranks = domain.comm().num_ranks();
  int const rank = domain.comm().rank();
  auto const rows = balanced_cuts(6, ranks).size(rank);
  auto const options = rows_to_channels(domain);
  auto const make = [&](nn::Sharding from, nn::Sharding to, std::vector<Cuts> cuts = {}) {
    return rule_of([&] { nn::Repartition(nn::RepartitionOptions{from, to, cuts}, domain); });
  };
  nn::Sharding const good = options.to;

  EXPECT_EQ(make({{-2}, ProcessGrid{ranks + 1}}, good), "BadOption");
  EXPECT_EQ(make({{-2, -1}, ProcessGrid{ranks}}, good), "BadOption");
  EXPECT_EQ(make({{-2, -2}, ProcessGrid{ranks, 1}}, good), "BadOption");
  EXPECT_EQ(make(good, {{1}, ProcessGrid{ranks}}), "BadOption");
  EXPECT_EQ(make(good, {{}, ProcessGrid{ranks}}), "BadOption");
  EXPECT_EQ(make(good, good, {balanced_cuts(3, ranks), balanced_cuts(3, ranks)}), "BadOption");
  EXPECT_EQ(make(good, good, {balanced_cuts(3, ranks)}), "nothing was thrown");

  nn::Repartition wrong_cuts(nn::RepartitionOptions{options.from, options.to, {balanced_cuts(4, ranks)}}, domain);
  nn::Repartition layer(options, domain);
  EXPECT_EQ(rule_of([&] { wrong_cuts(torch::ones({3, rows, 4})); }), "BadCuts");
  EXPECT_EQ(rule_of([&] { layer->back(torch::ones({3, rows, 4})); }), "WrongState");
  EXPECT_EQ(rule_of([&] { (void)layer->after(-3); }), "BadOption");
  EXPECT_EQ(rule_of([&] {
              layer(rank == 0 ? torch::ones({rows, 4}) : torch::ones({3, rows, 4}));
            }),
            "UnsupportedTensor");
  auto const y = layer(torch::ones({3, rows, 4}));
  EXPECT_EQ(rule_of([&] { layer->back(rank == 0 ? torch::ones({3, 5, 4}) : y); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { (void)layer->after(-4); }), "BadOption");
  if (ranks == 1) return;
  EXPECT_EQ(rule_of([&] { layer(torch::ones({3, rank == 0 ? rows + 1 : rows, 4})); }), "StructureDisagreement");
  layer->reset_structure();
  EXPECT_EQ(rule_of([&] { layer(torch::ones({3, rows, rank == 0 ? 5 : 4})); }), "BadLayout");
}

}  // namespace test_repartition
}  // namespace graticule
