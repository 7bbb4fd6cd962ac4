// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <cmath>
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
using Sizes = std::vector<std::int64_t>;

enum class Mode { zeros, pole_face, pole_row };

template <std::size_t D>
struct Layers;
template <>
struct Layers<1> {
  using Sharded = nn::ConvTranspose1d;
  using Serial = torch::nn::ConvTranspose1d;
};
template <>
struct Layers<2> {
  using Sharded = nn::ConvTranspose2d;
  using Serial = torch::nn::ConvTranspose2d;
};
template <>
struct Layers<3> {
  using Sharded = nn::ConvTranspose3d;
  using Serial = torch::nn::ConvTranspose3d;
};

/// Sizes are those of levels (if any), rows and columns (if any).
struct Case {
  Sizes extent, kernel, stride, padding, output_padding, dilation;
  std::int64_t groups = 1;
  Mode mode = Mode::zeros;
  bool batched = true;
  bool bias = true;
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << c.extent << " kernel " << c.kernel << " stride " << c.stride << " padding " << c.padding << " output padding "
       << c.output_padding << " dilation " << c.dilation << " groups " << c.groups << " mode " << int(c.mode);
  return text.str();
}

template <std::size_t D>
torch::nn::ConvTransposeOptions<D> torch_options(Case const& c) {
  using Array = torch::ExpandingArray<D>;
  return torch::nn::ConvTransposeOptions<D>(4, 6, Array(c.kernel))
      .stride(Array(c.stride))
      .padding(Array(c.padding))
      .output_padding(Array(c.output_padding))
      .dilation(Array(c.dilation))
      .groups(c.groups)
      .bias(c.bias);
}

/// LibTorch's; by domain on the field with the sphere's cells round it, of which the middle of the output is wanted.
torch::Tensor serial(Case const& c, torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias) {
  auto const num_axes = c.kernel.size();
  auto const given = c.batched ? x : x.unsqueeze(0);
  auto const optional_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  auto const convolve = [&](torch::Tensor const& t) {
    return at::convolution(t, weight, optional_bias, c.stride, c.padding, c.dilation, true, c.output_padding, c.groups);
  };
  auto y = convolve(given);
  if (c.mode != Mode::zeros) {
    auto const around = [&](std::size_t a) { return c.dilation[a] * (c.kernel[a] - 1) + c.output_padding[a] + 1; };
    auto const row = num_axes == 3 ? 1 : 0;
    Index const k_rows = around(std::size_t(row));
    Index const k_columns = num_axes == 1 ? 0 : around(std::size_t(row) + 1);
    auto const turned = num_axes == 1 ? given.unsqueeze(-1) : num_axes == 3 ? given.transpose(1, 2) : given;
    auto padded = test::pad_sphere(turned, {k_rows, k_rows}, {k_columns, k_columns}, c.mode == Mode::pole_row, {1, 2});
    padded = num_axes == 1 ? padded.squeeze(-1) : num_axes == 3 ? padded.transpose(1, 2) : padded;
    auto const sizes = y.sizes().vec();
    y = convolve(padded).narrow(row + 2, k_rows * c.stride[std::size_t(row)], sizes[std::size_t(row) + 2]);
    if (num_axes > 1) y = y.narrow(-1, k_columns * c.stride.back(), sizes.back());
  }
  return c.batched ? y : y.squeeze(0);
}

