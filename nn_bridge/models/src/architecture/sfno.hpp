// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>

#include "gated_model.hpp"

namespace graticule::models {

/// Spherical Fourier neural operator (Bonev et al. 2023), small: blocks of a global convolution on the sphere beside a
/// pointwise one, and a pointwise network of two layers.
///
///     h = h + mlp(gelu(spherical(h) + pointwise(h)))
///
/// Degrees are at most half the rows, so that products of two features are still resolved.
class SphericalNet : public GatedModel {
 public:
  SphericalNet(ModelOptions const& options, nn::Domain const& domain);

 private:
  torch::Tensor trunk(torch::Tensor h) override;

  struct Block {
    nn::Unit<nn::SphericalConvolution> spherical{nullptr};
    Convolution pointwise{nullptr};
    Convolution widen{nullptr};
    Convolution narrow{nullptr};
  };
  std::vector<Block> blocks_;
};

}  // namespace graticule::models
