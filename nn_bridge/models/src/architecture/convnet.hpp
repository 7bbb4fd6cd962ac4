// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "gated_model.hpp"

namespace graticule::models {

/// Residual blocks: h + gelu(conv(h)).
class ConvNet : public GatedModel {
 public:
  ConvNet(ModelOptions const& options, nn::Domain const& domain);

 private:
  torch::Tensor trunk(torch::Tensor h) override;

  std::vector<Convolution> blocks_;
};

}  // namespace graticule::models
