// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/norm/conservation.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace graticule {
namespace {

using nn::ConservationOptions;
using nn::Consumer;
using nn::Correction;
using nn::MeanWeights;
using test::difference;
using test::Part;
using test::random_tensor;
using test::rule_of;
using torch::Tensor;

constexpr Index num_rows = 7;
constexpr Index num_columns = 6;
std::vector<std::int64_t> const cells{2, 3, 4, num_rows, num_columns};

std::vector<double> area() { return {0.1, 0.5, 0.9, 1.0, 0.8, 0.4, 0.05}; }
std::vector<double> thickness() { return {3, 2, 1, 0.5}; }

enum class Rows : std::uint8_t { equal, own, global };

MeanWeights weights_of(Part const& part, Rows rows, bool levels) {
  MeanWeights weights;
  if (rows == Rows::global) weights.global_rows = area();
  if (rows == Rows::own)
    for (Index i = 0; i < part.num_rows; ++i) weights.rows.push_back(area()[std::size_t(part.row + i)]);
  if (levels) weights.levels = thickness();
  return weights;
}

/// Means of the whole field, with axes of size 1 for those that they go over.
Tensor serial_mean(Tensor const& x, Rows rows, bool levels) {
  auto weight = torch::ones(x.sizes(), torch::kDouble);
  if (rows != Rows::equal) weight = weight * torch::tensor(area(), torch::kDouble).unsqueeze(-1);
  if (levels) weight = weight * torch::tensor(thickness(), torch::kDouble).view({-1, 1, 1});
  auto const axes = levels ? std::vector<std::int64_t>{-3, -2, -1} : std::vector<std::int64_t>{-2, -1};
  return (x * weight).sum(axes, true) / weight.sum(axes, true);
}

TEST(GlobalMean, equals_the_serial_mean_with_the_gradient_for_either_consumer) {
  std::mt19937 random(1);
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks()))
    for (auto const rows : {Rows::equal, Rows::own, Rows::global})
      for (auto const consumer : {Consumer::distinct, Consumer::replicated}) {
        bool const levels = rows == Rows::own;
        nn::Domain const domain(comm, grid);
        Part const part(domain, test::random_cuts(random, num_rows, grid.extent(0)),
                        test::random_cuts(random, num_columns, grid.extent(1)));
        auto const x = random_tensor(random, cells) + 100;
        nn::GlobalMean mean(consumer, domain, weights_of(part, rows, levels));

        EXPECT_LE(difference(mean(part.of(x)), serial_mean(x, rows, levels).squeeze(-1).squeeze(-1).squeeze(-1)),
                  1e-14);
        auto const errors = test::gradient_errors(
            {.function = [&](Tensor const& t) { return mean(t); },
             .input = test::Spread::sharded,
             .output = consumer == Consumer::replicated ? test::Spread::replicated : test::Spread::partial,
             .step = 1.0},
            part.of(x).clone(), comm);
        EXPECT_LE(errors.first, 1e-11);
        EXPECT_LE(errors.second, 1e-11);
      }
}

struct Case {
  std::string name;
  Correction correction;
  std::vector<std::int64_t> channels = {};
  Rows rows = Rows::equal;
  bool levels = false;
};

std::vector<Case> cases() {
  return {
      {.name = "additive", .correction = Correction::additive},
      {.name = "additive, some channels", .correction = Correction::additive, .channels = {2, 0}, .rows = Rows::own},
      {.name = "additive, levels", .correction = Correction::additive, .rows = Rows::global, .levels = true},
      {.name = "multiplicative", .correction = Correction::multiplicative, .rows = Rows::global},
      {.name = "multiplicative, one channel, levels",
       .correction = Correction::multiplicative,
       .channels = {1},
       .rows = Rows::own,
       .levels = true},
  };
}

Tensor serial_fix(Case const& c, Tensor const& prediction, Tensor const& wanted) {
  auto const mean = serial_mean(prediction, c.rows, c.levels);
  auto const fixed = c.correction == Correction::additive ? prediction + (wanted - mean) : prediction * (wanted / mean);
  if (c.channels.empty()) return fixed;
  auto chosen = torch::zeros({3}, torch::kBool);
  for (auto const channel : c.channels) chosen[channel] = true;
  return torch::where(chosen.view({3, 1, 1, 1}), fixed, prediction);
}

TEST(ConservationFixer, keeps_the_means_of_a_field_as_serial) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  for (auto const& c : cases())
    for (auto const& grid : test::grids_of(comm.num_ranks())) {
      SCOPED_TRACE(c.name + ", " + to_string(grid));
      nn::Domain const domain(comm, grid);
      Part const part(domain, test::random_cuts(random, num_rows, grid.extent(0)),
                      test::random_cuts(random, num_columns, grid.extent(1)));
      auto const prediction = random_tensor(random, cells) + 2;
      auto const reference = random_tensor(random, cells) + 3;
      auto const cotangent = random_tensor(random, cells);
      nn::ConservationFixer fixer(domain,
                                  ConservationOptions{c.correction, c.channels, weights_of(part, c.rows, c.levels)});

      auto whole = prediction.clone().requires_grad_();
      auto whole_reference = reference.clone().requires_grad_();
      auto const expected = serial_fix(c, whole, serial_mean(whole_reference, c.rows, c.levels));
      expected.backward(cotangent);
      auto shard = part.of(prediction).clone().requires_grad_();
      auto own_reference = part.of(reference).clone().requires_grad_();
      auto const found = fixer(shard, own_reference);
      found.backward(part.of(cotangent));

      EXPECT_LE(difference(found.detach(), part.of(expected.detach())), 1e-13);
      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
      EXPECT_LE(difference(own_reference.grad(), part.of(whole_reference.grad())), 1e-12);
      nn::GlobalMean mean(Consumer::replicated, domain, weights_of(part, c.rows, c.levels));
      auto const of_reference = mean(part.of(reference));
      auto const of_found = mean(found.detach());
      for (auto const channel : c.channels.empty() ? std::vector<std::int64_t>{0, 1, 2} : c.channels)
        EXPECT_LE(difference(of_found.select(1, channel), of_reference.select(1, channel)), 1e-14);
    }
}

