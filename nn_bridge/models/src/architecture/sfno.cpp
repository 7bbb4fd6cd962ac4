// SPDX-License-Identifier: BSD-3-Clause
#include "sfno.hpp"

#include <algorithm>

namespace graticule::models {

SphericalNet::SphericalNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
  std::int64_t const width = options.channels;
  auto const rows = nn::latitude_rule(options.latitudes);
  auto const num_degrees = std::min<Index>(rows.num_degrees, (options.num_columns + 1) / 2);
  for (std::int64_t i = 0; i < options.blocks; ++i) {
    auto const name = "block" + std::to_string(i) + "_";
    nn::SphericalConvolutionOptions spherical{.in_channels = width, .out_channels = width, .rows = rows};
    spherical.num_degrees = num_degrees;
    Block block;
    block.spherical = register_module(name + "spherical", nn::Unit<nn::SphericalConvolution>(spherical, domain));
    block.pointwise = register_module(name + "pointwise", convolution(width, width, 1, domain));
    block.widen = register_module(name + "widen", convolution(width, 2 * width, 1, domain));
    block.narrow = register_module(name + "narrow", convolution(2 * width, width, 1, domain));
    blocks_.push_back(block);
  }
}

torch::Tensor SphericalNet::trunk(torch::Tensor h) {
  for (auto& block : blocks_) {
    auto const mixed = torch::gelu(block.spherical(h) + block.pointwise(h));
    h = h + block.narrow(torch::gelu(block.widen(mixed)));
  }
  return h;
}

}  // namespace graticule::models