/// Output cells of each rank by the rule in the header, found by asking for each output in turn.
Cuts output_cuts(Case const& c, std::size_t a, Cuts const& inputs, std::int64_t num_outputs) {
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  Index const middle = c.dilation[a] * (c.kernel[a] - 1) / 2;
  for (Index o = 0; o < num_outputs; ++o) {
    auto const input = Index(std::floor(double(o + c.padding[a] - middle) / double(c.stride[a])));
    ++sizes[std::size_t(inputs.part_of(std::clamp<Index>(input, 0, inputs.extent() - 1)))];
  }
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

struct Run {
  double tolerance = 1e-12;
  torch::ScalarType type = torch::kDouble;
  bool like = false;  ///< random cuts of a tensor of the output's sizes, and no output padding in the options
};

template <std::size_t D>
void expect_serial(nn::Domain const& domain, Case const& c, std::mt19937& random, Run const& run = {}) {
  SCOPED_TRACE(to_text(c));
  std::size_t const row = D == 3 ? 1 : 0;
  auto const rows = random_cuts(random, c.extent[row], domain.grid().extent(0));
  auto const columns = random_cuts(random, D == 1 ? 1 : c.extent[row + 1], domain.grid().extent(1));
  Shard const input{{domain, rows, columns}, D > 1};
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), 4);
  if (c.batched) sizes.insert(sizes.begin(), 2);
  auto const x = random_tensor(random, sizes, run.type);
  auto layer_case = c;
  if (run.like) layer_case.output_padding.assign(D, 0);
  nn::ConvTransposeOptions<D> options(torch_options<D>(layer_case),
                                      c.mode == Mode::zeros ? nn::Padding::by_mode : nn::Padding::by_domain);
  if (c.mode != Mode::zeros) options.odd_channels = {1, 2};
  typename Layers<D>::Sharded layer(options, domain);
  layer->to(run.type);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.copy_(random_tensor(random, layer->weight.sizes().vec()));
    if (c.bias) layer->bias.copy_(random_tensor(random, layer->bias.sizes().vec()));
  }
  auto weight = layer->weight.detach().clone().requires_grad_();
  auto bias = c.bias ? layer->bias.detach().clone().requires_grad_() : torch::Tensor();
  auto whole = x.clone().requires_grad_();
  auto const expected = serial(c, whole, weight, bias);
  auto const cotangent = random_tensor(random, expected.sizes().vec(), run.type);
  expected.backward(cotangent);
  auto const out_rows = expected.size(D == 1 ? -1 : -2);
  auto const out_columns = D == 1 ? 1 : expected.size(-1);
  Shard const output{
      {domain, run.like ? random_cuts(random, out_rows, domain.grid().extent(0)) : output_cuts(c, row, rows, out_rows),
       D == 1     ? columns
       : run.like ? random_cuts(random, out_columns, domain.grid().extent(1))
                  : output_cuts(c, row + 1, columns, out_columns)},
      D > 1};

  auto shard = input.of(x).clone().requires_grad_();
  auto const found =
      run.like ? layer->forward_like(shard, output.of(torch::zeros(expected.sizes()))) : layer->forward(shard);
  found.backward(output.of(cotangent));
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

  EXPECT_EQ(found.scalar_type(), run.type);
  EXPECT_LE(difference(found, output.of(expected)), run.tolerance);
  EXPECT_LE(difference(shard.grad(), input.of(whole.grad())), run.tolerance);
  EXPECT_LE(difference(layer->weight.grad(), weight.grad()), run.tolerance);
  if (c.bias) {
    EXPECT_LE(difference(layer->bias.grad(), bias.grad()), run.tolerance);
  }
}

template <std::size_t D>
std::vector<nn::Domain> domains(Mode mode) {
  auto const comm = Comm::world();
  auto const boundary = Boundary::sphere(mode == Mode::pole_row ? Edge::pole_row : Edge::pole_face);
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks()))
    if (D > 1 || grid.extent(1) == 1) result.emplace_back(comm, grid, boundary);
  return result;
}

/// Strides beyond the kernel leave outputs that nothing adds to; padding beyond the kernel crops inputs away.
template <std::size_t D>
Case random_case(std::mt19937& random, Mode mode) {
  auto const pick = [&](std::int64_t lo, std::int64_t hi) {
    return lo + std::int64_t(random() % std::uint32_t(hi - lo + 1));
  };
  Case c;
  c.mode = mode;
  for (std::size_t a = 0; a < D; ++a) {
    c.extent.push_back(D > 1 && a == D - 1 ? 2 * pick(2, 3) : pick(3, D == 1 ? 9 : 5));
    c.kernel.push_back(pick(1, 4));
    c.stride.push_back(pick(1, 3));
    c.dilation.push_back(pick(1, 2));
    c.output_padding.push_back(pick(0, std::max(c.stride[a], c.dilation[a]) - 1));
    auto const most = ((c.extent[a] - 1) * c.stride[a] + c.dilation[a] * (c.kernel[a] - 1)) / 2;
    c.padding.push_back(pick(0, std::min<Index>(most, 3)));
  }
  c.groups = pick(0, 1) ? 2 : 1;
  c.batched = pick(0, 3) > 0;
  c.bias = pick(0, 3) > 0;
  return c;
}

template <class D>
class ConvTranspose : public testing::Test {};
using Dimensions = testing::Types<std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 2>,
                                  std::integral_constant<std::size_t, 3>>;
TYPED_TEST_SUITE(ConvTranspose, Dimensions);

TYPED_TEST(ConvTranspose, equals_serial_for_random_cuts_kernels_strides_and_paddings) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(1);
  auto const grids = domains<num_axes>(Mode::zeros);
  for (int repeat = 0; repeat < 40; ++repeat)
    expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, Mode::zeros),
                            random);
}

