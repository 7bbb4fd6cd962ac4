// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::models {

using Convolution = nn::Unit<nn::Conv2d>;

/// A network whose first features are scaled by learned functions of place; see `make_model`.
class GatedModel : public Model {
 public:
  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) override;

 protected:
  GatedModel(ModelOptions const& options, nn::Domain const& domain);

  /// @param h [batch, channels, rows, columns]; the same shape comes back
  virtual torch::Tensor trunk(torch::Tensor h) = 0;

 private:
  Convolution stem_{nullptr};
  torch::nn::Linear gate_hidden_{nullptr};
  torch::nn::Linear gate_{nullptr};
  Convolution head_{nullptr};
};

/// A k x k convolution that keeps its grid and follows the domain's boundary.
[[nodiscard]] Convolution convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel,
                                      nn::Domain const& domain, std::vector<std::int64_t> odd_channels = {});

}  // namespace graticule::models
