// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/linear.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace graticule {
namespace test_linear {

using nn::Consumer;
using nn::FeatureSplit;
using nn::SplitOptions;
using test::difference;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
using test::Spread;
using torch::Tensor;

constexpr Index num_rows = 5;

struct Case {
  std::string name;
  SplitOptions split;
  Index inputs, outputs;
  std::int64_t axis = -1;
  bool bias = true;
};

std::vector<Case> cases() {
  return {
      {"input, replicated", {.split = FeatureSplit::input}, 6, 4},
      {"input, distinct", {.split = FeatureSplit::input, .whole = Consumer::distinct}, 3, 5, -3},
      {"output, replicated", {.split = FeatureSplit::output}, 4, 6},
      {"output, distinct", {.split = FeatureSplit::output, .whole = Consumer::distinct}, 5, 3, -3, false},
      {"both, by gathering", {.split = FeatureSplit::both}, 3, 7},
      {"both, by scattering", {.split = FeatureSplit::both}, 7, 3, -3},
      {"both, one input", {.split = FeatureSplit::both}, 1, 2, -1, false},
  };
}

/// What ranks hold: rows along -2 in `grid.extent(0)` parts, features in `grid.extent(1)`.
struct Parts {
  Parts(std::mt19937& random, Case const& c, ProcessGrid const& grid, int rank)
      : rows(random_cuts(random, num_rows, grid.extent(0))),
        inputs(random_cuts(random, c.inputs, grid.extent(1))),
        outputs(random_cuts(random, c.outputs, grid.extent(1))),
        row_part(int(grid.coords(rank)[0])),
        part(int(grid.coords(rank)[1])),
        axis(c.axis) {}

  [[nodiscard]] Shard my_rows() const { return Shard().cut(-2, rows.lo(row_part), rows.size(row_part)); }
  [[nodiscard]] Shard cut(Cuts const& features) const {
    return my_rows().cut(axis, features.lo(part), features.size(part));
  }
  [[nodiscard]] Shard input(SplitOptions const& split) const {
    return split.split == FeatureSplit::output ? my_rows().spread_as(spread(split)) : cut(inputs);
  }
  [[nodiscard]] Shard output(SplitOptions const& split) const {
    return split.split == FeatureSplit::input ? my_rows().spread_as(spread(split)) : cut(outputs);
  }
  /// Of the side that is not split.
  static Spread spread(SplitOptions const& split) {
    return split.whole == Consumer::distinct ? Spread::partial : Spread::replicated;
  }

  Cuts rows, inputs, outputs;
  int row_part, part;
  std::int64_t axis;
};

nn::Linear make_layer(Case const& c, SplitOptions split, nn::Domain const& domain, ProcessGrid const& grid,
                      torch::nn::Linear const& serial) {
  nn::Linear layer(torch::nn::LinearOptions(c.inputs, c.outputs).bias(c.bias), split, domain,
                   nn::Sharding{{-2, c.axis}, grid}, c.axis);
  layer->to(torch::kDouble);
  torch::NoGradGuard const no_grad;
  layer->weight.copy_(serial->weight);
  if (c.bias) layer->bias.copy_(serial->bias);
  return layer;
}

torch::nn::Linear make_serial(Case const& c, std::mt19937& random) {
  torch::nn::Linear serial(torch::nn::LinearOptions(c.inputs, c.outputs).bias(c.bias));
  serial->to(torch::kDouble);
  torch::NoGradGuard const no_grad;
  serial->weight.copy_(random_tensor(random, {c.outputs, c.inputs}));
  if (c.bias) serial->bias.copy_(random_tensor(random, {c.outputs}));
  return serial;
}

Tensor apply_serial(torch::nn::Linear& serial, Tensor const& x, std::int64_t axis) {
  return serial(x.movedim(axis, -1)).movedim(-1, axis);
}

Tensor field_of(Case const& c, std::mt19937& random) {
  return random_tensor(random, c.axis == -1 ? std::vector<std::int64_t>{2, 3, num_rows, c.inputs}
                                            : std::vector<std::int64_t>{2, c.inputs, num_rows, 3});
}

void compare_with_serial(Case const& c, ProcessGrid const& grid, std::mt19937& random) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Parts const parts(random, c, grid, comm.rank());
  auto split = c.split;
  if (split.split != FeatureSplit::input) split.output_cuts = parts.outputs;
  auto serial = make_serial(c, random);
  auto layer = make_layer(c, split, domain, grid, serial);
  SerialComparison{.name = c.name + ", " + to_string(grid),
                   .layer = layer,
                   .oracle = [&](Tensor const& x) { return apply_serial(serial, x, c.axis); },
                   .input = parts.input(split),
                   .output = [&](Tensor const&) { return parts.output(split); },
                   .module = layer.ptr(),
                   .parameters = serial->named_parameters(),
                   .tolerance = {.output = 1e-13}}
      .expect_equal(field_of(c, random), random);
}

