// SPDX-License-Identifier: BSD-3-Clause
// Multi-head self-attention over the cells of sharded fields [..., embed_dim, rows, columns].
//
// Each cell is a token and its channels are the embedding. Parameters are those of `torch::nn::MultiheadAttention`, by
// name and shape: `in_proj_weight` [3 embed_dim, embed_dim], `in_proj_bias`, `out_proj.weight`, `out_proj.bias`. All
// ranks hold whole, equal parameters; gradients are partial sums (`GradientSync`).
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>

namespace graticule::nn {

/// Algorithm of attention over all cells.
enum class AttentionKernel : std::uint8_t {
  fused,  ///< heads distributed, `torch::scaled_dot_product_attention`: each rank holds all cells of its heads
  plain,  ///< heads distributed, products and a softmax: memory grows with the square of the cells
  ring,   ///< cells stay, keys and values circulate: memory of two ranks' cells for any number of heads
};

namespace detail {

class Constant;
struct HeadsSetUp;
class GroupedField;

/// Parameters and projections of multi-head attention.
template <class Derived>
class AttentionModule : public torch::nn::Cloneable<Derived> {
 public:
  torch::nn::MultiheadAttentionOptions attention;
  torch::Tensor in_proj_weight;
  torch::Tensor in_proj_bias;  ///< undefined without bias
  torch::nn::Linear out_proj{nullptr};

 protected:
  AttentionModule(char const* layer, torch::nn::MultiheadAttentionOptions const& options);
  void reset_parameters();
  void check(torch::Tensor const& x) const;
  [[nodiscard]] bool wants_gradient() const;

  char const* layer_;
};

}  // namespace detail

/// Options of `SelfAttention`.
struct SelfAttentionOptions {
  torch::nn::MultiheadAttentionOptions attention;  ///< without dropout, added keys, or other key and value dimensions
  AttentionKernel kernel = AttentionKernel::fused;
};

/// Attention of every cell to all cells of the globe: `torch::nn::MultiheadAttention` of the whole field.
///
/// `fused` and `plain` redistribute queries, keys and values from rows and columns to heads, balanced over the ranks,
/// and the results back; with fewer heads than ranks some ranks are idle. `ring` processes the keys of one rank after
/// the other and distributes the work by cells. Equal to the serial layer to rounding, for any cuts. Only `plain` is
/// differentiable to any order; differentiating the backward of the others throws `Unsupported` on all
/// ranks.
/// Cost: one small all-reduce. `fused` and `plain`: three times the field to heads, once back. `ring`: each rank's keys
/// and values pass through all ranks, in the backward with their gradients.
class SelfAttentionImpl
    : public CommunicatingModule<SelfAttentionImpl, detail::HeadsSetUp, detail::AttentionModule<SelfAttentionImpl>> {
 public:
  /// The same options on all ranks; without a domain the layer is serial until `shard` moves it to the model's.
  /// @throws `BadOption` for options that are not offered
  explicit SelfAttentionImpl(SelfAttentionOptions const& options, Domain const& domain = {});

  /// Collective. @param x [..., embed_dim, rows, columns] of the parameters' dtype, this rank's shard
  /// @return the same sizes @throws `ShapeMismatch` and what all layers throw (docs/layers.md), on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

 private:
  AttentionKernel kernel_;
};
TORCH_MODULE(SelfAttention);

/// The cells that form a group along an axis of N cells.
enum class WindowKind : std::uint8_t {
  adjacent,  ///< runs of `window` cells
  dilated,   ///< `window` cells, ceil(N / window) apart: "long" attention
};

/// Options of `WindowAttention`.
struct WindowAttentionOptions {
  torch::nn::MultiheadAttentionOptions attention;  ///< as in `SelfAttentionOptions`
  std::array<Index, 2> window{};                   ///< rows and columns of a group
  std::array<Index, 2> shift{0, 0};                ///< rows and columns, less than the window's; 0 for dilated groups
  WindowKind kind = WindowKind::adjacent;
  /// Adds to each score the entry of `relative_position_bias_table` [(2 rows - 1) (2 columns - 1), num_heads] for the
  /// distance of the cells, counted in members of the group.
  bool relative_position_bias = false;
};

/// Attention of each cell to the cells of its group: a window of rows and columns, by global index.
///
/// Adjacent windows, along each axis: window k holds cells [shift + k window, shift + (k + 1) window). Along a periodic
/// axis (longitude of a globe) windows start at cell `shift` and wrap around once; the last one may hold fewer cells.
/// Elsewhere windows end at the edges: none crosses a pole, and with a shift the first window holds `shift` cells. This
/// is a shifted-window transformer's cyclic shift and mask. Dilated groups: group g of d = ceil(N / window) holds cells
/// g, g + d, g + 2 d, ..., fewer than `window` if N is not a multiple. Missing members are masked: unlike zeros of a
/// padded field, they are not keys.
/// Example: 10 columns of a globe, window 4, shift 2: columns 2 3 4 5, 6 7 8 9, 0 1. Dilated: 0 3 6 9, 1 4 7, 2 5 8.
///
/// A group divided by a cut is moved to one rank, for adjacent windows the owner of most of it, and the results are
/// returned to the original cuts. Equal to the serial layer to rounding, for any cuts; differentiable to any order.
/// Cost: one small all-reduce; the field both ways, only where a cut divides a group; (tokens of a window)^2 scores per
/// window and head.
class WindowAttentionImpl : public CommunicatingModule<WindowAttentionImpl, detail::GroupedField,
                                                       detail::AttentionModule<WindowAttentionImpl>> {
 public:
  /// The same options on all ranks; without a domain the layer is serial until `shard` moves it to the model's.
  /// @throws `BadOption` for options that are not offered
  explicit WindowAttentionImpl(WindowAttentionOptions const& options, Domain const& domain = {});

  /// Collective. @param x [..., embed_dim, rows, columns] of the parameters' dtype, this rank's shard
  /// @return the same sizes @throws `ShapeMismatch` and what all layers throw (docs/layers.md), on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  WindowAttentionOptions options;
  torch::Tensor relative_position_bias_table;  ///< undefined without

 private:
  [[nodiscard]] torch::Tensor position_bias() const;

  std::shared_ptr<detail::Constant const> distances_;  ///< [tokens * tokens] rows of the table
};
TORCH_MODULE(WindowAttention);

}  // namespace graticule::nn
