// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"
#include "spherical_reference.hpp"

#include <gtest/gtest.h>

#include <array>

namespace graticule {
namespace {

using nn::latitude_rule;
using nn::LatitudeGrid;
using test::difference;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;

constexpr std::array grids{LatitudeGrid::gaussian, LatitudeGrid::half_way, LatitudeGrid::both_poles,
                           LatitudeGrid::one_pole, LatitudeGrid::no_pole};

TEST(LatitudeRule, integrates_polynomials_up_to_its_degree) {
  for (auto const grid : grids) {
    for (Index const n : {2, 3, 4, 7, 8, 33, 180}) {
      auto const rule = latitude_rule(grid, n);
      auto const exact = grid == LatitudeGrid::gaussian ? 2 * n - 1 : grid == LatitudeGrid::one_pole ? n - 2 : n - 1;
      SCOPED_TRACE(to_string(rule));
      ASSERT_EQ(rule.num_rows(), n);
      for (Index degree = 0; degree <= exact; ++degree) {
        double sum = 0;
        for (std::size_t i = 0; i < std::size_t(n); ++i)
          sum += rule.weights[i] * std::legendre(unsigned(degree), rule.sines[i]);
        EXPECT_NEAR(sum, degree == 0 ? 2 : 0, 1e-13) << degree;
      }
      EXPECT_GE(exact, 2 * (rule.num_degrees - 1));
      EXPECT_LT(exact, 2 * rule.num_degrees);
    }
  }
}

TEST(LatitudeRule, rows_are_where_the_grids_say) {
  using Rows = std::vector<double>;
  EXPECT_EQ(latitude_rule(LatitudeGrid::half_way, 4).latitudes, (Rows{67.5, 22.5, -22.5, -67.5}));
  EXPECT_EQ(latitude_rule(LatitudeGrid::both_poles, 3).latitudes, (Rows{90, 0, -90}));
  EXPECT_EQ(latitude_rule(LatitudeGrid::one_pole, 4).latitudes, (Rows{90, 45, 0, -45}));
  EXPECT_EQ(latitude_rule(LatitudeGrid::no_pole, 3).latitudes, (Rows{45, 0, -45}));
  auto const gaussian = latitude_rule(LatitudeGrid::gaussian, 2);
  EXPECT_DOUBLE_EQ(gaussian.sines[0], 1 / std::sqrt(3.0));
  EXPECT_NEAR(gaussian.latitudes[1], -35.264389682754654, 1e-14);
  auto const poles = latitude_rule(LatitudeGrid::both_poles, 3);
  EXPECT_NEAR(poles.weights[0], 1.0 / 3, 1e-15);
  EXPECT_NEAR(poles.weights[1], 4.0 / 3, 1e-15);
}

TEST(LatitudeRule, finds_the_grid_of_rounded_latitudes_from_either_side) {
  auto const seen = [](nn::LatitudeRule const& rule, auto const& round) {
    std::vector<double> values;
    for (auto const latitude : rule.latitudes) values.push_back(round(latitude));
    return values;
  };
  auto const single = [](double x) { return double(float(x)); };
  auto const decimals = [](double x) { return std::round(x * 1000) / 1000; };
  for (auto const grid : grids) {
    for (Index const n : {2, 3, 32, 121, 721}) {
      auto const rule = latitude_rule(grid, n);
      SCOPED_TRACE(to_string(rule));
      for (auto const& values : {seen(rule, single), seen(rule, decimals)}) {
        auto const found = latitude_rule(values);
        EXPECT_EQ(found.grid, grid);
        EXPECT_EQ(found.latitudes, rule.latitudes);
        EXPECT_EQ(found.weights, rule.weights);
        auto const northward = latitude_rule(std::vector<double>(values.rbegin(), values.rend()));
        EXPECT_EQ(northward.grid, grid);
        EXPECT_EQ(northward.latitudes, std::vector<double>(rule.latitudes.rbegin(), rule.latitudes.rend()));
        EXPECT_EQ(northward.sines, std::vector<double>(rule.sines.rbegin(), rule.sines.rend()));
        EXPECT_EQ(northward.weights, std::vector<double>(rule.weights.rbegin(), rule.weights.rend()));
      }
    }
  }
  // 720 of 721 rows, with the south pole instead of the north pole.
  std::vector<double> southern;
  for (int i = 1; i <= 720; ++i) southern.push_back(90 - 0.25 * i);
  auto const rule = latitude_rule(southern);
  EXPECT_EQ(rule.grid, LatitudeGrid::one_pole);
  EXPECT_EQ(rule.latitudes, southern);
  EXPECT_EQ(rule.weights.back(), 0);
}

TEST(LatitudeRule, refuses_latitudes_of_no_grid) {
  auto const refused = [](std::vector<double> const& latitudes) {
    return rule_of([&] { (void)latitude_rule(latitudes); }) == "NoQuadrature";
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({60, 30, 0}));
  EXPECT_TRUE(refused({45, 10, -45}));
  EXPECT_TRUE(refused({90, 0.02, -90}));
  EXPECT_TRUE(refused({90, std::nan(""), -90}));
  EXPECT_TRUE(refused({-67.5, 22.5, -22.5, 67.5}));
  EXPECT_EQ(rule_of([] { (void)latitude_rule(LatitudeGrid::both_poles, 1); }), "NoQuadrature");
  EXPECT_EQ(rule_of([] { (void)latitude_rule(LatitudeGrid::gaussian, 0); }), "NoQuadrature");
  auto const thrown = test::thrown_by([] { (void)latitude_rule(std::vector<double>{90, 0.02, -90}); });
  EXPECT_NE(thrown.given.find("both poles"), std::string::npos) << thrown.given;
  EXPECT_NE(thrown.given.find("row 1"), std::string::npos) << thrown.given;
}

std::vector<nn::Domain> domains() {
  auto const comm = Comm::world();
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks())) result.emplace_back(comm, grid);
  return result;
}

