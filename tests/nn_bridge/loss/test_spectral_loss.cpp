// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/spectral_loss.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace graticule {
namespace test_spectral_loss {

using nn::LossOptions;
using nn::LossPer;
using nn::LossReduction;
using test::Part;
using test::random_tensor;
using test::row_weights;
using test::row_weights_of;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
using test::Spread;
using torch::Tensor;

/// Amplitudes from sums of cosines and sines, [..., wavenumbers].
Tensor amplitudes(Tensor const& x) {
  auto const n = x.size(-1);
  auto const angle = torch::arange(n, torch::kDouble).unsqueeze(1) *
                     (torch::arange(n / 2 + 1, torch::kDouble) * (2 * std::numbers::pi / double(n)));
  auto const size = (x.matmul(angle.cos()).square() + x.matmul(angle.sin()).square()).sqrt();
  auto factor = torch::full({n / 2 + 1}, 2.0 / double(n), torch::kDouble);
  factor[0] = 1.0 / double(n);
  if (n % 2 == 0) factor[n / 2] = 1.0 / double(n);
  return size * factor;
}

struct Case {
  std::string name;
  Index num_columns;
  LossOptions options = {};
  nn::SpectralOptions spectral = {};
  bool rows = false;
  bool missing = false;
};

std::vector<Case> cases() {
  return {
      {.name = "even", .num_columns = 6},
      {.name = "odd, rows", .num_columns = 5, .rows = true},
      {.name = "absolute, weighted wavenumbers",
       .num_columns = 8,
       .spectral = {.error = nn::SpectralError::absolute, .wavenumber_weights = {0, 1, 2, 0.5, 3}},
       .rows = true},
      {.name = "missing, per channel",
       .num_columns = 7,
       .options = {.per = LossPer::channel},
       .rows = true,
       .missing = true},
      {.name = "sum", .num_columns = 6, .options = {.reduction = LossReduction::sum, .channel_weights = {1, 2, 0}}},
  };
}

Tensor serial_loss(Case const& c, Tensor const& prediction, Tensor const& target) {
  auto const errors = amplitudes(prediction) - amplitudes(target);
  auto weight = torch::ones(errors.sizes(), torch::kDouble);
  if (c.rows) weight = weight * torch::tensor(row_weights(), torch::kDouble).unsqueeze(-1);
  if (!c.spectral.wavenumber_weights.empty())
    weight = weight * torch::tensor(c.spectral.wavenumber_weights, torch::kDouble);
  if (c.missing) weight[0][1][3].fill_(0);
  if (!c.options.channel_weights.empty())
    weight = weight * torch::tensor(c.options.channel_weights, torch::kDouble).view({3, 1, 1});
  auto const f = c.spectral.error == nn::SpectralError::squared ? errors.square() : errors.abs();
  auto const axes =
      c.options.per == LossPer::channel ? std::vector<std::int64_t>{0, 2, 3} : std::vector<std::int64_t>{0, 1, 2, 3};
  auto const sum = (f * weight).sum(axes);
  return c.options.reduction == LossReduction::mean ? sum / weight.sum(axes) : sum;
}

void compare_with_serial(Case const& c, nn::Domain const& domain, std::mt19937& random) {
  auto const part = test::random_part(domain, random, {7, c.num_columns});
  auto const target = random_tensor(random, {2, 3, 7, c.num_columns});
  auto options = c.options;
  if (c.rows && random() % 2)
    options.global_row_weights = row_weights();
  else if (c.rows)
    options.row_weights = row_weights_of(part);
  auto given = target.clone();
  if (c.missing) given[0][1][3][2].fill_(std::numeric_limits<double>::quiet_NaN());
  nn::SpectralLoss loss(domain, options, c.spectral);

  auto const run = SerialComparison{.name = c.name + ", " + to_string(domain.grid()),
                                    .layer = [&](Tensor const& x) { return loss(x, part.of(given)); },
                                    .oracle = [&](Tensor const& x) { return serial_loss(c, x, target); },
                                    .input = part,
                                    .output = [](Tensor const&) { return Shard().spread_as(Spread::replicated); },
                                    .tolerance = {.output = 1e-13}}
                       .expect_equal(random_tensor(random, {2, 3, 7, c.num_columns}), random);

  EXPECT_TRUE(test::same_on_all_ranks(domain.comm(), run.found)) << c.name;
}

TEST(SpectralLoss, equals_the_serial_formula_for_any_cuts) {
  std::mt19937 random(1);
  for (auto const& c : cases())
    for (auto const& domain : test::domains()) compare_with_serial(c, domain, random);
}

TEST(SpectralLoss, sees_the_amplitude_of_a_wave_and_not_its_phase) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, test::grids_of(comm.num_ranks()).front());
  Part const part(domain, Cuts{2}, balanced_cuts(12, domain.grid().extent(1)));
  auto const x = torch::arange(12, torch::kFloat).expand({1, 1, 2, 12}) * float(2 * std::numbers::pi / 12);
  auto const wave = [&](double phase) { return part.of(3 * torch::cos(4 * x + phase)); };
  nn::SpectralOptions const at_four{.wavenumber_weights = {0, 0, 0, 0, 1, 0, 0}};

  EXPECT_NEAR(nn::SpectralLoss(domain, LossOptions(), at_four)(wave(0.3), 0 * wave(0)).item<double>(), 9, 1e-5);
  EXPECT_NEAR(nn::SpectralLoss{domain}(wave(0.3), 0 * wave(0)).item<double>(), 9.0 / 7, 1e-5);
  EXPECT_NEAR(nn::SpectralLoss{domain}(wave(0.3), wave(1)).item<double>(), 0, 1e-10);
}

