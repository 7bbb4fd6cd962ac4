// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/norm/conservation.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_conservation {

using nn::ConservationOptions;
using nn::Consumer;
using nn::Correction;
using nn::MeanWeights;
using test::difference;
using test::domains;
using test::Part;
using test::random_part;
using test::random_tensor;
using test::row_weights;
using test::row_weights_of;
using test::rule_of;
using test::SerialComparison;
using torch::Tensor;

constexpr Index num_rows = 7;
constexpr Index num_columns = 6;
std::vector<std::int64_t> const cells{2, 3, 4, num_rows, num_columns};

std::vector<double> thickness() { return {3, 2, 1, 0.5}; }

enum class Rows : std::uint8_t { equal, own, global };

MeanWeights weights_of(Part const& part, Rows rows, bool levels) {
  MeanWeights weights;
  if (rows == Rows::global) weights.global_rows = row_weights();
  if (rows == Rows::own) weights.rows = row_weights_of(part);
  if (levels) weights.levels = thickness();
  return weights;
}

/// Means of the whole field, with axes of size 1 for those that they go over.
Tensor serial_mean(Tensor const& x, Rows rows, bool levels) {
  auto weight = torch::ones(x.sizes(), torch::kDouble);
  if (rows != Rows::equal) weight = weight * torch::tensor(row_weights(), torch::kDouble).unsqueeze(-1);
  if (levels) weight = weight * torch::tensor(thickness(), torch::kDouble).view({-1, 1, 1});
  auto const axes = levels ? std::vector<std::int64_t>{-3, -2, -1} : std::vector<std::int64_t>{-2, -1};
  return (x * weight).sum(axes, true) / weight.sum(axes, true);
}

TEST(GlobalMean, equals_the_serial_mean_with_the_gradient_for_either_consumer) {
  std::mt19937 random(1);
  for (auto const& domain : domains())
    for (auto const rows : {Rows::equal, Rows::own, Rows::global})
      for (auto const consumer : {Consumer::distinct, Consumer::replicated}) {
        bool const levels = rows == Rows::own;
        auto const part = random_part(domain, random, cells);
        auto const x = random_tensor(random, cells) + 100;
        nn::GlobalMean mean(consumer, domain, weights_of(part, rows, levels));

        EXPECT_LE(difference(mean(part.of(x)), serial_mean(x, rows, levels).squeeze(-1).squeeze(-1).squeeze(-1)),
                  1e-14);
        auto const errors = test::gradient_errors(
            {.function = [&](Tensor const& t) { return mean(t); },
             .input = test::Spread::sharded,
             .output = consumer == Consumer::replicated ? test::Spread::replicated : test::Spread::partial,
             .step = 1.0},
            part.of(x).clone(), domain.comm());
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
  for (auto const& c : cases())
    for (auto const& domain : domains()) {
      auto const part = random_part(domain, random, cells);
      auto const reference = test::leaf_of(random_tensor(random, cells) + 3);
      auto const own_reference = test::leaf_of(part.of(reference));
      nn::ConservationFixer fixer(domain,
                                  ConservationOptions{c.correction, c.channels, weights_of(part, c.rows, c.levels)});

      auto const run = SerialComparison{
          .name = c.name + ", " + to_string(domain.grid()),
          .layer = [&](Tensor const& x) { return fixer(x, own_reference); },
          .oracle = [&](Tensor const& x) { return serial_fix(c, x, serial_mean(reference, c.rows, c.levels)); },
          .input = part,
          .tolerance = {.output = 1e-13}}
                           .expect_equal(random_tensor(random, cells) + 2, random);

      EXPECT_TRUE(test::close(own_reference.grad(), part.of(reference.grad()), 1e-12, part)) << c.name;
      nn::GlobalMean mean(Consumer::replicated, domain, weights_of(part, c.rows, c.levels));
      auto const of_reference = mean(own_reference.detach());
      auto const of_found = mean(run.found.detach());
      for (auto const channel : c.channels.empty() ? std::vector<std::int64_t>{0, 1, 2} : c.channels)
        EXPECT_LE(difference(of_found.select(1, channel), of_reference.select(1, channel)), 1e-14) << c.name;
    }
}

TEST(ConservationFixer, reaches_given_means_whose_gradients_are_partial_sums) {
  std::mt19937 random(3);
  for (auto const& c : cases())
    for (auto const& domain : domains()) {
      auto const part = random_part(domain, random, cells);
      auto const channels = c.channels.empty() ? std::vector<std::int64_t>{0, 1, 2} : c.channels;
      std::vector<std::int64_t> sizes{2, std::int64_t(channels.size())};
      if (!c.levels) sizes.push_back(4);
      auto const means = test::leaf_of(random_tensor(random, sizes));
      auto const own_means = test::leaf_of(means);
      sizes[1] = 3;
      auto of_all = torch::zeros(sizes, torch::kDouble).index_copy(1, torch::tensor(channels), means);
      while (of_all.dim() < 5) of_all = of_all.unsqueeze(-1);
      nn::ConservationFixer fixer(domain,
                                  ConservationOptions{c.correction, c.channels, weights_of(part, c.rows, c.levels)});

      SerialComparison{.name = c.name + ", " + to_string(domain.grid()),
                       .layer = [&](Tensor const& x) { return fixer->to_means(x, own_means); },
                       .oracle = [&](Tensor const& x) { return serial_fix(c, x, of_all); },
                       .input = part,
                       .tolerance = {.output = 1e-13}}
          .expect_equal(random_tensor(random, cells) + 2, random);

      EXPECT_TRUE(test::close(test::over_ranks(domain.comm(), own_means.grad()), means.grad(), 1e-12)) << c.name;
    }
}

TEST(ConservationFixer, second_derivatives_are_the_numeric_ones) {
  std::mt19937 random(4);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Part const part(domain, test::random_cuts(random, num_rows, comm.num_ranks()), Cuts{num_columns});
  auto const reference = part.of(random_tensor(random, cells) + 3);
  nn::ConservationFixer fixer(
      domain, ConservationOptions{.correction = Correction::multiplicative, .weights = {.global_rows = row_weights()}});

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
  EXPECT_EQ(rule_of([&] { fixer({.channels = {2}})(x, x); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { (void)fixer({.channels = {1, 1}}); }), (test::ErrorWith{"BadOption", "once"}));
  EXPECT_EQ(rule_of([&] { fixer({.correction = Correction::multiplicative})(0 * x, x); }), "NotFinite");
  EXPECT_EQ(rule_of([&] { mean({.global_rows = {1}})(torch::ones({1, 2, 2, 4})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { mean({.rows = {1, odd_one ? 2.0 : 1.0}})(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { mean({.rows = {0}})(x); }), "TooFewValues");
  EXPECT_EQ(rule_of([&] { (void)mean({.rows = {odd_one ? -1.0 : 1.0}}); }), (test::ErrorWith{"BadOption", "negative"}));
  EXPECT_TRUE(torch::equal(fixer()(x, 2 * x), 2 * x));
}

}  // namespace test_conservation
}  // namespace graticule
