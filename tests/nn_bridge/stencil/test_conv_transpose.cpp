// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>

#include "allocations.hpp"
#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <sstream>
#include <type_traits>

namespace graticule {
namespace test_conv_transpose {

using test::Cotangent;
using test::draw;
using test::leaf_of;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
using Sizes = std::vector<std::int64_t>;

enum class Mode { zeros, pole_face, pole_row };

template <std::size_t D>
struct Layers;
template <>
struct Layers<1> {
  using Sharded = nn::ConvTranspose1d;
};
template <>
struct Layers<2> {
  using Sharded = nn::ConvTranspose2d;
};
template <>
struct Layers<3> {
  using Sharded = nn::ConvTranspose3d;
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
    auto const padded = test::pad_sphere_along(given, num_axes, {k_rows, k_rows}, {k_columns, k_columns},
                                               c.mode == Mode::pole_row, {1, 2});
    auto const sizes = y.sizes().vec();
    y = convolve(padded).narrow(row + 2, k_rows * c.stride[std::size_t(row)], sizes[std::size_t(row) + 2]);
    if (num_axes > 1) y = y.narrow(-1, k_columns * c.stride.back(), sizes.back());
  }
  return c.batched ? y : y.squeeze(0);
}

enum class To { usual_cuts, cuts_of_another };

/// On random cuts, with random parameters; like another field to random cuts, without output padding in the options.
template <std::size_t D>
SerialComparison comparison_of(nn::Domain const& domain, Case const& c, std::mt19937& random, To to = To::usual_cuts,
                               torch::Dtype type = torch::kDouble) {
  auto const cuts = test::random_field_cuts(domain, random, c.extent);
  bool const like = to == To::cuts_of_another;
  auto layer_case = c;
  if (like) layer_case.output_padding.assign(D, 0);
  nn::ConvTransposeOptions<D> options(torch_options<D>(layer_case),
                                      c.mode == Mode::zeros ? nn::Padding::by_mode : nn::Padding::by_domain);
  if (c.mode != Mode::zeros) options.odd_channels = {1, 2};
  typename Layers<D>::Sharded layer(options, domain);
  layer->to(type);
  test::randomize(*layer, random);
  auto const weight = leaf_of(layer->weight);
  auto const bias = leaf_of(layer->bias);
  Sizes sizes;
  for (std::size_t a = 0; a < D; ++a)
    sizes.push_back((c.extent[a] - 1) * c.stride[a] - 2 * c.padding[a] + c.dilation[a] * (c.kernel[a] - 1) +
                    c.output_padding[a] + 1);
  auto const any = test::random_field_cuts(domain, random, sizes);
  // By the rule in the header.
  auto const input_of = [c](std::size_t a, Index o) {
    auto const middle = c.dilation[a] * (c.kernel[a] - 1) / 2;
    return Index(std::floor(double(o + c.padding[a] - middle) / double(c.stride[a])));
  };
  Shard const other({domain, any}, D);
  auto output = [=](torch::Tensor const& y) {
    return like ? other : Shard({domain, test::owner_cuts(cuts, y, D, input_of)}, D);
  };
  auto const forward_like = [=](torch::Tensor const& x) mutable {
    auto y = sizes;
    y.insert(y.begin(), 6);
    if (c.batched) y.insert(y.begin(), 2);
    return layer->forward_like(x, other.of(torch::zeros(y)));
  };
  return {.name = to_text(c) + " on " + to_string(domain.grid()) + (like ? " like another" : ""),
          .layer = like ? SerialComparison::Function(forward_like) : layer,
          .oracle = [=](torch::Tensor const& x) { return serial(c, x, weight, bias); },
          .input = {{domain, cuts}, D},
          .output = output,
          .module = layer.ptr(),
          .parameters = {{"weight", weight}, {"bias", bias}}};
}

torch::Tensor field_of(Case const& c, std::mt19937& random, torch::Dtype type = torch::kDouble) {
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), 4);
  if (c.batched) sizes.insert(sizes.begin(), 2);
  return random_tensor(random, sizes, type);
}

template <std::size_t D>
std::vector<nn::Domain> domains(Mode mode) {
  return test::domains(Boundary::sphere(mode == Mode::pole_row ? Edge::pole_row : Edge::pole_face), D);
}

/// Strides beyond the kernel leave outputs that nothing adds to; padding beyond the kernel crops inputs away.
template <std::size_t D>
Case random_case(std::mt19937& random, Mode mode) {
  Case c;
  c.mode = mode;
  for (std::size_t a = 0; a < D; ++a) {
    c.extent.push_back(D > 1 && a == D - 1 ? 2 * draw(random, 2, 3) : draw(random, 3, D == 1 ? 9 : 5));
    c.kernel.push_back(draw(random, 1, 4));
    c.stride.push_back(draw(random, 1, 3));
    c.dilation.push_back(draw(random, 1, 2));
    c.output_padding.push_back(draw(random, 0, std::max(c.stride[a], c.dilation[a]) - 1));
    auto const most = ((c.extent[a] - 1) * c.stride[a] + c.dilation[a] * (c.kernel[a] - 1)) / 2;
    c.padding.push_back(draw(random, 0, std::min<Index>(most, 3)));
  }
  c.groups = draw(random, 0, 1) ? 2 : 1;
  c.batched = draw(random, 0, 3) > 0;
  c.bias = draw(random, 0, 3) > 0;
  return c;
}

