// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include "gated_model.hpp"

namespace graticule::models {

/// A shifted-window transformer (Liu et al. 2021; on the globe Bi et al. 2023), small: attention in windows of cells on
/// a coarser grid, between a patch embedding and its way back.
///
///     t = patches(h), at most a quarter of the resolution, with twice the channels for each half
///     t = t + attention(norm(t));   t = t + mlp(norm(t))       every second block with windows shifted by half their
///     size h = h + gelu(join([h, resize(leave(t), like h)]))
///
/// Patches are halvings of the grid, as far as `Halvings` goes. Windows are counted from cell 0 of the global grid, go
/// round the date line and end at the poles, where a last one may hold fewer rows: nothing depends on the cuts.
class WindowNet : public GatedModel {
 public:
  WindowNet(ModelOptions const& options, nn::Domain const& domain);

 private:
  torch::Tensor trunk(torch::Tensor h) override;

  struct Block {
    torch::nn::LayerNorm attention_norm{nullptr};
    nn::Unit<nn::WindowAttention> attention{nullptr};
    torch::nn::LayerNorm mlp_norm{nullptr};
    nn::Unit<torch::nn::Linear> widen{nullptr};
    nn::Unit<torch::nn::Linear> narrow{nullptr};
  };
  [[nodiscard]] Block make_block(std::int64_t index, std::int64_t width, nn::Domain const& domain);

  std::vector<Convolution> halves_;
  std::vector<Block> blocks_;
  Convolution leave_{nullptr};
  nn::Resize resize_{nullptr};
  Convolution join_{nullptr};
};

}  // namespace graticule::models
