// SPDX-License-Identifier: BSD-3-Clause
// Convolutions over one, two or three axes against LibTorch's, in all padding modes and across the poles.
#pragma once

#include <graticule/nn_bridge/stencil/conv1d.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/conv3d.hpp>

#include "serial_comparison.hpp"

#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace graticule::test {

enum class ConvMode { zeros, reflect, replicate, circular, pole_face, pole_row };

constexpr std::array all_conv_modes{ConvMode::zeros,    ConvMode::reflect,   ConvMode::replicate,
                                    ConvMode::circular, ConvMode::pole_face, ConvMode::pole_row};

template <std::size_t D>
struct ConvLayers;
template <>
struct ConvLayers<1> {
  using Sharded = nn::Conv1d;
  using Serial = torch::nn::Conv1d;
};
template <>
struct ConvLayers<2> {
  using Sharded = nn::Conv2d;
  using Serial = torch::nn::Conv2d;
};
template <>
struct ConvLayers<3> {
  using Sharded = nn::Conv3d;
  using Serial = torch::nn::Conv3d;
};

/// From 4 channels to 4. Sizes are those of levels (if any), rows and columns (if any).
template <std::size_t D>
struct ConvCase {
  using Sizes = std::vector<std::int64_t>;

  Sizes extent, kernel = Sizes(D, 3), stride = Sizes(D, 1), padding = Sizes(D, 1), dilation = Sizes(D, 1);
  std::int64_t groups = 1;
  ConvMode mode = ConvMode::zeros;
  bool bias = true;
  bool same = false;
  bool batched = true;

  [[nodiscard]] bool by_domain() const { return mode == ConvMode::pole_face || mode == ConvMode::pole_row; }
  [[nodiscard]] std::vector<std::int64_t> odd_channels() const {
    return by_domain() ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{};
  }
  [[nodiscard]] Width width(std::size_t a) const {
    Index const total = dilation[a] * (kernel[a] - 1);
    return same ? Width{total / 2, total - total / 2} : Width{padding[a], padding[a]};
  }
  [[nodiscard]] Sizes sizes() const {
    auto result = extent;
    result.insert(result.begin(), 4);
    if (batched) result.insert(result.begin(), 2);
    return result;
  }
};

template <std::size_t D>
std::string to_text(ConvCase<D> const& c) {
  std::ostringstream text;
  text << c.extent << " kernel " << c.kernel << " stride " << c.stride << " padding " << c.padding << " dilation "
       << c.dilation << " groups " << c.groups << " mode " << int(c.mode) << " same " << c.same;
  return text.str();
}

struct LargestConv {
  std::int64_t extent, kernel, stride, dilation, padding;
};

template <std::size_t D>
ConvCase<D> random_conv_case(std::mt19937& random, ConvMode mode, LargestConv const& largest) {
  ConvCase<D> c;
  c.mode = mode;
  for (std::size_t a = 0; a < D; ++a) {
    bool const is_longitude = D > 1 && a + 1 == D;
    c.extent.push_back(is_longitude ? 2 * draw(random, 2, largest.extent / 2) : draw(random, 3, largest.extent));
    c.kernel[a] = draw(random, 1, largest.kernel);
    c.stride[a] = draw(random, 1, largest.stride);
    c.dilation[a] = draw(random, 1, largest.dilation);
    c.padding[a] = draw(random, 0, std::min<Index>(c.extent[a] - 1, largest.padding));
    if (c.extent[a] + 2 * c.padding[a] < c.dilation[a] * (c.kernel[a] - 1) + 1) c.kernel[a] = 1;
  }
  c.groups = std::int64_t(1) << draw(random, 0, 2);
  c.bias = draw(random, 0, 3) > 0;
  c.batched = draw(random, 0, 3) > 0;
  return c;
}

template <std::size_t D>
torch::nn::ConvOptions<D> torch_options(ConvCase<D> const& c) {
  using Array = torch::ExpandingArray<D>;
  auto options = torch::nn::ConvOptions<D>(4, 4, Array(c.kernel))
                     .stride(Array(c.stride))
                     .dilation(Array(c.dilation))
                     .groups(c.groups)
                     .bias(c.bias);
  if (c.same)
    options.padding(torch::kSame);
  else
    options.padding(Array(c.padding));
  if (c.mode == ConvMode::reflect) options.padding_mode(torch::kReflect);
  if (c.mode == ConvMode::replicate) options.padding_mode(torch::kReplicate);
  if (c.mode == ConvMode::circular) options.padding_mode(torch::kCircular);
  return options;
}

template <std::size_t D>
nn::ConvOptions<D> sharded_options(ConvCase<D> const& c) {
  nn::ConvOptions<D> options(torch_options(c), c.by_domain() ? nn::Padding::by_domain : nn::Padding::by_mode);
  options.odd_channels = c.odd_channels();
  return options;
}

