// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/padded_halo.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_padded_halo {

using test::difference;
using test::Part;
using test::random_cuts;
using test::random_tensor;

struct Setting {
  nn::Domain domain;
  Part part;
  nn::HaloExchangeOptions options;
};

std::vector<Setting> settings(std::mt19937& random) {
  auto const comm = Comm::world();
  std::vector<Setting> result;
  for (auto const pole : {Edge::pole_face, Edge::pole_row})
    for (auto const& grid : test::grids_of(comm.num_ranks())) {
      nn::Domain const domain(comm, grid, Boundary::sphere(pole));
      Part const part(domain, random_cuts(random, 7, grid.extent(0)), random_cuts(random, 6, grid.extent(1)));
      result.push_back({domain, part, {{1, 2}, {3, 0}, {1}}});
    }
  return result;
}

/// A padded field whose halo is NaN.
torch::Tensor padded_field(nn::PaddedHaloExchange& layer, torch::Tensor const& shard) {
  auto field = layer->room_for(shard);
  field.fill_(std::numeric_limits<double>::quiet_NaN());
  layer->owned(field).copy_(shard);
  return field;
}

TEST(PaddedHaloExchange, gives_what_the_halo_exchange_gives_in_the_same_memory) {
  std::mt19937 random(11);
  for (auto const& [domain, part, options] : settings(random)) {
    nn::HaloExchange reference(options, domain);
    nn::PaddedHaloExchange layer(options, domain);
    auto shard = part.of(random_tensor(random, {2, 3, 7, 6})).clone().requires_grad_();
    auto const expected = reference(shard);
    auto const cotangent = torch::randn_like(expected);
    expected.backward(cotangent);

    auto field = padded_field(layer, shard.detach()).requires_grad_();
    auto const found = layer(field);
    found.backward(cotangent);

    EXPECT_TRUE(torch::equal(found, expected));
    EXPECT_EQ(found.const_data_ptr(), field.const_data_ptr());
    auto gradient = field.grad().clone();
    EXPECT_LE(difference(layer->owned(gradient), shard.grad()), 1e-14);
    layer->owned(gradient).zero_();
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0);
  }
}

TEST(PaddedHaloExchange, has_room_along_the_axis_of_which_a_rank_without_cells_has_some) {
  std::mt19937 random(15);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_row));
  std::vector<Index> rows(std::size_t(comm.num_ranks()), 0);
  rows[0] = 7;
  Part const part(domain, Cuts(rows), Cuts{6});
  nn::HaloExchangeOptions const options{{1, 2}, {3, 0}, {1}};
  nn::HaloExchange reference(options, domain);
  nn::PaddedHaloExchange layer(options, domain);
  auto const shard = part.of(random_tensor(random, {2, 3, 7, 6}));

  auto const field = padded_field(layer, shard);
  auto const found = layer(field);

  EXPECT_EQ(found.size(-1), 9);
  EXPECT_TRUE(torch::equal(found, reference(shard)));
  EXPECT_TRUE(torch::equal(layer->owned(found), shard));
}

TEST(PaddedHaloExchange, leaves_gradients_alone_that_others_hold) {
  std::mt19937 random(12);
  for (auto const& [domain, part, options] : settings(random)) {
    nn::PaddedHaloExchange layer(options, domain);
    auto field = padded_field(layer, part.of(random_tensor(random, {3, 7, 6}))).requires_grad_();
    auto const found = layer(field);
    auto const cotangent = torch::randn_like(found);
    auto const before = cotangent.clone();

    found.backward(cotangent, true);
    auto const first = field.grad().clone();
    field.mutable_grad() = torch::Tensor();
    found.sum().backward();  // an expanded gradient
    found.backward(cotangent);

    EXPECT_TRUE(torch::equal(cotangent, before));
    EXPECT_EQ(first.sizes(), field.sizes());
  }
}

TEST(PaddedHaloExchange, writes_into_a_gradient_that_nobody_else_holds) {
  std::mt19937 random(13);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::PaddedHaloExchange layer(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
  auto field = padded_field(layer, torch::ones({1, 2, 4}, torch::kDouble)).requires_grad_();
  auto const weight = torch::randn_like(field);
  void const* passed = nullptr;
  auto const found = layer(field);
  auto const scaled = found * weight;
  found.register_hook([&](torch::Tensor const& g) { passed = g.const_data_ptr(); });

  scaled.backward(torch::ones_like(scaled));

  EXPECT_EQ(field.grad().const_data_ptr(), passed);
}

TEST(PaddedHaloExchange, double_backward_equals_that_of_the_halo_exchange) {
  std::mt19937 random(14);
  for (auto const& [domain, part, options] : settings(random)) {
    nn::HaloExchange reference(options, domain);
    nn::PaddedHaloExchange layer(options, domain);
    auto shard = part.of(random_tensor(random, {3, 7, 6})).clone().requires_grad_();
    auto const direction = torch::randn_like(shard);
    auto const twice = [&](torch::Tensor const& y, torch::Tensor const& x, auto&& own) {
      auto const first = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
      return own(torch::autograd::grad({own(first)}, {x}, {direction})[0]);
    };
    auto const expected = twice(reference(shard), shard, [](torch::Tensor const& x) { return x; });
    auto field = padded_field(layer, shard.detach()).requires_grad_();

    auto const found =
        twice(layer(field), field, [&, &layer = layer](torch::Tensor const& x) { return layer->owned(x); });

    EXPECT_LE(difference(found, expected), 1e-12);
  }
}

TEST(PaddedHaloExchange, refuses_a_field_without_room) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::PaddedHaloExchange layer(nn::HaloExchangeOptions{{2, 2}, {1, 1}, {}}, domain);

  EXPECT_THROW(nn::PaddedHaloExchange(nn::HaloExchangeOptions{{-1, 0}, {0, 0}, {}}, domain), Error);
  EXPECT_THROW(layer(torch::zeros({1, 4, 6})), Error);
  EXPECT_NO_THROW(layer(torch::zeros({1, 5, 6})));
}

}  // namespace test_padded_halo
}  // namespace graticule
