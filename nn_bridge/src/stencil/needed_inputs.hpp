// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/partition/layout.hpp>

#include "conv_geometry.hpp"
#include "move/tensor_pull.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn::detail {

/// This rank's run of an axis that is cut.
[[nodiscard]] Range own_range(Comm const& comm, Layout const& layout, int axis, Cuts const& cuts);

struct NeedDescription {
  std::array<Range, 2>
      needed;         ///< inputs that this rank's outputs read, over rows and columns; may lie beyond the globe
  Boundary boundary;  ///< what lies there
  std::vector<std::int64_t> odd_channels;
  std::uint64_t fingerprint = 0;  ///< of the layer's options and sizes, the same on all ranks
};

/// The box of inputs that a rank's outputs read. It is pulled from all shards or, if every rank owns all inputs that it
/// reads, is a part of the own shard and needs no message. Empty for a rank without outputs.
class NeededInputs {
 public:
  /// Collective. @throws what `boundary_map` throws, on all ranks alike
  NeededInputs(Comm const& comm, Layout const& layout, NeedDescription const& description);

  [[nodiscard]] Box const& box() const noexcept { return box_; }
  /// Null when all ranks own what they read.
  [[nodiscard]] std::shared_ptr<TensorPull const> const& pull() const noexcept { return pull_; }
  /// The own part of the box, without messages. @pre no pull
  [[nodiscard]] torch::Tensor own_part(torch::Tensor const& x) const;
  /// Views of tensors with levels between channels and rows, in which the engine finds odd channels, and back.
  [[nodiscard]] torch::Tensor engine_view(torch::Tensor const& x) const;

 private:
  Box box_;
  Box owned_;
  bool turned_ = false;
  std::shared_ptr<TensorPull const> pull_;
};

/// The state of a layer whose `SetUp` has a member `inputs` of type `NeededInputs`.
template <class SetUp>
struct NeedState : LayerState<SetUp> {
  using LayerState<SetUp>::LayerState;

  /// The needed box of `x`; differentiable to any order. On a rank that needs nothing the result is empty; its graph
  /// must reach the loss nevertheless, because other ranks may wait for its part of the backward.
  [[nodiscard]] torch::Tensor fetch(typename LayerState<SetUp>::Call const& call, torch::Tensor const& x) const {
    NeededInputs const& inputs = call.set_up->inputs;
    if (!inputs.pull()) return inputs.own_part(x);
    return inputs.engine_view(
        this->record(apply_linear(inputs.pull(), Way::forward, inputs.engine_view(x), call.anchor)));
  }
};

}  // namespace graticule::nn::detail
