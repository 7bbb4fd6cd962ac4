// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/layout.hpp>

#include "move/tensor_pull.hpp"
#include "pool_geometry.hpp"
#include "stencil/needed_inputs.hpp"

#include <torch/torch.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::nn::detail {

enum class PoolKind : std::uint8_t { maxima, means };

/// Which of LibTorch's poolings.
struct PoolRule {
  PoolKind kind = PoolKind::maxima;
  bool count_padding = true;                 ///< of means
  std::optional<std::int64_t> divisor = {};  ///< of means
};

/// Windows along the spatial axes: rows, columns; or levels, rows, columns.
struct PoolWindows {
  std::vector<Index> kernel;
  std::vector<Index> stride;
  std::vector<Index> padding;
  std::vector<Index> dilation;
  bool ceil_mode = false;
};

struct Pooled {
  torch::Tensor values;
  torch::Tensor indices;  ///< of maxima, flat along the spatial axes
};

/// LibTorch's pooling of a batched tensor; differentiable.
[[nodiscard]] Pooled pool(PoolRule const& rule, torch::Tensor const& x, PoolWindows const& windows);

/// What its backward computes; differentiable in `cotangent`. @param indices from `pool`
[[nodiscard]] torch::Tensor pool_backward(PoolRule const& rule, torch::Tensor const& cotangent, torch::Tensor const& x,
                                          torch::Tensor const& indices, PoolWindows const& windows);

/// One call of LibTorch's pooling, which may give more windows than are asked for.
class PoolCall {
 public:
  PoolCall() = default;
  /// @param windows those of the globe  @param runs along all spatial axes
  PoolCall(PoolWindows windows, std::vector<PoolRun> const& runs, bool ceil_mode);

  [[nodiscard]] PoolWindows const& windows() const noexcept { return windows_; }
  /// What was asked for, a view.
  [[nodiscard]] torch::Tensor outputs_of(torch::Tensor const& results) const;
  /// The cotangent of all results: zeros where nothing was asked for.
  [[nodiscard]] torch::Tensor results_of(torch::Tensor const& outputs) const;

 private:
  PoolWindows windows_;
  std::vector<PoolRun> runs_;
};

/// What a layer's pooling of one structure of shards is made of.
struct PoolGlobe {
  PoolRule rule;
  PoolWindows windows;
  std::vector<PoolAxis> axes;  ///< along all spatial axes
  Boundary boundary;
  std::vector<std::int64_t> odd_channels;
  std::uint64_t fingerprint = 0;
};

/// Outputs at one edge of a rank's shard, which also read cells of others.
struct PoolStrip {
  PoolCall call;
  Box box;      ///< inputs of the call, own cells and halo
  Box region;   ///< of these, the cells that no window outside of the call reaches
  Box results;  ///< what the call is asked for: all outputs whose windows reach into the region
  Box outputs;  ///< of these, the rim's
};

/// Pooling of own cells in place, and of the rims from strips: no rank copies its shard.
///
/// Strips 0 and 1 are those of the lower and upper rows with all their columns, 2 and 3 those of the columns beside.
/// The local pooling runs over all own cells, and the rims' outputs replace its outputs there; in the backward, the
/// gradients of the strips' regions replace its gradients there. A strip therefore holds own cells too; that of a
/// convolution (`ConvStrip`) holds halo alone, because outputs of a convolution are sums.
struct PoolSplits {
  static constexpr int num_strips = 4;

  Box owned;
  Box outputs;
  PoolCall local;
  std::array<std::optional<PoolStrip>, num_strips> strips;
  std::shared_ptr<TensorPull const> pull;
};

/// Collective; nothing, on all ranks, where one of them has outputs but cannot split them.
[[nodiscard]] std::shared_ptr<PoolSplits const> make_splits(Comm const& comm, Layout const& layout,
                                                            PoolGlobe const& globe, std::vector<PoolRun> const& runs);

/// The call that gives this rank's outputs from its own cells where they lie; nothing where that takes strips.
[[nodiscard]] std::optional<PoolCall> own_call(Box const& owned, PoolGlobe const& globe,
                                               std::vector<PoolRun> const& runs);

/// One structure of shards.
struct PoolSetUp {
  PoolGlobe globe;
  NeededInputs inputs;
  std::vector<PoolRun> runs;    ///< of this rank's outputs, along all spatial axes
  PoolCall whole;               ///< on the needed inputs
  std::optional<PoolCall> own;  ///< where no rank needs cells of others
  std::shared_ptr<PoolSplits const> splits;

  [[nodiscard]] bool has_outputs() const noexcept;
  /// Zeros in place of outputs, where some axis has none.
  [[nodiscard]] torch::Tensor no_outputs(torch::Tensor const& x, torch::ScalarType type) const;
};

/// Pooling by splits; differentiable to any order. @param x batched  @param anchor as in `agreement.hpp`
[[nodiscard]] torch::Tensor pool_by_splits(std::shared_ptr<PoolSetUp const> const& set_up, torch::Tensor const& x,
                                           torch::Tensor const& anchor);

}  // namespace graticule::nn::detail
