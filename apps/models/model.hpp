// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "model_kind.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::train {

struct ModelOptions {
  ModelKind kind = ModelKind::convnet;
  std::int64_t num_inputs = 1;
  std::int64_t num_statics = 0;
  std::int64_t num_outputs = 1;
  std::int64_t channels = 32;
  std::int64_t blocks = 4;
  std::int64_t kernel = 3;                      ///< odd
  std::vector<std::int64_t> odd_channels = {};  ///< inputs that are components of a horizontal vector
  std::vector<double> latitudes = {};           ///< degrees north of all rows of the grid
  std::int64_t num_columns = 0;                 ///< of the grid
};

using Convolution = nn::Unit<nn::Conv2d>;

/// A network whose first features are scaled by learned functions of place.
///
///     h = stem([inputs, statics]) * (1 + gate(statics));   h = trunk(h);   output = head(h)
///
/// The stem is a k x k convolution that crosses ranks, poles and the date line; the gate is a network of two layers on
/// the static values of a row, the head a 1 x 1 convolution. The gate lets one weight mean something else at every
/// latitude, as the Coriolis parameter does in a wind balance. Kinds of models differ in their trunk. What holds most
/// parameters is a unit: gathered, and waited for, on its own.
class Model : public torch::nn::Module {
 public:
  /// Collective. @param inputs [batch, inputs, rows, columns] @param statics [rows, statics], constant along a row
  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics);

 protected:
  Model(ModelOptions const& options, nn::Domain const& domain);

  /// @param h [batch, channels, rows, columns]; the same shape comes back
  virtual torch::Tensor trunk(torch::Tensor h) = 0;

 private:
  Convolution stem_{nullptr};
  torch::nn::Linear gate_hidden_{nullptr};
  torch::nn::Linear gate_{nullptr};
  Convolution head_{nullptr};
};

/// @throws `BadCoordinates` (usage) for `sfno` on latitudes without a quadrature rule
[[nodiscard]] std::shared_ptr<Model> make_model(ModelOptions const& options, nn::Domain const& domain);

/// A k x k convolution that keeps its grid and follows the domain's boundary.
[[nodiscard]] Convolution convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel,
                                      nn::Domain const& domain, std::vector<std::int64_t> odd_channels = {});

/// Fills all parameters from `seed` and their names: normal weights of variance 1 / fan-in, scales of one, zero biases,
/// and a zero head, so that training starts from the mean. The same on every rank, and for f32 and f64 but for
/// rounding.
void initialise_parameters(torch::nn::Module& model, std::uint64_t seed);

}  // namespace graticule::train
