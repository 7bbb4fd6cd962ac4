// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/repartition/detail/index_map.hpp>

#include "conv_geometry.hpp"
#include "convolution.hpp"
#include "move/tensor_pull.hpp"

#include <torch/torch.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::nn::detail {

/// Padding of an axis that is not cut.
struct LevelPadding {
  Edge edge = Edge::constant;
  Width padding;
};

/// Parameters of a sharded convolution: [batch, channels, rows, columns], or with levels before rows.
struct ConvDescription {
  std::vector<Index> kernel;  ///< of all spatial axes; the last two are cut
  std::vector<Index> stride;
  std::vector<Index> dilation;
  std::array<Width, 2> padding{};      ///< of the cut axes
  std::optional<LevelPadding> levels;  ///< with three spatial axes
  std::int64_t groups = 1;
  Boundary boundary;  ///< of the cut axes
  std::vector<std::int64_t> odd_channels;
  /// Owners of the outputs along the cut axes; unset: the owners of the centers of their windows.
  std::array<std::optional<Cuts>, 2> outputs{};

  /// Zeros on both sides of the levels that the local convolution adds by itself.
  [[nodiscard]] Index level_zeros() const noexcept;
  /// Cut axis `a` as a part of the globe.
  [[nodiscard]] ConvAxis axis(Layout const& layout, std::size_t a) const;
  /// For LibTorch, with zeros on both sides of the cut axes.
  [[nodiscard]] Windows windows(std::array<Index, 2> const& padding_of_cut_axes) const;
};

/// `x` with all level padding that the local convolution does not add; differentiable.
[[nodiscard]] torch::Tensor pad_levels(ConvDescription const& description, torch::Tensor const& x);

/// One strip of halo next to the shard, and the outputs that it completes.
struct ConvStrip {
  Box box;      ///< inputs of the strip tensor
  Box halo;     ///< the part of it that is received; the rest is zero
  Box outputs;  ///< to which the strip's are added
  std::array<Index, 2> padding{};
};

/// Plans of one convolution for one layout of shards. Collective to make.
class ConvSetUp {
 public:
  ConvSetUp(Comm const& comm, Layout const& layout, ConvDescription const& description);

  [[nodiscard]] ConvDescription const& description() const noexcept { return description_; }
  [[nodiscard]] bool has_outputs() const noexcept { return !outputs_.empty(); }
  [[nodiscard]] Box const& outputs() const noexcept { return outputs_; }
  /// Set when the outputs come from the local convolution and strips; else from one tensor of all needed inputs.
  [[nodiscard]] bool by_strips() const noexcept { return by_strips_; }
  static constexpr int num_strips = 4;
  static constexpr int whole_target = num_strips;
  /// Strips 0 and 1 are those of the lower and upper rows and hold the corners, 2 and 3 those of the columns beside the
  /// own rows. Where they meet, an output is the sum of both.
  [[nodiscard]] std::array<std::optional<ConvStrip>, num_strips> const& strips() const noexcept { return strips_; }
  [[nodiscard]] std::array<ConvAxisShard, 2> const& shards() const noexcept { return shards_; }
  /// Targets: one for each of four strips, then all needed inputs; those that this rank does not use are empty.
  [[nodiscard]] TensorPull const& pull() const noexcept { return *pull_; }
  /// The plan that fetches all needed inputs on every rank. Collective at its first call.
  [[nodiscard]] std::shared_ptr<TensorPull const> const& whole() const;

 private:
  void choose_strips(IndexMap const& map);

  Comm comm_;
  Layout layout_;
  ConvDescription description_;
  std::array<ConvAxisShard, 2> shards_;
  Box outputs_;
  Box needed_;
  bool by_strips_ = false;
  std::array<std::optional<ConvStrip>, num_strips> strips_;
  std::shared_ptr<TensorPull const> pull_;
  mutable std::shared_ptr<TensorPull const> whole_;
};

/// The convolution of shards; differentiable to any order. `bias` may be undefined.
/// `input_grad`: some rank's input requires a gradient, so the backward of all ranks exchanges halo cotangents.
[[nodiscard]] torch::Tensor sharded_convolution(std::shared_ptr<ConvSetUp const> const& set_up, torch::Tensor const& x,
                                                torch::Tensor const& weight, torch::Tensor const& bias,
                                                torch::Tensor const& anchor, bool input_grad);

}  // namespace graticule::nn::detail
