// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/stencil/conv1d.hpp>
#include <graticule/nn_bridge/stencil/conv3d.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

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

enum class Mode { zeros, reflect, replicate, circular, pole_face, pole_row };

template <std::size_t D>
struct Layers;
template <>
struct Layers<1> {
  using Sharded = nn::Conv1d;
  using Serial = torch::nn::Conv1d;
};
template <>
struct Layers<3> {
  using Sharded = nn::Conv3d;
  using Serial = torch::nn::Conv3d;
};

/// Sizes are those of levels (if any), rows and columns (if any).
struct Case {
  std::vector<std::int64_t> extent, kernel, stride, padding, dilation;
  std::int64_t groups = 1;
  Mode mode = Mode::zeros;
  bool same = false;
  bool batched = true;
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << c.extent << " kernel " << c.kernel << " stride " << c.stride << " padding " << c.padding << " dilation "
       << c.dilation << " groups " << c.groups << " mode " << int(c.mode) << " same " << c.same;
  return text.str();
}

bool by_domain(Mode mode) { return mode == Mode::pole_face || mode == Mode::pole_row; }

template <std::size_t D>
torch::nn::ConvOptions<D> torch_options(Case const& c) {
  torch::nn::ConvOptions<D> options(4, 4, torch::ExpandingArray<D>(c.kernel));
  options.stride(torch::ExpandingArray<D>(c.stride)).dilation(torch::ExpandingArray<D>(c.dilation)).groups(c.groups);
  if (c.same)
    options.padding(torch::kSame);
  else
    options.padding(torch::ExpandingArray<D>(c.padding));
  if (c.mode == Mode::reflect) options.padding_mode(torch::kReflect);
  if (c.mode == Mode::replicate) options.padding_mode(torch::kReplicate);
  if (c.mode == Mode::circular) options.padding_mode(torch::kCircular);
  return options;
}

Width width(Case const& c, std::size_t a) {
  Index const total = c.dilation[a] * (c.kernel[a] - 1);
  return c.same ? Width{total / 2, total - total / 2} : Width{c.padding[a], c.padding[a]};
}

/// Padding by LibTorch's function or by the test's own sphere, then LibTorch's convolution without padding.
torch::Tensor serial(Case const& c, torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias) {
  auto const spatial = c.kernel.size();
  auto padded = c.batched ? x : x.unsqueeze(0);
  if (by_domain(c.mode)) {
    auto const rows = width(c, spatial == 1 ? 0 : 1);
    auto const columns = spatial == 1 ? Width{0, 0} : width(c, 2);
    auto const turned = spatial == 1 ? padded.unsqueeze(-1) : padded.transpose(1, 2);
    auto const round = test::pad_sphere(turned, rows, columns, c.mode == Mode::pole_row, {1, 2});
    padded = spatial == 1 ? round.squeeze(-1) : round.transpose(1, 2);
    if (spatial == 3) padded = at::constant_pad_nd(padded, {0, 0, 0, 0, width(c, 0).lower, width(c, 0).upper});
  } else {
    std::vector<std::int64_t> widths;
    for (std::size_t a = spatial; a-- > 0;) widths.insert(widths.end(), {width(c, a).lower, width(c, a).upper});
    F::PadFuncOptions options(widths);
    if (c.mode == Mode::reflect) options.mode(torch::kReflect);
    if (c.mode == Mode::replicate) options.mode(torch::kReplicate);
    if (c.mode == Mode::circular) options.mode(torch::kCircular);
    padded = F::pad(padded, options);
  }
  std::vector<std::int64_t> const none(spatial, 0);
  auto const y = at::convolution(padded, weight, bias, c.stride, none, c.dilation, false, none, c.groups);
  return c.batched ? y : y.squeeze(0);
}

