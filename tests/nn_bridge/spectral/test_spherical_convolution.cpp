// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "serial_comparison.hpp"
#include "spherical_reference.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_spherical_convolution {

using nn::latitude_rule;
using nn::LatitudeGrid;
using test::difference;
using test::domains;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;

/// The whole layer as dense sums.
struct DenseConvolution {
  test::SphericalReference in;
  test::SphericalReference out;
  torch::Tensor weight;
  torch::Tensor bias;

  torch::Tensor operator()(torch::Tensor const& x) const {
    auto const c = torch::einsum("...ilm,iol->...olm", {in.analyse(x), torch::view_as_complex(weight)});
    auto const y = out.synthesise(c);
    return bias.defined() ? y + bias.view({-1, 1, 1}) : y;
  }
};

struct Case {
  nn::SphericalConvolutionOptions options;
  Index columns;
  std::vector<std::int64_t> batch = {2};
  Index degrees = 0;  ///< what the options come to
  Index orders = 0;
};

std::vector<Case> cases() {
  auto const gaussian = latitude_rule(LatitudeGrid::gaussian, 8);
  auto const poles = latitude_rule(LatitudeGrid::both_poles, 11);
  auto const half = latitude_rule(LatitudeGrid::half_way, 9);
  using Grid = nn::SphericalConvolutionOptions::Grid;
  return {
      {{2, 3, gaussian}, 16, {2}, 8, 8},
      {{1, 1, gaussian, 5, 2, true}, 5, {}, 5, 2},
      {{3, 2, poles, 0, 0, true}, 12, {2, 1}, 6, 6},
      {{2, 2, poles, 11, 7}, 12, {1}, 11, 7},
      {{2, 3, poles, 0, 0, true, Grid{gaussian, 10}}, 20, {2}, 6, 5},
      {{2, 1, gaussian, 0, 0, false, Grid{half, 18}}, 16, {1}, 5, 5},
      {{1, 2, half, 9, 3, false, Grid{half, 4}}, 12, {1}, 9, 3},
  };
}

Cuts in_proportion(Cuts const& cuts, Index extent) {
  std::vector<Index> sizes;
  Index before = 0;
  for (int p = 0; p < cuts.num_parts(); ++p) {
    auto const end = Index(std::floor(double(cuts.hi(p)) * double(extent) / double(cuts.extent()) + 0.5));
    sizes.push_back(end - before);
    before = end;
  }
  return Cuts(sizes);
}

struct Fixture {
  nn::SphericalConvolution layer;
  DenseConvolution dense;
  Part in;
  Part out;
  std::vector<std::int64_t> in_sizes;

  [[nodiscard]] torch::OrderedDict<std::string, torch::Tensor> parameters() const {
    return {{"weight", dense.weight}, {"bias", dense.bias}};
  }
  [[nodiscard]] SerialComparison comparison() const {
    return {.name = to_string(layer->options.rows),
            .layer = layer,
            .oracle = dense,
            .input = in,
            .output = [part = out](torch::Tensor const&) { return part; },
            .module = layer.ptr(),
            .parameters = parameters(),
            .tolerance = {.gradient = 1e-11}};
  }
};

Fixture make(Case const& c, nn::Domain const& domain, std::mt19937& random) {
  auto const& o = c.options;
  nn::SphericalConvolution layer(o, domain);
  layer->to(torch::kDouble);
  test::randomize(*layer, random);
  auto const& out_rows = o.out ? o.out->rows : o.rows;
  auto const out_columns = o.out ? o.out->num_columns : c.columns;
  auto const rows = random_cuts(random, o.rows.num_rows(), domain.grid().extent(0));
  auto const columns = random_cuts(random, c.columns, domain.grid().extent(1));
  DenseConvolution dense{{o.rows, c.degrees, c.orders, c.columns},
                         {out_rows, c.degrees, c.orders, out_columns},
                         test::leaf_of(layer->weight),
                         test::leaf_of(layer->bias)};
  auto in_sizes = c.batch;
  in_sizes.insert(in_sizes.end(), {o.in_channels, o.rows.num_rows(), c.columns});
  return {layer, dense, Part(domain, rows, columns),
          Part(domain, in_proportion(rows, out_rows.num_rows()), in_proportion(columns, out_columns)), in_sizes};
}

void expect_same_parameter_gradients(Fixture& f, Comm const& comm) {
  test::expect_parameter_gradients(*f.layer, f.parameters(), comm, 1e-11);
}

TEST(SphericalConvolution, equals_dense_sums_for_random_cuts) {
  std::mt19937 random(31);
  for (auto const& domain : domains()) {
    for (auto const& c : cases()) {
      SCOPED_TRACE(to_string(domain.grid()));
      auto const f = make(c, domain, random);
      f.comparison().expect_equal(random_tensor(random, f.in_sizes), random);
    }
  }
}

