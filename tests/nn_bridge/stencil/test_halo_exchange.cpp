// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_halo_exchange {

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

TEST(HaloExchange, double_backward_equals_that_of_the_serially_padded_field) {
  std::mt19937 random(5);
  for (auto const pole : {Edge::pole_face, Edge::pole_row})
    for (auto const& domain : domains(pole)) {
      Width const rows{1, 2};
      Width const columns{3, 1};
      Part const part(domain, random_cuts(random, 5, domain.grid().extent(0)),
                      random_cuts(random, 4, domain.grid().extent(1)));
      auto const x = random_tensor(random, {2, 5, 4});
      auto const direction = random_tensor(random, {2, 5, 4});
      // Serially, the weight of a ghost cell is the sum of those of its copies on all ranks.
      auto whole = x.clone().requires_grad_();
      auto const padded = pad_sphere(whole, rows, columns, pole == Edge::pole_row, {1});
      auto const weights = random_tensor(random, padded.sizes().vec());
      auto const mine = local_part(weights, part, rows, columns);
      auto of_copies = torch::zeros_like(weights);
      if (mine.defined()) local_part(of_copies, part, rows, columns).add_(mine);
      domain.comm().sum(std::span(of_copies.mutable_data_ptr<double>(), std::size_t(of_copies.numel())));
      auto const expected = torch::autograd::grad({(padded.pow(3) * of_copies).sum()}, {whole}, {}, true, true)[0];
      auto const expected_second = torch::autograd::grad({expected}, {whole}, {direction})[0];

      nn::HaloExchange layer(nn::HaloExchangeOptions{rows, columns, {1}}, domain);
      auto shard = part.of(x).clone().requires_grad_();
      auto const found = layer(shard);
      auto const own = mine.defined() ? mine : torch::zeros_like(found);
      auto const first = torch::autograd::grad({(found.pow(3) * own).sum()}, {shard}, {}, true, true)[0];
      auto const second = torch::autograd::grad({first}, {shard}, {part.of(direction)})[0];

      EXPECT_LE(difference(first, part.of(expected)), 1e-12);
      EXPECT_LE(difference(second, part.of(expected_second)), 1e-12);
    }
}

TEST(HaloExchange, has_the_first_and_second_derivatives_that_differences_give) {
  std::mt19937 random(6);
  for (auto const& domain : domains(Edge::pole_row)) {
    Part const part(domain, random_cuts(random, 5, domain.grid().extent(0)),
                    random_cuts(random, 4, domain.grid().extent(1)));
    nn::HaloExchange layer(nn::HaloExchangeOptions{{2, 1}, {0, 2}, {0}}, domain);
    auto const x = part.of(random_tensor(random, {2, 5, 4})).clone();

    auto const errors = test::gradient_errors(
        {.function = [&](torch::Tensor const& t) { return layer(t).pow(3); }, .directions = 2}, x, domain.comm());

    EXPECT_LE(errors.first, 1e-6);
    EXPECT_LE(errors.second, 1e-6);
  }
}

/// Where a field's axes are in a tensor.
struct AxisOrder {
  std::vector<std::int64_t> axes;
  std::int64_t channel_axis;
  std::vector<std::int64_t> order;  ///< of [batch, channels, rows, columns]
};