/// Output cells of each rank by the rule in the header, found by asking for each output in turn.
Cuts output_cuts(Case const& c, std::size_t a, Cuts const& inputs, std::int64_t num_outputs) {
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  Index const middle = c.dilation[a] * (c.kernel[a] - 1) / 2;
  for (Index o = 0; o < num_outputs; ++o)
    ++sizes[std::size_t(
        inputs.part_of(std::clamp<Index>(o * c.stride[a] - width(c, a).lower + middle, 0, inputs.extent() - 1)))];
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
void expect_serial(nn::Domain const& domain, Case const& c, std::mt19937& random, double tolerance = 1e-12,
                   torch::ScalarType type = torch::kDouble) {
  SCOPED_TRACE(to_text(c));
  std::size_t const row_axis = D == 1 ? 0 : 1;
  auto const rows = random_cuts(random, c.extent[row_axis], domain.grid().extent(0));
  auto const columns = random_cuts(random, D == 1 ? 1 : c.extent[2], domain.grid().extent(1));
  Shard const part{{domain, rows, columns}, D == 3};
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), 4);
  if (c.batched) sizes.insert(sizes.begin(), 2);
  auto const x = random_tensor(random, sizes, type);
  nn::ConvOptions<D> options(torch_options<D>(c), by_domain(c.mode) ? nn::Padding::by_domain : nn::Padding::by_mode);
  if (by_domain(c.mode)) options.odd_channels = {1, 2};
  typename Layers<D>::Sharded layer(options, domain);
  layer->to(type);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.copy_(random_tensor(random, layer->weight.sizes().vec()));
    layer->bias.copy_(random_tensor(random, layer->bias.sizes().vec()));
  }
  auto weight = layer->weight.detach().clone().requires_grad_();
  auto bias = layer->bias.detach().clone().requires_grad_();
  auto whole = x.clone().requires_grad_();
  auto const expected = serial(c, whole, weight, bias);
  auto const cotangent = random_tensor(random, expected.sizes().vec(), type);
  expected.backward(cotangent);

  auto shard = part.of(x).clone().requires_grad_();
  auto const found = layer(shard);
  Shard const output{{domain, output_cuts(c, row_axis, rows, expected.size(D == 1 ? -1 : -2)),
                      D == 1 ? Cuts{1} : output_cuts(c, 2, columns, expected.size(-1))},
                     D == 3};
  found.backward(output.of(cotangent));
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

  EXPECT_LE(difference(found, output.of(expected)), tolerance);
  EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), tolerance);
  EXPECT_LE(difference(layer->weight.grad(), weight.grad()), tolerance);
  EXPECT_LE(difference(layer->bias.grad(), bias.grad()), tolerance);
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

template <std::size_t D>
Case random_case(std::mt19937& random, Mode mode) {
  auto const pick = [&](std::int64_t lo, std::int64_t hi) {
    return lo + std::int64_t(random() % std::uint32_t(hi - lo + 1));
  };
  Case c;
  c.mode = mode;
  for (std::size_t a = 0; a < D; ++a) {
    Index const extent = D == 3 && a == 2 ? 2 * pick(2, 4) : pick(3, D == 1 ? 13 : 8);
    c.extent.push_back(extent);
    c.kernel.push_back(pick(1, 5));
    c.stride.push_back(pick(1, 3));
    c.dilation.push_back(pick(1, 2));
    c.padding.push_back(pick(0, std::min<Index>(extent - 1, 4)));
    if (extent + 2 * c.padding[a] < c.dilation[a] * (c.kernel[a] - 1) + 1) c.kernel[a] = 1;
  }
  c.groups = pick(0, 1) ? 4 : 1;
  c.batched = pick(0, 3) > 0;
  return c;
}

template <class D>
class ConvNd : public testing::Test {};
using Dimensions = testing::Types<std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 3>>;
TYPED_TEST_SUITE(ConvNd, Dimensions);

TYPED_TEST(ConvNd, equals_serial_for_random_cuts_kernels_strides_dilations_and_padding_modes) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(23);
  for (auto const mode :
       {Mode::zeros, Mode::reflect, Mode::replicate, Mode::circular, Mode::pole_face, Mode::pole_row}) {
    auto const grids = domains<num_axes>(mode);
    for (int repeat = 0; repeat < 9; ++repeat)
      expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, mode), random);
  }
}

TYPED_TEST(ConvNd, equals_serial_with_same_padding_and_even_kernels) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(24);
  for (auto const mode : {Mode::zeros, Mode::circular, Mode::pole_row}) {
    for (auto const& domain : domains<num_axes>(mode)) {
      for (std::int64_t const kernel : {2, 3, 4}) {
        Case c;
        c.extent = num_axes == 1 ? std::vector<std::int64_t>{9} : std::vector<std::int64_t>{4, 7, 6};
        c.kernel.assign(num_axes, kernel);
        c.stride.assign(num_axes, 1);
        c.dilation.assign(num_axes, 1);
        c.mode = mode;
        c.same = true;
        expect_serial<num_axes>(domain, c, random);
      }
    }
  }
}