Part random_part(nn::Domain const& domain, std::mt19937& random, Index rows, Index columns) {
  auto const row_cuts = random_cuts(random, rows, domain.grid().extent(0));
  auto const column_cuts = random_cuts(random, columns, domain.grid().extent(1));
  return {domain, row_cuts, column_cuts};
}

torch::Tensor random_complex(std::mt19937& random, std::vector<std::int64_t> sizes) {
  sizes.push_back(2);
  return torch::view_as_complex(random_tensor(random, sizes));
}

/// This rank's coefficients.
torch::Tensor own_orders(torch::Tensor const& whole, nn::AxisPart const& orders) {
  return whole.narrow(-1, orders.lo(), orders.size());
}

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
  SCOPED_TRACE(to_string(rule) + " on " + to_string(domain.grid()));
  nn::SphericalTransform layer(nn::SphericalTransformOptions{rule, c.num_degrees, c.num_orders}, domain);
  auto const degrees = c.num_degrees ? c.num_degrees : rule.num_degrees;
  auto const orders = c.num_orders ? c.num_orders : std::min(degrees, (c.columns + 1) / 2);
  test::SphericalReference const reference(rule, degrees, orders, c.columns);
  auto field = c.batch;
  field.insert(field.end(), {c.rows, c.columns});
  auto spectrum = c.batch;
  spectrum.insert(spectrum.end(), {degrees, orders});
  Part const part = random_part(domain, random, c.rows, c.columns);

  auto const x = random_tensor(random, field);
  auto const coefficient_cotangent = random_complex(random, spectrum);
  auto whole = x.clone().requires_grad_();
  auto const expected = reference.analyse(whole);
  expected.backward(coefficient_cotangent);
  auto shard = part.of(x).clone().requires_grad_();
  auto const found = layer(shard);
  auto const own = layer->orders();
  ASSERT_EQ(own.extent(), orders);
  found.backward(own_orders(coefficient_cotangent, own));
  EXPECT_LE(difference(found.detach(), own_orders(expected.detach(), own)), 1e-12);
  EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);

  auto const coefficients = random_complex(random, spectrum);
  auto const field_cotangent = random_tensor(random, field);
  auto whole_c = coefficients.clone().requires_grad_();
  auto const back = reference.synthesise(whole_c);
  back.backward(field_cotangent);
  auto shard_c = own_orders(coefficients, own).clone().requires_grad_();
  auto const found_back = layer->inverse(shard_c);
  found_back.backward(part.of(field_cotangent));
  EXPECT_LE(difference(found_back, part.of(back)), 1e-12);
  EXPECT_LE(difference(shard_c.grad(), own_orders(whole_c.grad(), own)), 1e-12);
}

