// SPDX-License-Identifier: BSD-3-Clause
#include "parts.hpp"

namespace graticule::models {
namespace {

/// Residual blocks: h + gelu(conv(h)).
class ConvNet : public GatedModel {
 public:
  ConvNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
    for (std::int64_t i = 0; i < options.blocks; ++i)
      blocks_.push_back(register_module("block" + std::to_string(i),
                                        convolution(options.channels, options.channels, options.kernel, domain)));
  }

 private:
  torch::Tensor trunk(torch::Tensor h) override {
    for (Convolution& block : blocks_) h = h + torch::gelu(block(h));
    return h;
  }

  std::vector<Convolution> blocks_;
};

}  // namespace

std::shared_ptr<Model> make_convnet(ModelOptions const& options, nn::Domain const& domain) {
  return std::make_shared<ConvNet>(options, domain);
}

}  // namespace graticule::models
