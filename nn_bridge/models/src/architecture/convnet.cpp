// SPDX-License-Identifier: BSD-3-Clause
#include "convnet.hpp"

namespace graticule::models {

ConvNet::ConvNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
  for (std::int64_t i = 0; i < options.blocks; ++i)
    blocks_.push_back(register_module("block" + std::to_string(i),
                                      convolution(options.channels, options.channels, options.kernel, domain)));
}

torch::Tensor ConvNet::trunk(torch::Tensor h) {
  for (Convolution& block : blocks_) h = h + torch::gelu(block(h));
  return h;
}

}  // namespace graticule::models
