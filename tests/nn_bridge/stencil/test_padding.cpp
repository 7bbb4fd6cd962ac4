// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/padding.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>

namespace graticule {
namespace test_padding {

using test::difference;
using test::draw;
using test::Part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
namespace F = torch::nn::functional;
using Sizes = std::vector<std::int64_t>;
using nn::PadMode;

/// Sizes are those of levels (if any), rows and columns (if any); widths in LibTorch's order.
struct Case {
  PadMode mode = PadMode::constant;
  Sizes extent, widths;
  bool balanced = false;
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << "mode " << int(c.mode) << " of " << c.extent << " widths " << c.widths << " balanced " << c.balanced;
  return text.str();
}

torch::Tensor serial(Case const& c, torch::Tensor const& x, Edge pole) {
  if (c.mode == PadMode::domain) {
    auto const num_axes = c.extent.size();
    auto const width = [&](std::size_t i) { return Width{c.widths[2 * i], c.widths[2 * i + 1]}; };
    return test::pad_sphere_along(x, num_axes, width(num_axes == 1 ? 0 : 1), width(0), pole == Edge::pole_row, {1});
  }
  F::PadFuncOptions options(c.widths);
  if (c.mode == PadMode::constant) options.value(1.5);
  if (c.mode == PadMode::reflect) options.mode(torch::kReflect);
  if (c.mode == PadMode::replicate) options.mode(torch::kReplicate);
  if (c.mode == PadMode::circular) options.mode(torch::kCircular);
  return F::pad(x, options);
}

/// Each padded cell belongs to the rank of its own cell, padding to the rank of the edge cell.
Cuts output_cuts(Cuts const& inputs, Width const& width, bool balanced) {
  Index const total = inputs.extent() + width.lower + width.upper;
  if (balanced) return balanced_cuts(total, inputs.num_parts());
  return test::owner_cuts(inputs, total, [&](Index o) { return o - width.lower; });
}

template <std::size_t D>
struct Layers;
template <>
struct Layers<1> {
  using Pad = nn::Pad1d;
  using Trim = nn::Trim1d;
};
template <>
struct Layers<2> {
  using Pad = nn::Pad2d;
  using Trim = nn::Trim2d;
};
template <>
struct Layers<3> {
  using Pad = nn::Pad3d;
  using Trim = nn::Trim3d;
};

/// Pads, and trims again unless cut anew, because then the way back is a way to other cuts.
template <std::size_t D>
void expect_serial(nn::Domain const& domain, Case const& c, Edge pole, std::mt19937& random) {
  auto const cuts = test::random_field_cuts(domain, random, c.extent);
  std::size_t const rows = D == 1 ? 0 : 2;
  Width const columns = D == 1 ? Width{0, 0} : Width{c.widths[0], c.widths[1]};
  Shard const output({domain, output_cuts(cuts.rows, {c.widths[rows], c.widths[rows + 1]}, c.balanced),
                      output_cuts(cuts.columns, columns, c.balanced)},
                     D);
  nn::PadOptions<D> options(c.widths, c.mode);
  if (c.mode == PadMode::constant) options.value = 1.5;
  if (c.mode == PadMode::domain) options.odd_channels = {1};
  if (c.balanced) options.cuts = nn::PadCuts::balanced;
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), {2, 3});

  auto const run = SerialComparison{.name = to_text(c) + " on " + to_string(domain.grid()),
                                    .layer = typename Layers<D>::Pad(options, domain),
                                    .oracle = [&](torch::Tensor const& x) { return serial(c, x, pole); },
                                    .input = {{domain, cuts}, D},
                                    .output = [&](torch::Tensor const&) { return output; },
                                    .tolerance = {.output = 0, .gradient = 1e-14}}
                       .expect_equal(random_tensor(random, sizes), random);

  bool const grows = *std::min_element(c.widths.begin(), c.widths.end()) >= 0;
  if (grows && !c.balanced) {
    typename Layers<D>::Trim trim(c.widths, domain);
    EXPECT_TRUE(torch::equal(trim(run.found), run.shard)) << to_text(c);
  }
}

