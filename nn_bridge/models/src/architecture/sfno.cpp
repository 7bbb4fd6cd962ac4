// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>

#include "parts.hpp"

#include <algorithm>

namespace graticule::models {
namespace {

/// Spherical Fourier neural operator (Bonev et al. 2023), small: blocks of a global convolution on the sphere beside a
/// pointwise one, and a pointwise network of two layers.
///
///     h = h + mlp(gelu(spherical(h) + pointwise(h)))
///
/// Degrees are at most half the rows, so that products of two features are still resolved.
class SphericalNet : public GatedModel {
 public:
  SphericalNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
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

 private:
  torch::Tensor trunk(torch::Tensor h) override {
    for (auto& block : blocks_) {
      auto const mixed = torch::gelu(block.spherical(h) + block.pointwise(h));
      h = h + block.narrow(torch::gelu(block.widen(mixed)));
    }
    return h;
  }

  struct Block {
    nn::Unit<nn::SphericalConvolution> spherical{nullptr};
    Convolution pointwise{nullptr};
    Convolution widen{nullptr};
    Convolution narrow{nullptr};
  };
  std::vector<Block> blocks_;
};

}  // namespace

std::shared_ptr<Model> make_sfno(ModelOptions const& options, nn::Domain const& domain) {
  return std::make_shared<SphericalNet>(options, domain);
}

}  // namespace graticule::models
