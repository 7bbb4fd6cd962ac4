// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "model.hpp"

namespace graticule::train {

/// Residual blocks: h + gelu(conv(h)).
class ConvNet : public Model {
 public:
  ConvNet(ModelOptions const& options, nn::Domain const& domain);

 private:
  torch::Tensor trunk(torch::Tensor h) override;

  std::vector<Convolution> blocks_;
};

}  // namespace graticule::train