TEST(HaloExchange, along_any_axes_equals_that_along_the_last_ones) {
  std::mt19937 random(7);
  for (auto const& domain : domains(Edge::pole_row))
    for (auto const& [axes, channel_axis, order] : std::vector<AxisOrder>{{{-3, -2}, -1, {0, 2, 3, 1}},
                                                                          {{-1, -2}, -3, {0, 1, 3, 2}},
                                                                          {{-4, -1}, -2, {2, 0, 1, 3}},
                                                                          {{-4, -2}, -1, {2, 0, 3, 1}},
                                                                          {{-2, -1}, -4, {1, 0, 2, 3}}}) {
      Part const part(domain, random_cuts(random, 7, domain.grid().extent(0)),
                      random_cuts(random, 6, domain.grid().extent(1)));
      nn::HaloExchange reference(nn::HaloExchangeOptions{{2, 1}, {1, 3}, {1}}, domain);
      nn::HaloExchange layer(nn::HaloExchangeOptions{{2, 1}, {1, 3}, {1}, axes, channel_axis}, domain);
      nn::PaddedHaloExchange padded(nn::HaloExchangeOptions{{2, 1}, {1, 3}, {1}, axes, channel_axis}, domain);
      auto shard = part.of(random_tensor(random, {2, 3, 7, 6})).clone().requires_grad_();
      auto const expected = reference(shard);
      auto const cotangent = torch::randn_like(expected);
      expected.backward(cotangent);

      auto moved = shard.detach().permute(order).contiguous().requires_grad_();
      auto const found = layer(moved);
      found.backward(cotangent.permute(order));
      auto field = padded->room_for(moved);
      padded->owned(field).copy_(moved.detach());
      field.requires_grad_();
      auto const filled = padded(field);
      filled.backward(cotangent.permute(order));

      EXPECT_TRUE(torch::equal(found, expected.permute(order)));
      EXPECT_TRUE(found.is_contiguous());
      EXPECT_TRUE(torch::equal(filled, found));
      EXPECT_EQ(filled.const_data_ptr(), field.const_data_ptr());
      EXPECT_LE(difference(moved.grad(), shard.grad().permute(order)), 1e-14);
      EXPECT_LE(difference(padded->owned(field.grad()), moved.grad()), 1e-14);
    }
}

TEST(HaloExchange, along_latitude_alone_reads_each_column_across_a_pole) {
  std::mt19937 random(8);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_face));
  auto const cuts = random_cuts(random, 7, comm.num_ranks());
  auto const own = [&](torch::Tensor const& x) { return x.narrow(0, cuts.lo(comm.rank()), cuts.size(comm.rank())); };
  auto whole = random_tensor(random, {7, 2, 3}).requires_grad_();
  auto const padded = torch::cat({whole.narrow(0, 0, 2).flip(0), whole, whole.narrow(0, 6, 1)});
  nn::HaloExchange layer(nn::HaloExchangeOptions{.latitude = {2, 1}, .axes = {-3}}, domain);
  auto shard = own(whole.detach()).clone().requires_grad_();

  auto const found = layer(shard);
  (found * found).sum().backward();

  if (cuts.size(comm.rank()) == 0) {
    EXPECT_EQ(found.numel(), 0);
  } else {
    EXPECT_TRUE(torch::equal(found, padded.narrow(0, cuts.lo(comm.rank()), cuts.size(comm.rank()) + 3)));
  }
  double product = (shard * shard.grad()).sum().item<double>() - 2 * found.square().sum().item<double>();
  comm.sum(std::span(&product, 1));
  EXPECT_LE(std::abs(product), 1e-10);
}

TEST(HaloExchange, refuses_axes_that_a_tensor_lacks_or_that_say_nothing) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const along = [&](nn::HaloExchangeOptions const& options) { return nn::HaloExchange(options, domain); };

  EXPECT_EQ(rule_of([&] { along({.latitude = {1, 1}, .axes = {0, 1}}); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { along({.latitude = {1, 1}, .axes = {-1, -1}}); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { along({.latitude = {1, 1}, .axes = {}}); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { along({.odd_channels = {0}, .axes = {-3, -2}}); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { along({.longitude = {1, 1}, .axes = {-1}}); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { along({.latitude = {1, 1}, .axes = {-4, -1}})(torch::ones({2, 3, 4})); }), "ShapeMismatch");
  if (comm.num_ranks() == 1) return;
  nn::Domain const columns(comm, ProcessGrid{1, comm.num_ranks()});
  EXPECT_EQ(rule_of([&] {
              nn::HaloExchange(nn::HaloExchangeOptions{.latitude = {1, 1}, .axes = {-1}}, columns);
            }),
            "LongitudeIsCut");
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

}  // namespace test_halo_exchange
}  // namespace graticule