TEST(SphericalConvolution, equals_the_layer_on_one_rank) {
  std::mt19937 random(32);
  nn::Domain const alone(Comm(MPI_COMM_SELF), ProcessGrid{1, 1});
  for (auto const& domain : domains()) {
    auto f = make(cases()[2], domain, random);
    nn::SphericalConvolution serial(f.layer->options, alone);
    serial->to(torch::kDouble);
    {
      torch::NoGradGuard const no_grad;
      serial->weight.copy_(f.layer->weight);
      serial->bias.copy_(f.layer->bias);
    }
    auto const x = random_tensor(random, f.in_sizes);

    EXPECT_LE(difference(f.layer->forward(f.in.of(x)), f.out.of(serial(x))), 1e-13);
  }
}

TEST(SphericalConvolution, takes_the_expanded_cotangent_and_fields_without_gradient) {
  std::mt19937 random(33);
  for (auto const& domain : domains()) {
    auto f = make(cases()[0], domain, random);
    auto const x = random_tensor(random, f.in_sizes);
    auto const expected = f.dense(x);
    expected.sum().backward();

    f.layer->forward(f.in.of(x)).sum().backward();

    expect_same_parameter_gradients(f, domain.comm());
  }
}

TEST(SphericalConvolution, second_derivatives_equal_dense_ones) {
  std::mt19937 random(34);
  for (auto const& domain : domains()) {
    auto const f = make(cases()[3], domain, random);
    f.comparison().expect_equal_twice(random_tensor(random, f.in_sizes), random);
  }
}

TEST(SphericalConvolution, two_layers_train_as_the_dense_ones) {
  std::mt19937 random(35);
  for (auto const& domain : domains()) {
    auto a = make(cases()[2], domain, random);
    auto back = cases()[2];
    std::swap(back.options.in_channels, back.options.out_channels);
    auto b = make(back, domain, random);
    auto const x = random_tensor(random, a.in_sizes);
    auto const expected = b.dense(torch::gelu(a.dense(x))).square().sum();
    expected.backward();

    // Both layers were made for cuts of their own.
    auto const y = torch::gelu(a.layer->forward(a.in.of(x)));
    auto const loss = nn::reduce_loss(b.layer->forward(y).square().sum(), domain);
    loss.backward();

    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-11 * expected.item<double>());
    expect_same_parameter_gradients(a, domain.comm());
    expect_same_parameter_gradients(b, domain.comm());
    EXPECT_EQ(test::num_set_ups(a.layer), 1);
  }
}

TEST(SphericalConvolution, starts_with_parameters_that_keep_the_variance) {
  std::mt19937 random(36);
  auto const domain = domains().front();
  auto const rule = latitude_rule(LatitudeGrid::gaussian, 16);
  nn::SphericalConvolution layer(nn::SphericalConvolutionOptions{.in_channels = 64, .out_channels = 32, .rows = rule},
                                 domain);
  EXPECT_EQ(layer->weight.sizes(), (std::vector<std::int64_t>{64, 32, 16, 2}));
  EXPECT_FALSE(layer->bias.defined());
  EXPECT_NEAR(2 * layer->weight.square().mean().item<double>() * 64, 1, 0.05);
  EXPECT_EQ(layer->named_parameters().keys(), std::vector<std::string>{"weight"});
}

TEST(SphericalConvolution, refuses_on_all_ranks_by_name) {
  auto const domain = domains().back();
  int const rank = domain.comm().rank();
  auto const rows = balanced_cuts(8, domain.comm().num_ranks());
  auto const rule = latitude_rule(LatitudeGrid::gaussian, 8);
  auto const make = [&](std::int64_t in, Index degrees) {
    return nn::SphericalConvolution(
        nn::SphericalConvolutionOptions{.in_channels = in, .out_channels = 2, .rows = rule, .num_degrees = degrees},
        domain);
  };
  auto const x = torch::ones({1, 2, rows.size(rank), 16});
  EXPECT_EQ(rule_of([&] { make(0, 0); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(2, 9); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(3, 0)(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(2, 0)(rank == 0 ? x.to(torch::kDouble) : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(2, 0)(x.to(torch::kBFloat16)); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(2, 0)(torch::ones({1, 2, rank == 0 ? 7 : 0, 16})); }), "ShapeMismatch");
  nn::SphericalConvolution wide(
      nn::SphericalConvolutionOptions{
          .in_channels = 2, .out_channels = 2, .rows = rule, .out = nn::SphericalConvolutionOptions::Grid{rule, 0}},
      domain);
  EXPECT_EQ(rule_of([&] { wide(x); }), "BadOption");
  EXPECT_EQ(make(2, 0)(x).sizes(), x.sizes());
}

}  // namespace test_spherical_convolution
}  // namespace graticule