TEST(ConservationFixer, reaches_given_means_whose_gradients_are_partial_sums) {
  std::mt19937 random(3);
  auto const comm = Comm::world();
  for (auto const& c : cases())
    for (auto const& grid : test::grids_of(comm.num_ranks())) {
      SCOPED_TRACE(c.name + ", " + to_string(grid));
      nn::Domain const domain(comm, grid);
      Part const part(domain, test::random_cuts(random, num_rows, grid.extent(0)),
                      test::random_cuts(random, num_columns, grid.extent(1)));
      auto const prediction = random_tensor(random, cells) + 2;
      auto const cotangent = random_tensor(random, cells);
      auto const num_chosen = c.channels.empty() ? 3 : std::int64_t(c.channels.size());
      auto const means = random_tensor(
          random, c.levels ? std::vector<std::int64_t>{2, num_chosen} : std::vector<std::int64_t>{2, num_chosen, 4});
      nn::ConservationFixer fixer(domain,
                                  ConservationOptions{c.correction, c.channels, weights_of(part, c.rows, c.levels)});

      auto whole = prediction.clone().requires_grad_();
      auto whole_means = means.clone().requires_grad_();
      auto of_all =
          torch::zeros(c.levels ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{2, 3, 4}, torch::kDouble);
      auto const channels = c.channels.empty() ? std::vector<std::int64_t>{0, 1, 2} : c.channels;
      of_all = of_all.index_copy(1, torch::tensor(channels), whole_means);
      while (of_all.dim() < 5) of_all = of_all.unsqueeze(-1);
      serial_fix(c, whole, of_all).backward(cotangent);
      auto shard = part.of(prediction).clone().requires_grad_();
      auto own_means = means.clone().requires_grad_();
      auto const found = fixer->to_means(shard, own_means);
      found.backward(part.of(cotangent));
      auto const sum = nn::reduce_loss(own_means.grad(), comm);

      EXPECT_LE(difference(found.detach(), part.of(serial_fix(c, prediction, of_all.detach()))), 1e-13);
      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
      EXPECT_LE(difference(sum.detach(), whole_means.grad()), 1e-12);
    }
}

TEST(ConservationFixer, second_derivatives_are_the_numeric_ones) {
  std::mt19937 random(4);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Part const part(domain, test::random_cuts(random, num_rows, comm.num_ranks()), Cuts{num_columns});
  auto const reference = part.of(random_tensor(random, cells) + 3);
  nn::ConservationFixer fixer(
      domain, ConservationOptions{.correction = Correction::multiplicative, .weights = {.global_rows = area()}});

  auto const errors =
      test::gradient_errors({.function = [&](Tensor const& x) { return fixer(x, reference); }, .step = 1e-4},
                            part.of(random_tensor(random, cells) + 2).clone(), comm);

  EXPECT_LE(errors.first, 1e-6);
  EXPECT_LE(errors.second, 1e-6);
}

TEST(ConservationFixer, keeps_the_type_of_the_prediction) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::ConservationFixer fixer(domain, ConservationOptions{.channels = {1}});
  for (auto const type : {torch::kFloat, torch::kBFloat16}) {
    auto const y = fixer(torch::ones({1, 2, 2, 4}, type), torch::full({1, 2, 2, 4}, 3, type));

    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_TRUE(torch::equal(y.select(1, 0), torch::ones({1, 2, 4}, type)));
    EXPECT_TRUE(torch::equal(y.select(1, 1), torch::full({1, 2, 4}, 3, type)));
  }
}

TEST(Conservation, refuses_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == 0;
  auto const x = torch::ones({1, 2, 1, 4});
  auto const fixer = [&](ConservationOptions options = {}) { return nn::ConservationFixer(domain, options); };
  auto const mean = [&](MeanWeights weights) { return nn::GlobalMean(Consumer::distinct, domain, weights); };

  EXPECT_EQ(rule_of([&] { fixer()(x, odd_one ? x[0] : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { fixer()(odd_one ? x[0] : x, odd_one ? x[0] : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              fixer()->to_means(x, odd_one ? torch::ones({1, 1}) : torch::ones({1, 2}));
            }),
            "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { fixer({.channels = {2}})(x, x); }), "ChannelOutOfRange");
  EXPECT_EQ(rule_of([&] { (void)fixer({.channels = {1, 1}}); }), "RepeatedChannel");
  EXPECT_EQ(rule_of([&] { fixer({.correction = Correction::multiplicative})(0 * x, x); }), "ZeroMean");
  EXPECT_EQ(rule_of([&] { mean({.global_rows = {1}})(torch::ones({1, 2, 2, 4})); }), "WeightLength");
  EXPECT_EQ(rule_of([&] { mean({.rows = {1, odd_one ? 2.0 : 1.0}})(x); }), "WeightLength");
  EXPECT_EQ(rule_of([&] { mean({.rows = {0}})(x); }), "EmptyMean");
  EXPECT_EQ(rule_of([&] { (void)mean({.rows = {odd_one ? -1.0 : 1.0}}); }), "BadWeights");
  EXPECT_TRUE(torch::equal(fixer()(x, 2 * x), 2 * x));
}

}  // namespace
}  // namespace graticule
