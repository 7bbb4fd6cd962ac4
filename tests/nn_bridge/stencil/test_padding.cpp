// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/padding.hpp>
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <type_traits>

namespace graticule {
namespace {

using test::difference;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
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
    auto const turned = num_axes == 1 ? x.unsqueeze(-1) : num_axes == 3 ? x.transpose(1, 2) : x;
    auto const width = [&](std::size_t i) { return Width{c.widths[2 * i], c.widths[2 * i + 1]}; };
    auto const y = num_axes == 1 ? test::pad_sphere(turned, width(0), {0, 0}, pole == Edge::pole_row, {1})
                                 : test::pad_sphere(turned, width(1), width(0), pole == Edge::pole_row, {1});
    return num_axes == 1 ? y.squeeze(-1) : num_axes == 3 ? y.transpose(1, 2) : y;
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
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  for (Index o = 0; o < total; ++o)
    ++sizes[std::size_t(inputs.part_of(std::clamp<Index>(o - width.lower, 0, inputs.extent() - 1)))];
  return Cuts(sizes);
}

/// This rank's part of tensors with or without columns.
struct Shard {
  Part part;
  bool with_columns;

  [[nodiscard]] torch::Tensor of(torch::Tensor const& x) const {
    return with_columns ? part.of(x) : part.of(x.unsqueeze(-1)).squeeze(-1);
  }
};

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
  SCOPED_TRACE(to_text(c));
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), {2, 3});
  auto const x = random_tensor(random, sizes);
  auto whole = x.clone().requires_grad_();
  auto const expected = serial(c, whole, pole);
  auto const cotangent = random_tensor(random, expected.sizes().vec());
  expected.backward(cotangent);
  std::size_t const row = D == 3 ? 1 : 0;
  std::size_t const row_widths = D == 1 ? 0 : 2;
  auto const rows = random_cuts(random, c.extent[row], domain.grid().extent(0));
  auto const columns = random_cuts(random, D == 1 ? 1 : c.extent[row + 1], domain.grid().extent(1));
  Shard const input{{domain, rows, columns}, D > 1};
  Width const columns_width = D == 1 ? Width{0, 0} : Width{c.widths[0], c.widths[1]};
  Shard const output{{domain, output_cuts(rows, {c.widths[row_widths], c.widths[row_widths + 1]}, c.balanced),
                      output_cuts(columns, columns_width, c.balanced)},
                     D > 1};
  nn::PadOptions<D> options(c.widths, c.mode);
  if (c.mode == PadMode::constant) options.value = 1.5;
  if (c.mode == PadMode::domain) options.odd_channels = {1};
  if (c.balanced) options.cuts = nn::PadCuts::balanced;
  typename Layers<D>::Pad layer(options, domain);

  auto shard = input.of(x).clone().requires_grad_();
  auto const found = layer(shard);
  found.backward(output.of(cotangent));

  EXPECT_TRUE(torch::equal(found, output.of(expected)));
  EXPECT_LE(difference(shard.grad(), input.of(whole.grad())), 1e-14);
  bool const grows = *std::min_element(c.widths.begin(), c.widths.end()) >= 0;
  if (grows && !c.balanced) {
    typename Layers<D>::Trim trim(c.widths, domain);
    EXPECT_TRUE(torch::equal(trim(found), shard));
  }
}

template <std::size_t D>
std::vector<nn::Domain> domains(Edge pole) {
  auto const comm = Comm::world();
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks()))
    if (D > 1 || grid.extent(1) == 1) result.emplace_back(comm, grid, Boundary::sphere(pole));
  return result;
}

template <std::size_t D>
Case random_case(std::mt19937& random, PadMode mode) {
  auto const pick = [&](std::int64_t lo, std::int64_t hi) {
    return lo + std::int64_t(random() % std::uint32_t(hi - lo + 1));
  };
  Case c;
  c.mode = mode;
  for (std::size_t a = 0; a < D; ++a) c.extent.push_back(D > 1 && a == D - 1 ? 2 * pick(3, 5) : pick(4, 9));
  for (std::size_t side = 0; side < 2 * D; ++side) {
    bool const level = D == 3 && side >= 4;
    c.widths.push_back(mode == PadMode::domain && level ? 0 : pick(mode == PadMode::domain ? 0 : -1, 3));
  }
  c.balanced = pick(0, 2) == 0;
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
    Part const part(domain, random_cuts(random, 5, domain.grid().extent(0)),
                    random_cuts(random, 6, domain.grid().extent(1)));
    nn::Pad2dOptions options({2, 1, 1, 2}, PadMode::domain);
    options.cuts = nn::PadCuts::balanced;
    nn::Pad2d layer(options, domain);
    nn::Pad2d mirror(nn::Pad2dOptions({2, 1, 1, 2}, PadMode::reflect), domain);
    auto const x = random_tensor(random, {1, 2, 5, 6});
    auto whole = x.clone().requires_grad_();
    F::pad(whole, F::PadFuncOptions({2, 1, 1, 2}).mode(torch::kReflect)).sum().backward();
    auto shard = part.of(x).clone().requires_grad_();

    mirror(shard).sum().backward();
    auto const errors =
        test::gradient_errors({.function = [&](auto const& t) { return layer(t).pow(3); }}, part.of(x), domain.comm());

    EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-14);
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
    return rule_of([&] { nn::Pad2d(nn::Pad2dOptions(widths, mode), domain)(x); });
  };

  EXPECT_EQ(run({4, 0, 0, 0}, PadMode::reflect), "PaddingTooWide");
  EXPECT_EQ(run({0, 0, 0, rows}, PadMode::reflect), "PaddingTooWide");
  EXPECT_EQ(run({0, 0, 0, rows + 1}, PadMode::circular), "PaddingTooWide");
  EXPECT_EQ(run({0, 0, 0, rows}, PadMode::circular), "nothing was thrown");
  EXPECT_EQ(run({-2, -2, 0, 0}, PadMode::constant), "CropTooWide");
  EXPECT_EQ(run({-4, 2, 0, 0}, PadMode::constant), "CropTooWide");
  EXPECT_EQ(rule_of([&] { nn::Trim2d(Widths({0, 0, 0, -1}), domain); }), "CropTooWide");
  EXPECT_EQ(rule_of([&] { nn::Pad2d(nn::Pad2dOptions(Widths(1)), domain)(x[0][0]); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              nn::Pad3d(nn::Pad3dOptions({0, 0, 0, 0, 1, 0}, PadMode::domain), domain);
            }),
            "LevelsByDomain");
  EXPECT_EQ(rule_of([&] {
              nn::Pad2dOptions options(Widths(1), PadMode::domain);
              options.odd_channels = {2};
              nn::Pad2d(options, domain)(x);
            }),
            "OddChannels");
}

