// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/halo_exchange.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace {

using test::difference;
using test::pad_sphere;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;

std::vector<nn::Domain> domains(Edge pole) {
  auto const comm = Comm::world();
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks())) result.emplace_back(comm, grid, Boundary::sphere(pole));
  return result;
}

/// The part of the serially padded field that this rank's local box covers.
torch::Tensor local_part(torch::Tensor const& padded, Part const& part, Width rows, Width columns) {
  if (part.num_rows == 0 || part.num_columns == 0) return {};
  return padded.narrow(-2, part.row, part.num_rows + rows.lower + rows.upper)
      .narrow(-1, part.column, part.num_columns + columns.lower + columns.upper);
}

TEST(HaloExchange, equals_the_serially_padded_field_forward_and_backward) {
  std::mt19937 random(3);
  for (auto const pole : {Edge::pole_face, Edge::pole_row}) {
    for (auto const& domain : domains(pole)) {
      for (int repeat = 0; repeat < 6; ++repeat) {
        Width const rows{Index(random() % 4), Index(random() % 4)};
        Width const columns{Index(random() % 4), Index(random() % 9)};
        Part const part(domain, random_cuts(random, 7, domain.grid().extent(0)),
                        random_cuts(random, 8, domain.grid().extent(1)));
        auto const x = random_tensor(random, {2, 3, 7, 8});
        auto whole = x.clone().requires_grad_();
        auto const padded = pad_sphere(whole, rows, columns, pole == Edge::pole_row, {1});
        auto weights = random_tensor(random, padded.sizes().vec());
        // The serial counterpart of all ranks' cotangents: each ghost copy counts once for each rank that holds it.
        auto cotangent = torch::zeros_like(padded);
        auto const mine = local_part(cotangent, part, rows, columns);
        if (mine.defined()) mine.add_(local_part(weights, part, rows, columns));
        domain.comm().sum(std::span(cotangent.mutable_data_ptr<double>(), std::size_t(cotangent.numel())));
        padded.backward(cotangent);

        nn::HaloExchange layer(nn::HaloExchangeOptions{rows, columns, {1}}, domain);
        auto shard = part.of(x).clone().requires_grad_();
        auto const found = layer(shard);
        auto const expected = local_part(padded, part, rows, columns);
        found.backward(expected.defined() ? local_part(weights, part, rows, columns) : torch::zeros_like(found));

        if (expected.defined()) {
          EXPECT_TRUE(torch::equal(found, expected)) << rows.lower << rows.upper << columns.lower << columns.upper;
        } else {
          EXPECT_EQ(found.numel(), 0);
        }
        EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-13);
      }
    }
  }
}

TEST(HaloExchange, dot_test_is_exact_in_integers) {
  std::mt19937 random(4);
  for (auto const& domain : domains(Edge::pole_row)) {
    Part const part(domain, random_cuts(random, 9, domain.grid().extent(0)),
                    random_cuts(random, 6, domain.grid().extent(1)));
    nn::HaloExchange layer(nn::HaloExchangeOptions{{2, 1}, {1, 3}, {0}}, domain);
    auto shard = part.of(random_tensor(random, {2, 9, 6}).mul(10).round()).clone().requires_grad_();
    auto const y = layer(shard);
    auto const cotangent = torch::randint(-9, 10, y.sizes(), torch::kDouble);
    y.backward(cotangent);
    std::array<double, 2> products{(y * cotangent).sum().item<double>(), (shard * shard.grad()).sum().item<double>()};
    domain.comm().sum(products);

    EXPECT_EQ(products[0], products[1]);
  }
}

TEST(HaloExchange, double_backward_equals_serial) {
  std::mt19937 random(5);
  for (auto const& domain : domains(Edge::pole_face)) {
    Part const part(domain, random_cuts(random, 5, domain.grid().extent(0)),
                    random_cuts(random, 4, domain.grid().extent(1)));
    auto const x = random_tensor(random, {1, 5, 4});
    auto const direction = random_tensor(random, {1, 5, 4});
    Width const width{1, 1};
    nn::HaloExchange layer(nn::HaloExchangeOptions{width, width, {}}, domain);
    auto shard = part.of(x).clone().requires_grad_();
    auto const first = torch::autograd::grad({layer(shard).pow(3).sum()}, {shard}, {}, true, true)[0];
    auto const second = torch::autograd::grad({first}, {shard}, {part.of(direction)})[0];
    // Serially: f(x) = sum over ghost copies of x^3, so f'' is diagonal: 6 x times the number of copies.
    auto copies = torch::zeros({1, 5, 4}, torch::kDouble).requires_grad_();
    auto held = part.of(copies.detach()).clone().requires_grad_();
    layer(held).sum().backward();
    EXPECT_LE(difference(first, 3 * part.of(x).square() * held.grad()), 1e-12);
    EXPECT_LE(difference(second, 6 * part.of(x) * held.grad() * part.of(direction)), 1e-12);
  }
}

TEST(HaloExchange, moves_every_floating_type_and_leaves_its_input_alone) {
  auto const domain = domains(Edge::pole_face).front();
  Part const part(domain, balanced_cuts(6, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
  for (auto const type :
       {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kComplexFloat, torch::kComplexDouble}) {
    auto const x = torch::arange(24, torch::kFloat).view({1, 6, 4}).to(type);
    nn::HaloExchange layer(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
    auto shard = part.of(x).clone().requires_grad_();
    auto const before = shard.detach().clone();
    auto const y = layer(shard);
    auto const expected = local_part(pad_sphere(x, {1, 1}, {1, 1}, false, {}), part, {1, 1}, {1, 1});
    y.backward(torch::ones_like(y));

    if (expected.defined()) {
      EXPECT_TRUE(torch::equal(y, expected)) << type;
    }
    EXPECT_TRUE(torch::equal(shard, before));
    EXPECT_EQ(shard.grad().sizes(), shard.sizes());
  }
}

TEST(HaloExchange, an_exception_elsewhere_on_one_rank_does_not_leave_the_layer_unusable) {
  auto const domain = domains(Edge::pole_face).front();
  nn::HaloExchange layer(nn::HaloExchangeOptions{{1, 1}, {0, 0}, {}}, domain);
  Part const part(domain, balanced_cuts(6, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
  auto const good = torch::ones({1, part.num_rows, part.num_columns});
  auto const bad = domain.comm().rank() == 0 ? torch::ones({3}) : good;

  EXPECT_THROW(layer(bad), Error);

  EXPECT_NO_THROW(layer(good));
}

TEST(HaloExchange, refuses_to_crop_more_than_a_shard_holds_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  // One row on the last rank, four on the others.
  bool const last = comm.rank() == comm.num_ranks() - 1;
  auto const shard = torch::ones({1, last ? 1 : 4, 4});
  nn::HaloExchange crops(nn::HaloExchangeOptions{{-1, -1}, {0, 0}, {}}, domain);
  nn::HaloExchange crops_columns(nn::HaloExchangeOptions{{0, 0}, {2, -7}, {}}, domain);

  EXPECT_EQ(rule_of([&] { crops(shard); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { crops_columns(shard); }), "BadHaloWidth");
}

}  // namespace
}  // namespace graticule
