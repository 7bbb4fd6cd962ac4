// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/stencil/resize.hpp>

#include "gated_model.hpp"

namespace graticule::models {

/// A U-Net (Ronneberger, Fischer, Brox 2015) over levels of half the resolution each, with bands of latitude at every
/// one.
///
///     down: skip = h + gelu(conv(h));   h = gelu(half(skip)), twice the channels
///     up:   h = gelu(join([skip, resize(h, like skip)]))
///
/// Grids are halved as far as `Halvings` goes. Resizing gives the skip's rows to their owners, so no level is moved
/// between ranks.
class UNet : public GatedModel {
 public:
  UNet(ModelOptions const& options, nn::Domain const& domain);

 private:
  torch::Tensor trunk(torch::Tensor h) override;

  std::vector<Convolution> blocks_;  ///< one a level
  std::vector<Convolution> halves_;  ///< from each level to the next
  std::vector<Convolution> joins_;   ///< back to each level
  std::vector<nn::Resize> resizes_;
};

}  // namespace graticule::models
