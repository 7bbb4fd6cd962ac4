// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "serial_comparison.hpp"
#include "spherical_reference.hpp"

#include <gtest/gtest.h>

#include <array>

namespace graticule {
namespace test_spherical_harmonics {

using nn::latitude_rule;
using nn::LatitudeGrid;
using test::difference;
using test::domains;
using test::Part;
using test::random_complex;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;

constexpr std::array grids{LatitudeGrid::gaussian, LatitudeGrid::half_way, LatitudeGrid::both_poles,
                           LatitudeGrid::one_pole, LatitudeGrid::no_pole};

Part random_part(nn::Domain const& domain, std::mt19937& random, Index rows, Index columns) {
  return test::random_part(domain, random, {rows, columns});
}

/// This rank's coefficients.
Shard shard_of(nn::AxisPart const& orders) { return Shard().cut(-1, orders.lo(), orders.size()); }
torch::Tensor own_orders(torch::Tensor const& whole, nn::AxisPart const& orders) { return shard_of(orders).of(whole); }

struct Case {
  LatitudeGrid grid;
  Index rows;
  Index columns;
  Index num_degrees = 0;
  Index num_orders = 0;
  std::vector<std::int64_t> batch = {2};
};

std::vector<Case> const& cases() {
  static std::vector<Case> const table{
      {LatitudeGrid::gaussian, 8, 16},
      {LatitudeGrid::gaussian, 7, 9, 5, 3, {}},
      {LatitudeGrid::gaussian, 2, 1},
      {LatitudeGrid::half_way, 8, 16, 8, 8},
      {LatitudeGrid::half_way, 5, 4, 5, 3, {2, 3}},
      {LatitudeGrid::both_poles, 9, 12, 7, 7},
      {LatitudeGrid::both_poles, 9, 18, 0, 0, {1, 2, 1}},
      {LatitudeGrid::one_pole, 8, 16, 6, 1},
      {LatitudeGrid::no_pole, 7, 8, 7, 5},
      {LatitudeGrid::gaussian, 20, 40, 19, 19, {1}},
  };
  return table;
}

/// Values and gradients of both ways against dense sums over the whole field.
void expect_dense(nn::Domain const& domain, Case const& c, std::mt19937& random) {
  auto const rule = latitude_rule(c.grid, c.rows);
  auto const name = to_string(rule) + " on " + to_string(domain.grid());
  nn::SphericalTransform layer(nn::SphericalTransformOptions{rule, c.num_degrees, c.num_orders}, domain);
  auto const degrees = c.num_degrees ? c.num_degrees : rule.num_degrees;
  auto const orders = c.num_orders ? c.num_orders : std::min(degrees, (c.columns + 1) / 2);
  test::SphericalReference const reference(rule, degrees, orders, c.columns);
  auto field = c.batch;
  field.insert(field.end(), {c.rows, c.columns});
  auto spectrum = c.batch;
  spectrum.insert(spectrum.end(), {degrees, orders});
  Part const part = random_part(domain, random, c.rows, c.columns);

  SerialComparison{.name = name,
                   .layer = layer,
                   .oracle = [&](torch::Tensor const& x) { return reference.analyse(x); },
                   .input = part,
                   .output = [&](torch::Tensor const&) { return shard_of(layer->orders()); }}
      .expect_equal(random_tensor(random, field), random);
  ASSERT_EQ(layer->orders().extent(), orders);
  SerialComparison{.name = "inverse of " + name,
                   .layer = [&](torch::Tensor const& coefficients) { return layer->inverse(coefficients); },
                   .oracle = [&](torch::Tensor const& coefficients) { return reference.synthesise(coefficients); },
                   .input = shard_of(layer->orders()),
                   .output = [&](torch::Tensor const&) { return part; }}
      .expect_equal(random_complex(random, spectrum), random);
}

TEST(SphericalTransform, equals_dense_sums_for_random_cuts) {
  std::mt19937 random(21);
  for (auto const& domain : domains())
    for (auto const& c : cases()) expect_dense(domain, c, random);
}

/// Without pairs of rows that share polynomials: the middle row of 7 lies off the equator, or one row is a little off.
TEST(SphericalTransform, equals_dense_sums_for_rows_that_do_not_mirror_each_other) {
  std::mt19937 random(30);
  auto const domain = domains().back();
  for (std::size_t const row : {1U, 3U}) {
    auto rule = latitude_rule(LatitudeGrid::half_way, 7);
    rule.latitudes[row] += 2;
    rule.sines[row] = std::sin(rule.latitudes[row] * std::numbers::pi / 180);
    rule.cosines[row] = std::cos(rule.latitudes[row] * std::numbers::pi / 180);
    test::SphericalReference const reference(rule, 5, 4, 10);
    Part const part = random_part(domain, random, 7, 10);
    nn::SphericalTransform layer(nn::SphericalTransformOptions{rule, 5, 4}, domain);
    auto const x = random_tensor(random, {3, 7, 10});
    auto const expected = reference.analyse(x);

    auto const c = layer(part.of(x));
    auto const back = layer->inverse(c);

    EXPECT_LE(difference(c, own_orders(expected, layer->orders())), 1e-13);
    EXPECT_LE(difference(back, part.of(reference.synthesise(expected))), 1e-13);
  }
}

TEST(SphericalTransform, band_limited_fields_come_back) {
  std::mt19937 random(22);
  auto const all = domains();
  std::size_t next = 0;
  for (auto const grid : grids) {
    for (Index const rows : {9, 16, 48}) {
      auto const& domain = all[next++ % all.size()];
      auto const rule = latitude_rule(grid, rows);
      SCOPED_TRACE(to_string(rule) + " on " + to_string(domain.grid()));
      Index const columns = 2 * rows;
      auto const degrees = rule.num_degrees;
      nn::FieldCuts const cuts{random_cuts(random, rows, domain.grid().extent(0)),
                               random_cuts(random, columns, domain.grid().extent(1))};
      nn::SphericalTransform layer(nn::SphericalTransformOptions{.rows = rule, .field = cuts}, domain);
      auto whole = random_complex(random, {3, degrees, degrees});
      whole = whole * torch::ones({degrees, degrees}).tril();
      at::imag(whole).select(-1, 0).zero_();
      auto const own = layer->orders();

      auto const field = layer->inverse(own_orders(whole, own));
      auto const again = layer(field);
      auto const field_again = layer->inverse(again);

      EXPECT_EQ(own.extent(), degrees);
      EXPECT_EQ(field.size(-2), cuts.rows.size(domain.latitude_part()));
      EXPECT_LE(difference(again, own_orders(whole, own)), 1e-12);
      EXPECT_LE(difference(field_again, field), 1e-12);
    }
  }
}

TEST(SphericalTransform, keeps_its_digits_for_many_degrees) {
  std::mt19937 random(23);
  auto const domain = domains().back();
  Index const n = 360;
  auto const rule = latitude_rule(LatitudeGrid::gaussian, n);
  nn::FieldCuts const cuts{balanced_cuts(n, domain.grid().extent(0)), balanced_cuts(2 * n, domain.grid().extent(1))};
  nn::SphericalTransform layer(nn::SphericalTransformOptions{.rows = rule, .field = cuts}, domain);
  auto whole = random_complex(random, {n, n}) * torch::ones({n, n}).tril();
  at::imag(whole).select(-1, 0).zero_();
  auto const own = layer->orders();

  auto const again = layer(layer->inverse(own_orders(whole, own)));

  EXPECT_LE(difference(again, own_orders(whole, own)), 1e-12);
}

TEST(SphericalTransform, harmonics_are_orthonormal) {
  std::mt19937 random(24);
  auto const domain = domains().back();
  auto const rule = latitude_rule(LatitudeGrid::gaussian, 12);
  Part const part = random_part(domain, random, 12, 24);
  nn::SphericalTransform layer(nn::SphericalTransformOptions{rule}, domain);

  auto const ones = layer(part.of(torch::ones({12, 24}, torch::kDouble)));
  auto const own = layer->orders();
  auto expected = torch::zeros({12, 12}, torch::kComplexDouble);
  expected[0][0] = std::sqrt(4 * std::numbers::pi);
  EXPECT_LE(difference(ones, own_orders(expected, own)), 1e-14);

  auto const c = own_orders(random_complex(random, {12, 12}) * torch::ones({12, 12}).tril(), own).clone();
  if (own.lo() == 0 && own.size() > 0) at::imag(c).select(-1, 0).zero_();
  auto counts = torch::full({12}, 2.0, torch::kDouble);
  counts[0] = 1;
  auto const f = layer->inverse(c);
  auto const weights = torch::tensor(rule.weights, torch::kDouble).narrow(0, part.row, part.num_rows).unsqueeze(-1) *
                       (std::numbers::pi / 12);
  std::array<double, 2> sums{(f.square() * weights).sum().item<double>(),
                             (c.abs().square() * own_orders(counts, own)).sum().item<double>()};
  domain.comm().sum(sums);
  EXPECT_NEAR(sums[0], sums[1], 1e-12 * sums[1]);
}

/// First and second derivatives of a function of the field that is not linear.
TEST(SphericalTransform, second_derivatives_equal_dense_ones) {
  std::mt19937 random(25);
  for (auto const& domain : domains()) {
    auto const rule = latitude_rule(LatitudeGrid::both_poles, 7);
    test::SphericalReference const reference(rule, 4, 4, 8);
    nn::SphericalTransform layer(nn::SphericalTransformOptions{rule, 4, 4}, domain);

    SerialComparison{.name = to_string(domain.grid()),
                     .layer =
                         [&](torch::Tensor const& t) {
                           auto const c = layer(t);
                           return layer->inverse(c * c * c.conj());
                         },
                     .oracle =
                         [&](torch::Tensor const& t) {
                           auto const c = reference.analyse(t);
                           return reference.synthesise(c * c * c.conj());
                         },
                     .input = random_part(domain, random, 7, 8),
                     .tolerance = {.second = 1e-11}}
        .expect_equal_twice(random_tensor(random, {2, 7, 8}), random);
  }
}

TEST(SphericalTransform, takes_strided_fields_and_cotangents) {
  std::mt19937 random(26);
  for (auto const& domain : domains()) {
    auto const rule = latitude_rule(LatitudeGrid::half_way, 6);
    test::SphericalReference const reference(rule, 3, 3, 10);
    nn::SphericalTransform layer(nn::SphericalTransformOptions{rule}, domain);
    Part const part = random_part(domain, random, 6, 10);
    auto const x = random_tensor(random, {2, 3, 6, 10});
    SerialComparison comparison{
        .name = to_string(domain.grid()),
        .layer = [&](torch::Tensor const& t) { return layer->inverse(layer(t).conj()); },
        .oracle = [&](torch::Tensor const& t) { return reference.synthesise(reference.analyse(t).conj()); },
        .input = part};
    for (auto const& memory : std::vector<SerialComparison::Function>{
             [](torch::Tensor const& t) { return t.contiguous(torch::MemoryFormat::ChannelsLast); },
             [](torch::Tensor const& t) {
               return t.permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0});
             },
             [&](torch::Tensor const&) { return part.of(x); }}) {
      comparison.memory = memory;
      comparison.expect_equal(x, random, test::Cotangent::ones);
    }
    auto const one = torch::ones({}, torch::kDouble).expand({part.num_rows, part.num_columns});
    EXPECT_LE(difference(layer->inverse(layer(one)), one), 1e-13);
  }
}