/// LibTorch's layer, or LibTorch's convolution without padding after the serial padding of the sphere.
template <std::size_t D>
torch::Tensor serial_conv(ConvCase<D> const& c, torch::Tensor const& x, torch::Tensor const& weight,
                          torch::Tensor const& bias) {
  namespace F = torch::nn::functional;
  if (!c.by_domain() && !(c.same && c.mode == ConvMode::circular)) {
    typename ConvLayers<D>::Serial layer(torch_options(c));
    layer->weight = weight;
    layer->bias = bias;
    return layer(x);
  }
  auto padded = c.batched ? x : x.unsqueeze(0);
  if (c.by_domain()) {
    padded = pad_sphere_along(padded, D, c.width(D == 3 ? 1 : 0), D == 1 ? Width{0, 0} : c.width(D - 1),
                              c.mode == ConvMode::pole_row, c.odd_channels());
    if (D == 3) padded = at::constant_pad_nd(padded, {0, 0, 0, 0, c.width(0).lower, c.width(0).upper});
  } else {
    // LibTorch 2.13's C++ layer swaps the axes' padding for `same` with a padding mode; its functions do not.
    std::vector<std::int64_t> widths;
    for (std::size_t a = D; a-- > 0;) widths.insert(widths.end(), {c.width(a).lower, c.width(a).upper});
    padded = F::pad(padded, F::PadFuncOptions(widths).mode(torch::kCircular));
  }
  std::vector<std::int64_t> const none(D, 0);
  auto const optional_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  auto const y = at::convolution(padded, weight, optional_bias, c.stride, none, c.dilation, false, none, c.groups);
  return c.batched ? y : y.squeeze(0);
}

template <std::size_t D>
std::vector<nn::Domain> conv_domains(ConvMode mode) {
  return domains(Boundary::sphere(mode == ConvMode::pole_row ? Edge::pole_row : Edge::pole_face), D);
}

/// On random cuts, with random parameters.
template <std::size_t D>
SerialComparison conv_comparison(nn::Domain const& domain, ConvCase<D> const& c, std::mt19937& random,
                                 double tolerance = 1e-12, torch::Dtype type = torch::kDouble) {
  auto const cuts = random_field_cuts(domain, random, c.extent);
  typename ConvLayers<D>::Sharded layer(sharded_options(c), domain);
  layer->to(type);
  randomize(*layer, random);
  auto const weight = leaf_of(layer->weight);
  auto const bias = leaf_of(layer->bias);
  // By the rule in the header.
  auto const input_of = [c](std::size_t a, Index o) {
    return o * c.stride[a] - c.width(a).lower + c.dilation[a] * (c.kernel[a] - 1) / 2;
  };
  return {.name = to_text(c) + " on " + to_string(domain.grid()),
          .layer = layer,
          .oracle = [=](torch::Tensor const& x) { return serial_conv(c, x, weight, bias); },
          .input = {{domain, cuts}, D},
          .output =
              [=](torch::Tensor const& y) {
                return Shard({domain, owner_cuts(cuts, y, D, input_of)}, D);
              },
          .module = layer.ptr(),
          .parameters = {{"weight", weight}, {"bias", bias}},
          .tolerance = {.output = tolerance, .gradient = tolerance}};
}

template <std::size_t D>
void expect_serial(nn::Domain const& domain, ConvCase<D> const& c, std::mt19937& random, double tolerance = 1e-12,
                   torch::Dtype type = torch::kDouble) {
  auto const x = random_tensor(random, c.sizes(), type);
  conv_comparison(domain, c, random, tolerance, type).expect_equal(x, random);
}

/// In each mode, on one grid of ranks after the other.
template <std::size_t D>
void expect_serial_for_random_cases(std::mt19937 random, int repeats, LargestConv const& largest) {
  for (auto const mode : all_conv_modes) {
    auto const grids = conv_domains<D>(mode);
    for (int repeat = 0; repeat < repeats; ++repeat)
      expect_serial(grids[std::size_t(repeat) % grids.size()], random_conv_case<D>(random, mode, largest), random);
  }
}

template <std::size_t D>
void expect_serial_with_same_padding(std::mt19937 random, std::vector<std::int64_t> const& extent,
                                     std::vector<std::int64_t> const& kernels) {
  for (auto const mode : {ConvMode::zeros, ConvMode::circular, ConvMode::pole_row})
    for (auto const& domain : conv_domains<D>(mode))
      for (auto const kernel : kernels) {
        ConvCase<D> c{.extent = extent, .mode = mode, .same = true};
        c.kernel.assign(D, kernel);
        if (D == 2 && kernel == 3) c.dilation[1] = 2;
        expect_serial(domain, c, random);
      }
}

template <std::size_t D>
void expect_serial_in(torch::Dtype type, double tolerance, std::mt19937 random,
                      std::vector<std::int64_t> const& extent) {
  ConvCase<D> const c{.extent = extent, .mode = ConvMode::pole_face};
  for (auto const& domain : conv_domains<D>(c.mode)) expect_serial(domain, c, random, tolerance, type);
}

}  // namespace graticule::test
