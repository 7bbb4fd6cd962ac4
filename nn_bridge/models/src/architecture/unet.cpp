// SPDX-License-Identifier: BSD-3-Clause

#include "parts.hpp"

namespace graticule::models {
namespace {

/// A U-Net (Ronneberger, Fischer, Brox 2015): levels of half the resolution each, in bands of latitude.
///
///     down: skip = h + gelu(conv(h));   h = gelu(half(skip)), twice the channels
///     up:   h = gelu(join([skip, resize(h, like skip)]))
///
/// Grids are halved as far as `Halvings` goes. Resizing gives the skip's rows to their owners: no level is moved.
class UNet : public GatedModel {
 public:
  UNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
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

 private:
  torch::Tensor trunk(torch::Tensor h) override {
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

  std::vector<Convolution> blocks_;  ///< one a level
  std::vector<Convolution> halves_;  ///< from each level to the next
  std::vector<Convolution> joins_;   ///< back to each level
  std::vector<nn::Resize> resizes_;
};

}  // namespace

std::shared_ptr<Model> make_unet(ModelOptions const& options, nn::Domain const& domain) {
  return std::make_shared<UNet>(options, domain);
}

}  // namespace graticule::models
