// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
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

/// Grids of half the resolution each, which keep their poles and an even number of longitudes: rows on the poles need
/// an odd number of them (241, 121, 61, 31, 16), poles between rows an even one.
class Halvings {
 public:
  Halvings(std::int64_t num_rows, std::int64_t num_columns, Boundary const& boundary);

  /// Whether the present grid can be halved.
  [[nodiscard]] bool possible() const noexcept;
  /// A convolution of stride 2 to the next grid: a window of 3 centred on every second cell, or of 2 over each pair.
  /// @pre `possible()`
  [[nodiscard]] Convolution next(std::int64_t num_in, std::int64_t num_out, nn::Domain const& domain);

 private:
  /// The width of the windows along latitude, 0 for none.
  [[nodiscard]] std::int64_t window() const noexcept;

  std::int64_t num_rows_;
  std::int64_t num_columns_;
  AxisBoundary rows_;
};

/// Bilinear, following the domain's boundary; `forward_like` gives a finer grid's rows to their owners.
[[nodiscard]] nn::Resize bilinear(nn::Domain const& domain);

/// The kinds of `make_model`.
[[nodiscard]] std::shared_ptr<Model> make_convnet(ModelOptions const& options, nn::Domain const& domain);
[[nodiscard]] std::shared_ptr<Model> make_unet(ModelOptions const& options, nn::Domain const& domain);
[[nodiscard]] std::shared_ptr<Model> make_sfno(ModelOptions const& options, nn::Domain const& domain);
[[nodiscard]] std::shared_ptr<Model> make_window(ModelOptions const& options, nn::Domain const& domain);
[[nodiscard]] std::shared_ptr<Model> make_program(ModelOptions const& options, nn::Domain const& domain);

/// A k x k convolution that keeps its grid and follows the domain's boundary.
[[nodiscard]] Convolution convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel,
                                      nn::Domain const& domain, std::vector<std::int64_t> odd_channels = {});

/// [batch, inputs and statics, rows, columns]. @param statics [rows, statics], constant along rows
[[nodiscard]] torch::Tensor with_statics(torch::Tensor const& inputs, torch::Tensor const& statics);

}  // namespace graticule::models
