// SPDX-License-Identifier: BSD-3-Clause
#include "unet.hpp"

#include "halving.hpp"

namespace graticule::models {

UNet::UNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
  Halvings grids(std::int64_t(options.latitudes.size()), options.num_columns, domain.boundary());
  std::int64_t width = options.channels;
  for (std::int64_t level = 0;; ++level) {
    auto const name = std::to_string(level);
    blocks_.push_back(register_module("block" + name, convolution(width, width, options.kernel, domain)));
    if (level + 1 >= options.blocks || !grids.possible()) break;
    halves_.push_back(register_module("half" + name, grids.next(width, 2 * width, domain)));
    joins_.push_back(register_module("join" + name, convolution(3 * width, width, options.kernel, domain)));
    resizes_.push_back(register_module("resize" + name, bilinear(domain)));
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

}  // namespace graticule::models