TEST(Linear, equals_the_serial_layer_for_every_split_and_any_cuts) {
  std::mt19937 random(1);
  for (auto const& c : cases())
    for (auto const& grid : test::grids_of(Comm::world().num_ranks())) compare_with_serial(c, grid, random);
}

TEST(Linear, derivatives_of_first_and_second_order_are_the_numeric_ones) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  ProcessGrid const grid{1, comm.num_ranks()};
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  for (auto const& c : cases()) {
    SCOPED_TRACE(c.name);
    Parts const parts(random, c, grid, comm.rank());
    auto serial = make_serial(c, random);
    auto layer = make_layer(c, c.split, domain, grid, serial);
    auto const input = parts.input(c.split);
    // The input of distinct work is a value whose cotangents are parts, so a numeric product counts each rank's own.
    if (input.spread() == Spread::partial) continue;

    auto const errors = test::gradient_errors({.function = [&](Tensor const& t) { return layer(t).square(); },
                                               .input = input.spread(),
                                               .output = parts.output(c.split).spread(),
                                               .step = 1e-4},
                                              input.of(field_of(c, random)).clone(), comm);

    EXPECT_LE(errors.first, 1e-7);
    EXPECT_LE(errors.second, 1e-7);
    EXPECT_LE(errors.spread, 1e-13);
  }
}

TEST(Linear, takes_expanded_cotangents_and_gradients_wanted_on_one_rank_only) {
  std::mt19937 random(4);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  ProcessGrid const grid{1, comm.num_ranks()};
  bool const wanted = comm.rank() == comm.num_ranks() - 1;
  for (auto const& c : cases()) {
    SCOPED_TRACE(c.name);
    Parts const parts(random, c, grid, comm.rank());
    auto serial = make_serial(c, random);
    auto layer = make_layer(c, c.split, domain, grid, serial);
    layer->weight.requires_grad_(false);
    if (c.bias) layer->bias.requires_grad_(false);
    auto const x = field_of(c, random);
    bool const whole_input = c.split.split == FeatureSplit::output;
    auto shard = parts.input(c.split).of(x).clone().requires_grad_(wanted);

    auto const y = layer(shard);
    (c.split.split == FeatureSplit::input ? y.sum() + nn::reduce_loss(torch::zeros({}, torch::kDouble), domain)
                                          : nn::reduce_loss(y.sum(), domain))
        .backward();

    EXPECT_EQ(shard.grad().defined(), wanted);
    if (!wanted || (whole_input && c.split.whole == Consumer::distinct)) continue;
    auto whole = x.clone().requires_grad_();
    apply_serial(serial, whole, c.axis).sum().backward();
    bool const summed = c.split.split == FeatureSplit::input && c.split.whole == Consumer::distinct;
    auto const expected = (summed ? comm.num_ranks() : 1) * whole.grad();
    EXPECT_LE(difference(shard.grad(), parts.input(c.split).of(expected)), 1e-12);
  }
}

TEST(Linear, parameters_are_those_of_the_serial_layer) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  torch::manual_seed(3);
  nn::Linear const layer(torch::nn::LinearOptions(6, 4), SplitOptions(), domain,
                         nn::Sharding{{-1}, ProcessGrid{comm.num_ranks()}});
  torch::manual_seed(3);
  torch::nn::Linear const serial(6, 4);

  auto const found = layer->named_parameters();
  auto const expected = serial->named_parameters();
  ASSERT_EQ(found.keys(), expected.keys());
  for (auto const& key : found.keys()) EXPECT_TRUE(torch::equal(found[key], expected[key]));
  auto const copy = std::dynamic_pointer_cast<nn::LinearImpl>(layer->clone());
  auto const x = torch::ones({2, balanced_cuts(6, comm.num_ranks()).size(comm.rank())});
  EXPECT_TRUE(torch::allclose(copy->forward(x), nn::Linear(layer)(x)));
}

TEST(Linear, refuses_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == 0;
  auto const make = [&](SplitOptions split, std::int64_t axis = -1) {
    return nn::Linear(torch::nn::LinearOptions(6, 4), split, domain, nn::Sharding{{-1}, ProcessGrid{comm.num_ranks()}},
                      axis);
  };
  auto const size = balanced_cuts(6, comm.num_ranks()).size(comm.rank());
  auto const x = torch::ones({2, size});

  EXPECT_EQ(rule_of([&] { make({}, -2); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make({.output_cuts = Cuts{5}}); }), "BadCuts");
  EXPECT_EQ(rule_of([&] { make({})(torch::ones({2, size + odd_one})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              make({.split = FeatureSplit::output})(torch::ones({2, odd_one ? 5 : 6}));
            }),
            "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make({})(odd_one ? x.to(torch::kDouble) : x); }), "ShapeMismatch");
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule_of([&] { make({.split = odd_one ? FeatureSplit::input : FeatureSplit::both}); }),
              "StructureDisagreement");
  }
  EXPECT_EQ(make({})(x).dim(), 2);
}

}  // namespace test_linear
}  // namespace graticule
