// SPDX-License-Identifier: BSD-3-Clause
#include "unet.hpp"

#include <algorithm>

namespace graticule::train {
namespace {

bool reaches_pole(Edge edge) { return edge == Edge::pole_row || edge == Edge::pole_face; }

/// How the rows of a grid may be halved, if at all: the width of the windows that keep its poles.
std::int64_t half_window(std::int64_t num_rows, AxisBoundary const& rows) {
  if (num_rows < 6) return 0;
  if (!reaches_pole(rows.lower) && !reaches_pole(rows.upper)) return 3;
  if (rows.lower != rows.upper) return 0;
  bool const on_pole = rows.lower == Edge::pole_row;
  if ((num_rows % 2 == 1) != on_pole) return 0;
  return on_pole ? 3 : 2;
}

/// A window of 3 centred on every second cell, or of 2 over each pair.
nn::Conv2d halving(std::int64_t num_in, std::int64_t num_out, std::int64_t window, nn::Domain const& domain) {
  auto const options = torch::nn::Conv2dOptions(num_in, num_out, window).stride(2).padding(window == 3 ? 1 : 0);
  return nn::Conv2d(nn::Conv2dOptions(options, nn::Padding::by_domain), domain);
}

}  // namespace

std::int64_t UNet::num_halvings(std::int64_t wanted, std::int64_t num_rows, std::int64_t num_columns,
                                Boundary const& boundary) {
  std::int64_t halvings = 0;
  while (halvings < wanted && half_window(num_rows, boundary.axes[0]) > 0 && num_columns % 4 == 0) {
    num_rows = (num_rows + 1) / 2;
    num_columns /= 2;
    ++halvings;
  }
  return halvings;
}

UNet::UNet(ModelOptions const& options, nn::Domain const& domain) : Model(options, domain) {
  auto num_rows = std::int64_t(options.latitudes.size());
  auto const num_levels =
      std::max<std::int64_t>(1, 1 + num_halvings(options.blocks - 1, num_rows, options.num_columns, domain.boundary()));
  std::int64_t width = options.channels;
  for (std::int64_t level = 0; level < num_levels; ++level) {
    auto const name = std::to_string(level);
    blocks_.push_back(register_module("block" + name, convolution(width, width, options.kernel, domain)));
    if (level + 1 == num_levels) break;
    halves_.push_back(register_module(
        "half" + name, halving(width, 2 * width, half_window(num_rows, domain.boundary().axes[0]), domain)));
    joins_.push_back(register_module("join" + name, convolution(3 * width, width, options.kernel, domain)));
    nn::ResizeOptions resize(
        torch::nn::functional::InterpolateFuncOptions().mode(torch::kBilinear).align_corners(false),
        nn::Padding::by_domain);
    resizes_.push_back(register_module("resize" + name, nn::Resize(resize, domain)));
    num_rows = (num_rows + 1) / 2;
    width *= 2;
  }
}

torch::Tensor UNet::trunk(torch::Tensor h) {
  std::vector<torch::Tensor> skips;
  for (std::size_t level = 0; level < blocks_.size(); ++level) {
    h = h + torch::gelu(blocks_[level](h));
    if (level == halves_.size()) break;
    skips.push_back(h);
    h = torch::gelu(halves_[level](h));
  }
  for (std::size_t level = halves_.size(); level-- > 0;) {
    auto const up = resizes_[level]->forward_like(h, skips[level]);
    h = torch::gelu(joins_[level](torch::cat({skips[level], up}, 1)));
  }
  return h;
}

}  // namespace graticule::train