TYPED_TEST(ConvTranspose, by_domain_adds_what_lies_across_poles_and_the_date_line) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(2);
  for (Mode const mode : {Mode::pole_face, Mode::pole_row}) {
    auto const grids = domains<num_axes>(mode);
    for (int repeat = 0; repeat < 12; ++repeat)
      expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, mode), random);
  }
}

TYPED_TEST(ConvTranspose, to_the_cuts_of_another_field_equals_serial) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(3);
  for (Mode const mode : {Mode::zeros, Mode::pole_face}) {
    auto const grids = domains<num_axes>(mode);
    for (int repeat = 0; repeat < 8; ++repeat)
      expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, mode), random,
                              {.like = true});
  }
}

TEST(ConvTranspose2d, equals_serial_in_half_width_precision) {
  std::mt19937 random(4);
  for (auto const& domain : domains<2>(Mode::pole_face))
    expect_serial<2>(domain, {{5, 6}, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1, Mode::pole_face}, random,
                     {.tolerance = 0.04, .type = torch::kBFloat16});
}

TEST(ConvTranspose2d, is_differentiable_twice_and_takes_the_cotangent_of_a_sum) {
  std::mt19937 random(6);
  Case const c{{5, 6}, {3, 4}, {2, 1}, {1, 0}, {1, 0}, {1, 2}};
  for (auto const& domain : domains<2>(Mode::pole_face)) {
    Part const part(domain, random_cuts(random, 5, domain.grid().extent(0)),
                    random_cuts(random, 6, domain.grid().extent(1)));
    nn::ConvTranspose2d layer(nn::ConvTranspose2dOptions(torch_options<2>(c)), domain);
    layer->to(torch::kDouble);
    nn::GradientSync const sync(*layer, {{domain.comm(), nn::Reduction::sum}});
    sync.broadcast();
    auto const x = random_tensor(random, {1, 4, 5, 6});
    auto const direction = random_tensor(random, {1, 4, 5, 6});
    auto whole = x.clone().requires_grad_();
    auto weight = layer->weight.detach().clone().requires_grad_();
    auto const y = serial(c, whole, weight, layer->bias.detach()).square();
    auto const first = torch::autograd::grad({y.sum()}, {whole}, {}, true, true)[0];
    auto const second = torch::autograd::grad({first}, {whole, weight}, {direction});

    auto shard = part.of(x).clone().requires_grad_();
    auto const shard_y = layer(shard).square();
    auto const shard_first = torch::autograd::grad({shard_y.sum()}, {shard}, {}, true, true)[0];
    auto const shard_second = torch::autograd::grad({shard_first}, {shard, layer->weight}, {part.of(direction)});
    layer->weight.mutable_grad() = shard_second[1].detach().clone();
    sync.reduce();

    EXPECT_LE(difference(shard_first, part.of(first)), 1e-12);
    EXPECT_LE(difference(shard_second[0], part.of(second[0])), 1e-12);
    EXPECT_LE(difference(layer->weight.grad(), second[1]), 1e-12);
  }
}

TEST(ConvTranspose2d, refuses_by_name_on_all_ranks) {
  auto const domain = domains<2>(Mode::zeros).front();
  using Options = torch::nn::ConvTranspose2dOptions;
  auto const x = torch::ones({1, 4, 4, 4});
  auto const make = [&](Options const& options) { return nn::ConvTranspose2d(options, domain); };

  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 3).output_padding(1)); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 3).stride(0)); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 3).padding_mode(torch::kCircular)); }), "PaddingModeUnsupported");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 1).padding({2, 0}))(x); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { make(Options(2, 4, 1))(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 1))(x.to(torch::kDouble)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 1))(torch::Tensor()); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] {
              make(Options(4, 4, 2).stride(2))->forward_like(x, torch::ones({1, 1, 10, 8}));
            }),
            "BadOutputSize");
  EXPECT_EQ(rule_of([&] {
              make(Options(4, 4, 2).stride(2))->forward_like(x, torch::ones({1, 1, 9, 8}));
            }),
            "nothing was thrown");
  EXPECT_EQ(rule_of([&] {
              nn::ConvTranspose2dOptions options(Options(4, 4, 1), nn::Padding::by_domain);
              options.odd_channels = {4};
              nn::ConvTranspose2d(options, domain)(x);
            }),
            "OddChannels");
}

}  // namespace
}  // namespace graticule
