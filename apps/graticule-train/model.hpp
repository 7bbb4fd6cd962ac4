// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/conv2d.hpp>
#include <graticule/nn_bridge/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::train {

struct ConvNetOptions {
  std::int64_t num_inputs = 1;
  std::int64_t num_statics = 0;
  std::int64_t num_outputs = 1;
  std::int64_t channels = 32;
  std::int64_t blocks = 4;
  std::int64_t kernel = 3;                 ///< odd
  std::vector<std::int64_t> odd_channels;  ///< inputs that are components of a horizontal vector
};

/// A residual convolutional network whose first features are scaled by learned functions of place.
///
///     h = stem([inputs, statics]) * (1 + gate(statics));   h = h + gelu(conv(h)) per block;   output = head(h)
///
/// Stem and blocks are k x k convolutions that cross ranks, poles and the date line; the gate is a network of two
/// layers on the static values of a row, the head a 1 x 1 convolution. The gate lets one weight mean something else at
/// every latitude, as the Coriolis parameter does in a wind balance.
class ConvNetImpl : public torch::nn::Module {
 public:
  ConvNetImpl(ConvNetOptions const& options, nn::Domain const& domain);

  /// Collective. @param inputs [batch, inputs, rows, columns] @param statics [rows, statics], constant along a row
  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics);

 private:
  nn::Conv2d stem_{nullptr};
  torch::nn::Linear gate_hidden_{nullptr};
  torch::nn::Linear gate_{nullptr};
  std::vector<nn::Conv2d> blocks_;
  nn::Conv2d head_{nullptr};
};
TORCH_MODULE(ConvNet);

/// Fills all parameters from `seed` and their names: normal weights of variance 1 / fan-in, zero biases, and a zero
/// head, so that training starts from the mean. The same on every rank, and for f32 and f64 but for rounding.
void initialise_parameters(torch::nn::Module& module, std::uint64_t seed);

}  // namespace graticule::train
