// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/attention/self_attention.hpp>

#include "parts.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace graticule::models {
namespace {

constexpr int most_halvings = 2;
constexpr std::array<Index, 2> window{6, 12};  // cells are narrow towards the poles
constexpr std::int64_t channels_per_head = 16;

/// Near `channels_per_head` channels each, dividing the channels.
std::int64_t num_heads(std::int64_t width) {
  return std::gcd(width, std::max<std::int64_t>(1, width / channels_per_head));
}

/// A shifted-window transformer (Liu et al. 2021; on the globe Bi et al. 2023), small: attention in windows of cells on
/// a coarser grid, between a patch embedding and its way back.
///
///     t = patches(h), at most a quarter of the resolution, with twice the channels for each half
///     t = t + attention(norm(t));   t = t + mlp(norm(t))     (every second block shifts its windows by half)
///     h = h + gelu(join([h, resize(leave(t), like h)]))
///
/// Patches are halvings of the grid, as far as `Halvings` goes. Windows are counted from cell 0 of the global grid, go
/// round the date line and end at the poles, where a last one may hold fewer rows: nothing depends on the cuts.
class WindowNet : public GatedModel {
 public:
  WindowNet(ModelOptions const& options, nn::Domain const& domain) : GatedModel(options, domain) {
    Halvings grids(std::int64_t(options.latitudes.size()), options.num_columns, domain.boundary());
    std::int64_t width = options.channels;
    for (int half = 0; half < most_halvings && grids.possible(); ++half) {
      halves_.push_back(register_module("patch" + std::to_string(half), grids.next(width, 2 * width, domain)));
      width *= 2;
    }
    for (std::int64_t i = 0; i < options.blocks; ++i) blocks_.push_back(make_block(i, width, domain));
    leave_ = register_module("leave", convolution(width, options.channels, 1, domain));
    resize_ = register_module("resize", bilinear(domain));
    join_ = register_module("join", convolution(2 * options.channels, options.channels, options.kernel, domain));
  }

 private:
  torch::Tensor trunk(torch::Tensor h) override {
    torch::Tensor t = h;
    for (Convolution& half : halves_) t = torch::gelu(half(t));
    for (Block& block : blocks_) {
      // Norms and the pointwise network take the channels of a cell last.
      torch::Tensor const normed = block.attention_norm(t.movedim(1, -1)).movedim(-1, 1);
      t = t + block.attention(normed);
      torch::Tensor const cells = block.mlp_norm(t.movedim(1, -1));
      t = t + block.narrow(torch::gelu(block.widen(cells))).movedim(-1, 1);
    }
    torch::Tensor const fine = resize_->forward_like(leave_(t), h);
    return h + torch::gelu(join_(torch::cat({h, fine}, 1)));
  }

  struct Block {
    torch::nn::LayerNorm attention_norm{nullptr};
    nn::Unit<nn::WindowAttention> attention{nullptr};
    torch::nn::LayerNorm mlp_norm{nullptr};
    nn::Unit<torch::nn::Linear> widen{nullptr};
    nn::Unit<torch::nn::Linear> narrow{nullptr};
  };
  Block make_block(std::int64_t index, std::int64_t width, nn::Domain const& domain) {
    auto const name = "block" + std::to_string(index) + "_";
    nn::WindowAttentionOptions attention{.attention = {width, num_heads(width)}, .window = window};
    attention.relative_position_bias = true;
    if (index % 2 == 1) attention.shift = {window[0] / 2, window[1] / 2};
    Block block;
    block.attention_norm = register_module(name + "attention_norm", torch::nn::LayerNorm(std::vector{width}));
    block.attention = register_module(name + "attention", nn::Unit<nn::WindowAttention>(attention, domain));
    block.mlp_norm = register_module(name + "mlp_norm", torch::nn::LayerNorm(std::vector{width}));
    block.widen = register_module(name + "widen", nn::Unit<torch::nn::Linear>(width, 2 * width));
    block.narrow = register_module(name + "narrow", nn::Unit<torch::nn::Linear>(2 * width, width));
    return block;
  }

  std::vector<Convolution> halves_;
  std::vector<Block> blocks_;
  Convolution leave_{nullptr};
  nn::Resize resize_{nullptr};
  Convolution join_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_window(ModelOptions const& options, nn::Domain const& domain) {
  return std::make_shared<WindowNet>(options, domain);
}

}  // namespace graticule::models