template <std::size_t D>
std::vector<nn::Domain> domains(Edge pole) {
  return test::domains(Boundary::sphere(pole), D);
}

template <std::size_t D>
Case random_case(std::mt19937& random, PadMode mode) {
  Case c;
  c.mode = mode;
  for (std::size_t a = 0; a < D; ++a)
    c.extent.push_back(D > 1 && a == D - 1 ? 2 * draw(random, 3, 5) : draw(random, 4, 9));
  for (std::size_t side = 0; side < 2 * D; ++side) {
    bool const level = D == 3 && side >= 4;
    c.widths.push_back(mode == PadMode::domain && level ? 0 : draw(random, mode == PadMode::domain ? 0 : -1, 3));
  }
  c.balanced = draw(random, 0, 2) == 0;
  return c;
}

template <class D>
class Padding : public testing::Test {};
using Dimensions = testing::Types<std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 2>,
                                  std::integral_constant<std::size_t, 3>>;
TYPED_TEST_SUITE(Padding, Dimensions);

TYPED_TEST(Padding, equals_serial_in_all_modes_for_random_cuts_and_widths) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(1);
  for (Edge const pole : {Edge::pole_face, Edge::pole_row}) {
    auto const grids = domains<num_axes>(pole);
    for (PadMode const mode :
         {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular, PadMode::domain})
      for (int repeat = 0; repeat < 8; ++repeat)
        expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, mode), pole,
                                random);
  }
}

TEST(Pad2d, takes_options_of_the_serial_layers) {
  auto const domain = domains<2>(Edge::pole_face).front();
  auto const comm = domain.comm();
  auto const x = torch::arange(24, torch::kDouble).view({1, 1, 4, 6}).repeat({1, 1, 1, comm.num_ranks()});
  auto const part = x.narrow(-1, 6 * domain.longitude_part(), 6);
  bool const last = comm.rank() == comm.num_ranks() - 1;
  auto const outer = [&](torch::Tensor const& padded) {
    auto const first = comm.rank() == 0 ? 0 : 6 * comm.rank() + 1;
    return padded.narrow(-1, first, 6 + (comm.rank() == 0 ? 1 : 0) + (last ? 2 : 0));
  };

  nn::Pad2d zeros(torch::nn::ZeroPad2dOptions({1, 2, 1, 0}), domain);
  nn::Pad2d constant(torch::nn::ConstantPad2dOptions({1, 2, 1, 0}, 7.), domain);
  nn::Pad2d reflected(torch::nn::ReflectionPad2dOptions({1, 2, 1, 0}), domain);
  nn::Pad2d replicated(torch::nn::ReplicationPad2dOptions({1, 2, 1, 0}), domain);

  EXPECT_TRUE(torch::equal(zeros(part), outer(torch::nn::ZeroPad2d(torch::nn::ZeroPad2dOptions({1, 2, 1, 0}))(x))));
  EXPECT_TRUE(torch::equal(constant(part),
                           outer(torch::nn::ConstantPad2d(torch::nn::ConstantPad2dOptions({1, 2, 1, 0}, 7.))(x))));
  EXPECT_TRUE(torch::equal(reflected(part),
                           outer(torch::nn::ReflectionPad2d(torch::nn::ReflectionPad2dOptions({1, 2, 1, 0}))(x))));
  EXPECT_TRUE(torch::equal(replicated(part),
                           outer(torch::nn::ReplicationPad2d(torch::nn::ReplicationPad2dOptions({1, 2, 1, 0}))(x))));
}