TEST(SphericalTransform, single_precision_is_close_to_double) {
  std::mt19937 random(27);
  auto const domain = domains().back();
  auto const rule = latitude_rule(LatitudeGrid::gaussian, 32);
  Part const part = random_part(domain, random, 32, 64);
  nn::SphericalTransform layer(nn::SphericalTransformOptions{rule}, domain);
  auto const x = random_tensor(random, {2, 32, 64});

  auto const wide = layer(part.of(x));
  auto const wide_back = layer->inverse(wide);
  auto const narrow = layer(part.of(x).to(torch::kFloat));

  EXPECT_EQ(narrow.scalar_type(), torch::kComplexFloat);
  EXPECT_LE(difference(narrow.to(torch::kComplexDouble), wide), 2e-6);
  EXPECT_LE(difference(layer->inverse(narrow).to(torch::kDouble), wide_back), 5e-6);
  EXPECT_LE(difference(layer->inverse(wide), wide_back), 0);
}

TEST(SphericalTransform, sets_up_once_and_takes_new_cuts_after_reset) {
  std::mt19937 random(28);
  auto const domain = domains().front();
  auto const rule = latitude_rule(LatitudeGrid::gaussian, 8);
  test::SphericalReference const reference(rule, 8, 6, 12);
  nn::SphericalTransform layer(nn::SphericalTransformOptions{rule}, domain);
  auto const x = random_tensor(random, {8, 12});
  auto const expected = reference.synthesise(reference.analyse(x));
  for (int cut = 0; cut < 3; ++cut) {
    Part const part = random_part(domain, random, 8, 12);
    layer->reset_structure();
    for (int call = 0; call < 2; ++call)
      EXPECT_LE(difference(layer->inverse(layer(part.of(x))), part.of(expected)), 1e-12);
  }
  EXPECT_LE(test::num_set_ups(layer), 3);
  auto const copy = std::dynamic_pointer_cast<nn::SphericalTransformImpl>(layer->clone());
  ASSERT_TRUE(copy);
  EXPECT_EQ(test::num_set_ups(copy), 0);
}