TEST(SphericalTransform, equals_dense_sums_for_random_cuts) {
  std::mt19937 random(21);
  for (auto const& domain : domains())
    for (auto const& c : cases()) expect_dense(domain, c, random);
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
    Part const part = random_part(domain, random, 7, 8);
    auto const x = random_tensor(random, {2, 7, 8});
    auto const g = random_tensor(random, {2, 7, 8});
    auto const direction = random_tensor(random, {2, 7, 8});
    auto const twice = [&](auto const& function, torch::Tensor const& input, torch::Tensor const& cotangent,
                           torch::Tensor const& along) {
      auto const first = torch::autograd::grad({function(input)}, {input}, {cotangent}, true, true);
      auto second = torch::autograd::grad(first, {input, cotangent}, {along}, true, true);
      second.push_back(first[0]);
      return second;
    };
    auto const serial = [&](torch::Tensor const& t) {
      auto const c = reference.analyse(t);
      return reference.synthesise(c * c * c.conj());
    };
    auto const sharded = [&](torch::Tensor const& t) {
      auto const c = layer(t);
      return layer->inverse(c * c * c.conj());
    };
    auto whole = x.clone().requires_grad_();
    auto whole_g = g.clone().requires_grad_();
    auto const expected = twice(serial, whole, whole_g, direction);
    auto shard = part.of(x).clone().requires_grad_();
    auto shard_g = part.of(g).clone().requires_grad_();

    auto const found = twice(sharded, shard, shard_g, part.of(direction));

    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LE(difference(found[i], part.of(expected[i])), 1e-11) << i;
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
    auto whole = x.clone().requires_grad_();
    auto const expected = reference.synthesise(reference.analyse(whole).conj());
    expected.sum().backward();
    auto const last = part.of(x).clone().contiguous(torch::MemoryFormat::ChannelsLast);
    auto const permuted = part.of(x).permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0});
    for (auto const& form : {last, permuted, part.of(x)}) {
      auto shard = form.detach().requires_grad_();

      auto const found = layer->inverse(layer(shard).conj());
      found.sum().backward();

      EXPECT_LE(difference(found, part.of(expected)), 1e-12);
      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
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
  EXPECT_EQ(rule_of([&] { make(9, 0); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] { make(0, 6)(field); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] { make(3, 4)(field); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] { make(0, 0)(field.to(torch::kHalf)); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(0, 0)(rank == 0 ? field.to(torch::kLong) : field); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(0, 0)(torch::ones({rank == 0 ? 9 : 0, 8})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(0, 0)->inverse(torch::ones({8, 1}, torch::kComplexDouble)); }), "NoForward");
  EXPECT_EQ(rule_of([&] { (void)make(0, 0)->orders(); }), "NoForward");
  auto layer = make(0, 0);
  auto const c = layer(field);
  EXPECT_EQ(rule_of([&] { layer->inverse(rank == 0 ? c.narrow(-2, 0, 7) : c); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { layer->inverse(at::real(c)); }), "UnsupportedTensor");
  EXPECT_LE(difference(layer->inverse(c), field), 1e-13);
  nn::SphericalTransform given(nn::SphericalTransformOptions{.rows = rule, .field = nn::FieldCuts{rows, Cuts{10}}},
                               domain);
  EXPECT_EQ(rule_of([&] { given(field); }), "CutsMismatch");
}

}  // namespace
}  // namespace graticule