template <std::size_t D>
void expect_serial(Mode mode, int repeats, std::mt19937 random, To to = To::usual_cuts) {
  auto const grids = domains<D>(mode);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    auto const c = random_case<D>(random, mode);
    comparison_of<D>(grids[std::size_t(repeat) % grids.size()], c, random, to)
        .expect_equal(field_of(c, random), random);
  }
}

template <class D>
class ConvTranspose : public testing::Test {};
using Dimensions = testing::Types<std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 2>,
                                  std::integral_constant<std::size_t, 3>>;
TYPED_TEST_SUITE(ConvTranspose, Dimensions);

TYPED_TEST(ConvTranspose, equals_serial_for_random_cuts_kernels_strides_and_paddings) {
  expect_serial<TypeParam::value>(Mode::zeros, 40, std::mt19937(1));
}

TYPED_TEST(ConvTranspose, by_domain_adds_what_lies_across_poles_and_the_date_line) {
  for (Mode const mode : {Mode::pole_face, Mode::pole_row}) expect_serial<TypeParam::value>(mode, 12, std::mt19937(2));
}

TYPED_TEST(ConvTranspose, to_the_cuts_of_another_field_equals_serial) {
  for (Mode const mode : {Mode::zeros, Mode::pole_face})
    expect_serial<TypeParam::value>(mode, 8, std::mt19937(3), To::cuts_of_another);
}

TEST(ConvTranspose2d, equals_serial_in_half_width_precision) {
  std::mt19937 random(4);
  auto const type = torch::kBFloat16;
  Case const c{{5, 6}, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1, Mode::pole_face};
  for (auto const& domain : domains<2>(c.mode)) {
    auto comparison = comparison_of<2>(domain, c, random, To::usual_cuts, type);
    comparison.tolerance = {.output = 0.04, .gradient = 0.04};

    comparison.expect_equal(field_of(c, random, type), random);
  }
}

TEST(ConvTranspose2d, is_differentiable_twice_and_takes_the_cotangent_of_a_sum) {
  std::mt19937 random(6);
  Case const c{{5, 6}, {3, 4}, {2, 1}, {1, 0}, {1, 0}, {1, 2}};
  for (auto const& domain : domains<2>(Mode::pole_face)) {
    auto comparison = comparison_of<2>(domain, c, random);
    comparison.layer = [layer = comparison.layer](torch::Tensor const& x) { return layer(x).square(); };
    comparison.oracle = [serial = comparison.oracle](torch::Tensor const& x) { return serial(x).square(); };

    comparison.expect_equal_twice(field_of(c, random), random, Cotangent::ones);
  }
}

/// Where no window lies across a cut: what LibTorch's layer takes for the own rows.
TEST(ConvTranspose2d, of_shards_copies_no_field) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const options = torch::nn::ConvTranspose2dOptions(4, 4, 2).stride(2);
  auto const num_allocations = [](auto layer) {
    auto const x = torch::rand({1, 4, 40, 64}).requires_grad_();
    Index const bytes = 4 * Index(x.nbytes());
    torch::Tensor y;
    auto const forward = test::num_large_allocations(bytes, [&] { y = layer(x); });
    auto const cotangent = torch::rand_like(y);
    auto const backward = test::num_large_allocations(bytes / 4, [&] { y.backward(cotangent); });
    return std::array{forward, backward};
  };

  EXPECT_EQ(num_allocations(nn::ConvTranspose2d(options, domain)),
            num_allocations(torch::nn::ConvTranspose2d(options)));
}

TEST(ConvTranspose2d, refuses_by_name_on_all_ranks) {
  auto const domain = domains<2>(Mode::zeros).front();
  using Options = torch::nn::ConvTranspose2dOptions;
  auto const x = torch::ones({1, 4, 4, 4});
  auto const make = [&](Options const& options) { return nn::ConvTranspose2d(options, domain); };

  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 3).output_padding(1)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 3).stride(0)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 3).padding_mode(torch::kCircular)); }), "Unsupported");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 1).padding({2, 0}))(x); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { make(Options(2, 4, 1))(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 1))(x.to(torch::kDouble)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(Options(4, 4, 1))(torch::Tensor()); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] {
              make(Options(4, 4, 2).stride(2))->forward_like(x, torch::ones({1, 1, 10, 8}));
            }),
            (test::ErrorWith{"BadOption", " cells along rows; "}));
  EXPECT_EQ(rule_of([&] {
              make(Options(4, 4, 2).stride(2))->forward_like(x, torch::ones({1, 1, 8, 7}));
            }),
            (test::ErrorWith{"BadOption", " input cells give "}));
  EXPECT_EQ(rule_of([&] {
              make(Options(4, 4, 2).stride(2))->forward_like(x, torch::ones({1, 1, 9, 8}));
            }),
            "nothing was thrown");
  EXPECT_EQ(rule_of([&] {
              nn::ConvTransposeOptions<2> options(Options(4, 4, 1), nn::Padding::by_domain);
              options.odd_channels = {4};
              nn::ConvTranspose2d(options, domain)(x);
            }),
            "BadBoundary");
}

}  // namespace test_conv_transpose
}  // namespace graticule