TYPED_TEST(ConvNd, equals_serial_in_half_width_precision) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(25);
  Case c;
  c.extent = num_axes == 1 ? std::vector<std::int64_t>{9} : std::vector<std::int64_t>{4, 7, 6};
  c.kernel.assign(num_axes, 3);
  c.stride.assign(num_axes, 1);
  c.dilation.assign(num_axes, 1);
  c.padding.assign(num_axes, 1);
  c.mode = Mode::pole_face;
  for (auto const& domain : domains<num_axes>(c.mode))
    expect_serial<num_axes>(domain, c, random, 0.04, torch::kBFloat16);
}

TEST(Conv3d, double_backward_equals_serial_for_channels_last_and_expanded_cotangents) {
  std::mt19937 random(26);
  Case c;
  c.extent = {3, 7, 6};
  c.kernel = c.stride = c.dilation = c.padding = {1, 1, 1};
  c.kernel = {3, 3, 3};
  c.mode = Mode::pole_face;
  for (auto const& domain : domains<3>(c.mode)) {
    Shard const part{
        {domain, random_cuts(random, 7, domain.grid().extent(0)), random_cuts(random, 6, domain.grid().extent(1))},
        true};
    auto const x = random_tensor(random, {1, 4, 3, 7, 6});
    auto const direction = random_tensor(random, {1, 4, 3, 7, 6});
    nn::ConvOptions<3> options(torch_options<3>(c), nn::Padding::by_domain);
    options.odd_channels = {1, 2};
    nn::Conv3d layer(options, domain);
    layer->to(torch::kDouble);
    nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
    auto whole = x.clone().requires_grad_();
    auto weight = layer->weight.detach().clone().requires_grad_();
    auto const y = serial(c, whole, weight, layer->bias.detach()).square();
    auto const first = torch::autograd::grad({y.sum()}, {whole}, {}, true, true)[0];
    auto const second = torch::autograd::grad({first}, {whole, weight}, {direction});

    auto shard = part.of(x).clone().contiguous(torch::MemoryFormat::ChannelsLast3d).requires_grad_();
    auto const shard_y = layer(shard).square();
    auto const shard_first = torch::autograd::grad({shard_y.sum()}, {shard}, {}, true, true)[0];
    auto const shard_second = torch::autograd::grad({shard_first}, {shard, layer->weight}, {part.of(direction)});
    layer->weight.mutable_grad() = shard_second[1].detach().clone();
    nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

    EXPECT_LE(difference(shard_first, part.of(first)), 1e-12);
    EXPECT_LE(difference(shard_second[0], part.of(second[0])), 1e-12);
    EXPECT_LE(difference(layer->weight.grad(), second[1]), 1e-12);
  }
}

TEST(Conv3d, refuses_kernels_and_padding_that_the_levels_do_not_allow) {
  auto const domain = domains<3>(Mode::zeros).front();
  auto const x = torch::ones({1, 2, 3, 4, 4});
  auto const options = [](std::int64_t levels) { return torch::nn::Conv3dOptions(2, 2, {levels, 1, 1}); };
  nn::Conv3d deep(options(4), domain);
  nn::Conv3d reflected(options(3).padding({3, 0, 0}).padding_mode(torch::kReflect), domain);
  nn::Conv3d round(options(3).padding({4, 0, 0}).padding_mode(torch::kCircular), domain);

  EXPECT_EQ(rule_of([&] { deep(x); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { reflected(x); }), "PaddingTooWide");
  EXPECT_EQ(rule_of([&] { round(x); }), "PaddingTooWide");
  EXPECT_EQ(rule_of([&] { deep(x[0][0]); }), "ShapeMismatch");
}

TEST(Conv1d, refuses_a_domain_whose_longitude_is_cut_and_other_shapes) {
  auto const comm = Comm::world();
  auto const options = torch::nn::Conv1dOptions(2, 2, 3);
  nn::Conv1d layer(options, domains<1>(Mode::zeros).front());

  if (comm.num_ranks() > 1) {
    nn::Domain const cut(comm, ProcessGrid{1, comm.num_ranks()});
    EXPECT_EQ(rule_of([&] { nn::Conv1d const refused(options, cut); }), "LongitudeIsCut");
  }
  EXPECT_EQ(rule_of([&] { layer(torch::ones({1, 2, 5, 5})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { layer(torch::Tensor()); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { layer(torch::ones({1, 2, 5})); }), "nothing was thrown");
}

}  // namespace
}  // namespace graticule