TEST(PixelShuffle, and_unshuffle_equal_serial) {
  std::mt19937 random(3);
  for (auto const& domain : domains<2>(Edge::pole_face)) {
    for (std::int64_t const r : {1, 2, 3}) {
      Index const num_rows = 5;
      Index const num_columns = 4;
      auto const rows = random_cuts(random, num_rows, domain.grid().extent(0));
      auto const columns = random_cuts(random, num_columns, domain.grid().extent(1));
      auto const times = [&](Cuts const& cuts) {
        auto sizes = cuts.sizes();
        for (auto& size : sizes) size *= r;
        return Cuts(sizes);
      };
      Part const coarse(domain, rows, columns);
      Part const fine(domain, times(rows), times(columns));
      auto const x = random_tensor(random, {2, 2 * r * r, num_rows, num_columns});
      auto const y = random_tensor(random, {2, num_rows * r, num_columns * r});
      auto const x_cotangent = random_tensor(random, {2, 2, num_rows * r, num_columns * r});
      auto const y_cotangent = random_tensor(random, {2 * r * r, num_rows, num_columns});
      auto whole_x = x.clone().requires_grad_();
      auto whole_y = y.clone().requires_grad_();
      torch::pixel_shuffle(whole_x, r).backward(x_cotangent);
      torch::pixel_unshuffle(whole_y, r).backward(y_cotangent);
      auto const fine_rows = random_cuts(random, num_rows * r, domain.grid().extent(0));
      auto const fine_columns = random_cuts(random, num_columns * r, domain.grid().extent(1));
      auto const owners = [&](Cuts const& cuts) {
        std::vector<Index> sizes(std::size_t(cuts.num_parts()), 0);
        for (Index o = 0; o < cuts.extent() / r; ++o) ++sizes[std::size_t(cuts.part_of(o * r + (r - 1) / 2))];
        return Cuts(sizes);
      };
      Part const any(domain, fine_rows, fine_columns);
      Part const owned(domain, owners(fine_rows), owners(fine_columns));
      nn::PixelShuffle shuffle(torch::nn::PixelShuffleOptions(r), domain);
      nn::PixelUnshuffle unshuffle(torch::nn::PixelUnshuffleOptions(r), domain);

      auto shard_x = coarse.of(x).clone().requires_grad_();
      auto shard_y = any.of(y).clone().requires_grad_();
      auto const shuffled = shuffle(shard_x);
      auto const unshuffled = unshuffle(shard_y);
      shuffled.backward(fine.of(x_cotangent));
      unshuffled.backward(owned.of(y_cotangent));

      EXPECT_TRUE(torch::equal(shuffled, fine.of(torch::pixel_shuffle(x, r))));
      EXPECT_TRUE(torch::equal(unshuffled, owned.of(torch::pixel_unshuffle(y, r))));
      EXPECT_TRUE(torch::equal(shard_x.grad(), coarse.of(whole_x.grad())));
      EXPECT_TRUE(torch::equal(shard_y.grad(), any.of(whole_y.grad())));
    }
  }
}

TEST(PixelShuffle, and_unshuffle_refuse_by_name_on_all_ranks) {
  auto const domain = domains<2>(Edge::pole_face).front();
  nn::PixelShuffle shuffle(torch::nn::PixelShuffleOptions(2), domain);
  nn::PixelUnshuffle unshuffle(torch::nn::PixelUnshuffleOptions(2), domain);

  EXPECT_EQ(rule_of([&] { shuffle(torch::ones({6, 2, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { shuffle(torch::ones({2, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { unshuffle(torch::ones({4, 3, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { nn::PixelShuffle(torch::nn::PixelShuffleOptions(0), domain); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { shuffle(torch::ones({4, 2, 2})); }), "nothing was thrown");
}

}  // namespace
}  // namespace graticule