TEST(Pad2d, is_differentiable_twice_and_takes_the_cotangent_of_a_sum) {
  std::mt19937 random(2);
  for (auto const& domain : domains<2>(Edge::pole_face)) {
    auto const cuts = test::random_field_cuts(domain, random, {5, 6});
    Part const part(domain, cuts);
    Part const mirrored(domain, output_cuts(cuts.rows, {1, 2}, false), output_cuts(cuts.columns, {2, 1}, false));
    nn::PadOptions<2> options({2, 1, 1, 2}, PadMode::domain);
    options.cuts = nn::PadCuts::balanced;
    nn::Pad2d layer(options, domain);
    nn::Pad2d mirror(nn::PadOptions<2>({2, 1, 1, 2}, PadMode::reflect), domain);
    auto const x = random_tensor(random, {1, 2, 5, 6});

    SerialComparison{.name = "mirrored",
                     .layer = mirror,
                     .oracle =
                         [](torch::Tensor const& t) {
                           return F::pad(t, F::PadFuncOptions({2, 1, 1, 2}).mode(torch::kReflect));
                         },
                     .input = part,
                     .output = [&](torch::Tensor const&) { return mirrored; },
                     .tolerance = {.output = 0, .gradient = 1e-14}}
        .expect_equal(x, random, test::Cotangent::ones);
    auto const errors =
        test::gradient_errors({.function = [&](auto const& t) { return layer(t).pow(3); }}, part.of(x), domain.comm());

    EXPECT_LE(errors.first, 1e-6);
    EXPECT_LE(errors.second, 1e-6);
  }
}

TEST(Trim2d, gives_a_fresh_tensor) {
  auto const domain = domains<2>(Edge::pole_face).front();
  auto const x = torch::ones({1, 1, 4, 4});
  nn::Trim2d layer(torch::ExpandingArray<4>({0, 0, 1, 0}), domain);

  layer(x).zero_();

  EXPECT_TRUE(torch::equal(x, torch::ones({1, 1, 4, 4})));
}

TEST(Pad2d, refuses_by_name_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_face));
  auto const x = torch::ones({1, 2, 2, 4});
  auto const rows = 2 * comm.num_ranks();
  using Widths = torch::ExpandingArray<4>;
  auto const run = [&](Widths const& widths, PadMode mode) {
    return rule_of([&] { nn::Pad2d(nn::PadOptions<2>(widths, mode), domain)(x); });
  };

  EXPECT_EQ(run({4, 0, 0, 0}, PadMode::reflect), (test::ErrorWith{"BadHaloWidth", "padding must be"}));
  EXPECT_EQ(run({0, 0, 0, rows}, PadMode::reflect), (test::ErrorWith{"BadHaloWidth", "padding must be"}));
  EXPECT_EQ(run({0, 0, 0, rows + 1}, PadMode::circular), (test::ErrorWith{"BadHaloWidth", "padding must be"}));
  EXPECT_EQ(run({0, 0, 0, rows}, PadMode::circular), "nothing was thrown");
  EXPECT_EQ(run({-2, -2, 0, 0}, PadMode::constant), (test::ErrorWith{"BadHaloWidth", "cropped"}));
  EXPECT_EQ(run({-4, 2, 0, 0}, PadMode::constant), (test::ErrorWith{"BadHaloWidth", "cropped"}));
  EXPECT_EQ(rule_of([&] { nn::Trim2d(Widths({0, 0, 0, -1}), domain); }), (test::ErrorWith{"BadHaloWidth", "Trim"}));
  EXPECT_EQ(rule_of([&] { nn::Pad2d(nn::PadOptions<2>(Widths(1)), domain)(x[0][0]); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              nn::Pad3d(nn::PadOptions<3>({0, 0, 0, 0, 1, 0}, PadMode::domain), domain);
            }),
            (test::ErrorWith{"BadBoundary", "no rule for levels"}));
  EXPECT_EQ(rule_of([&] {
              nn::PadOptions<2> options(Widths(1), PadMode::domain);
              options.odd_channels = {2};
              nn::Pad2d(options, domain)(x);
            }),
            (test::ErrorWith{"BadBoundary", "an odd channel must be in [0, 2), got 2"}));
}

}  // namespace test_padding
}  // namespace graticule