TEST(SpectralLoss, derivatives_of_first_and_second_order_are_the_numeric_ones) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    nn::Domain const domain(comm, grid);
    Part const part(domain, test::random_cuts(random, 5, grid.extent(0)), test::random_cuts(random, 6, grid.extent(1)));
    auto const target = part.of(random_tensor(random, {1, 2, 5, 6}));
    nn::SpectralLoss loss(domain, LossOptions{.global_row_weights = {1, 2, 3, 2, 1}});

    auto const errors = test::gradient_errors({.function = [&](Tensor const& x) { return loss(x, target); },
                                               .input = test::Spread::sharded,
                                               .output = test::Spread::replicated,
                                               .step = 1e-5},
                                              part.of(random_tensor(random, {1, 2, 5, 6})).clone(), comm);

    EXPECT_LE(errors.first, 1e-7);
    EXPECT_LE(errors.second, 1e-5);
  }
}

TEST(SpectralLoss, refuses_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == 0;
  auto const x = torch::ones({1, 2, 1, 4});

  EXPECT_EQ(rule_of([&] { nn::SpectralLoss{domain}(x, odd_one ? x[0] : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { nn::SpectralLoss{domain}(x, odd_one ? x.to(torch::kLong) : x); }), "UnsupportedTensor");
  nn::SpectralOptions const short_weights{.wavenumber_weights = {1, 2}};
  EXPECT_EQ(rule_of([&] { nn::SpectralLoss(domain, LossOptions(), short_weights)(x, x); }), "ShapeMismatch");
  nn::SpectralOptions const negative{.wavenumber_weights = {-1, 2, 3}};
  EXPECT_EQ(rule_of([&] { nn::SpectralLoss(domain, LossOptions(), negative); }), "BadOption");
  EXPECT_EQ(rule_of([&] { nn::SpectralLoss{domain}(x, x * std::numeric_limits<float>::quiet_NaN()); }), "TooFewValues");
  EXPECT_EQ(nn::SpectralLoss{domain}(x, x).item<double>(), 0);
}

}  // namespace test_spectral_loss
}  // namespace graticule
