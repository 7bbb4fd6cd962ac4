// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/spectral/latitude_rule.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace graticule::nn {

namespace detail {
struct SphericalConvolutionSetUp;
}

/// Options of `SphericalConvolution`.
struct SphericalConvolutionOptions {
  /// The grid of a whole field.
  struct Grid {
    LatitudeRule rows;
    Index num_columns = 0;
  };

  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  LatitudeRule rows;  ///< of the whole input
  /// As in `SphericalTransformOptions`. Omitted degrees and orders are zero in the output.
  Index num_degrees = 0;
  Index num_orders = 0;
  bool bias = false;
  /// The output grid; default: the input's. Its cuts are proportional to the input's, rounded.
  std::optional<Grid> out = {};
};

/// Convolution on the sphere, as in spherical Fourier neural operators: each input channel is convolved with a kernel
/// that depends on the distance only, and the results are summed over input channels.
///
/// y_o = inverse transform of sum over i of w(i, o, l) c_i(l, m), with c = `SphericalTransform` of x and one complex
/// weight per degree, plus the bias of the channel, if any. Rotating the input about the pole rotates the output.
/// Parameters: `weight` [in_channels, out_channels, degrees, 2], real and imaginary part last, for optimizers and files
/// of real numbers; `bias` [out_channels]. All ranks hold whole, equal parameters; gradients are partial sums
/// (`GradientSync`). Initial weights are normal with mean square 1 / in_channels, initial biases 0. Sources: Driscoll
/// and Healy, Adv. Appl. Math. 15 (1994); Bonev et al., "Spherical Fourier Neural Operators" (2023).
/// Cost: a transform and its inverse, and 4 in out D multiply-adds for D coefficients, distributed over the ranks.
class SphericalConvolutionImpl
    : public CommunicatingModule<SphericalConvolutionImpl, detail::SphericalConvolutionSetUp> {
 public:
  /// The same options on all ranks. @throws `ShapeMismatch` without channels, `BadOption`
  SphericalConvolutionImpl(SphericalConvolutionOptions options, Domain const& domain);

  /// Collective. @param x [..., in_channels, rows, columns] of the weights' dtype, f32 or f64, this rank's shard
  /// @return [..., out_channels, rows, columns] @throws as `SphericalTransform`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  SphericalConvolutionOptions options;
  torch::Tensor weight;
  torch::Tensor bias;  ///< undefined without bias

 private:
  void check(torch::Tensor const& x) const;
};
TORCH_MODULE(SphericalConvolution);

}  // namespace graticule::nn