TEST(SphericalTransform, a_gradient_on_one_rank_survives_the_layer) {
  std::mt19937 random(29);
  for (auto const& domain : domains()) {
    auto const rule = latitude_rule(LatitudeGrid::gaussian, 6);
    test::SphericalReference const reference(rule, 6, 6, 12);
    Part const part = random_part(domain, random, 6, 12);
    bool const wanted = domain.comm().rank() == domain.comm().num_ranks() - 1;
    auto const x = random_tensor(random, {6, 12});
    auto whole = x.clone().requires_grad_();
    reference.synthesise(reference.analyse(whole)).pow(3).sum().backward();
    auto shard = part.of(x).clone().requires_grad_(wanted);
    torch::Tensor loss;
    {
      nn::SphericalTransform layer(nn::SphericalTransformOptions{rule}, domain);
      auto const unused = layer(shard * 2);
      loss = nn::reduce_loss(layer->inverse(layer(shard)).pow(3).sum(), domain);
    }

    loss.backward();

    ASSERT_EQ(shard.grad().defined(), wanted);
    if (wanted) {
      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-11);
    }
  }
}

TEST(SphericalTransform, refuses_on_all_ranks_by_name) {
  auto const domain = domains().back();
  int const rank = domain.comm().rank();
  int const num_ranks = domain.comm().num_ranks();
  auto const rule = latitude_rule(LatitudeGrid::gaussian, 8);
  auto const rows = balanced_cuts(8, num_ranks);
  auto const make = [&](Index degrees, Index orders) {
    return nn::SphericalTransform(nn::SphericalTransformOptions{rule, degrees, orders}, domain);
  };
  auto const field = torch::ones({rows.size(rank), 8}, torch::kDouble);
  EXPECT_EQ(rule_of([&] { make(9, 0); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(0, 6)(field); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(3, 4)(field); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(0, 0)(field.to(torch::kHalf)); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(0, 0)(rank == 0 ? field.to(torch::kLong) : field); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(0, 0)(torch::ones({rank == 0 ? 9 : 0, 8})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(0, 0)->inverse(torch::ones({8, 1}, torch::kComplexDouble)); }), "WrongState");
  EXPECT_EQ(rule_of([&] { (void)make(0, 0)->orders(); }), "WrongState");
  auto layer = make(0, 0);
  auto const c = layer(field);
  EXPECT_EQ(rule_of([&] { layer->inverse(rank == 0 ? c.narrow(-2, 0, 7) : c); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { layer->inverse(at::real(c)); }), "UnsupportedTensor");
  EXPECT_LE(difference(layer->inverse(c), field), 1e-13);
  nn::SphericalTransform given(nn::SphericalTransformOptions{.rows = rule, .field = nn::FieldCuts{rows, Cuts{10}}},
                               domain);
  EXPECT_EQ(rule_of([&] { given(field); }), "BadCuts");
}

}  // namespace test_spherical_harmonics
}  // namespace graticule
