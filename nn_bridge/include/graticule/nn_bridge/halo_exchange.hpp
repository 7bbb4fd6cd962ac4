// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>
#include <graticule/partition/box.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

struct HaloExchangeOptions {
  Width latitude;   ///< rows added {north side = lower index, upper index}; negative crops
  Width longitude;  ///< columns added
  /// Channels (axis -3) that hold components of a horizontal vector: they change sign across a pole.
  std::vector<std::int64_t> odd_channels;
};

/// Returns the shard with its halo: [..., rows + widths, columns + widths], a fresh tensor.
///
/// Halo cells come from the other ranks and, beyond the globe, from the domain's boundary; also on one rank.
/// Differentiable to any order: the backward is the adjoint, which sends halo cotangents home and adds them.
/// Nothing is known at construction; plans are made at the first forward and whenever the global structure changes.
/// Cost: one small all-reduce and one message per peer a call.
class HaloExchangeImpl : public torch::nn::Module {
 public:
  HaloExchangeImpl(HaloExchangeOptions options, Domain domain);

  /// Collective. @param x [..., rows, columns], this rank's shard
  /// @throws `BadHaloWidth` where a shard is smaller than what is cropped, `StructureDisagreement`,
  ///         `GradModeDisagreement`, `CallOrderDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Forgets the shards' sizes: all ranks may come with new cuts at the next forward.
  void reset_structure();
  /// How often plans were looked up or made; 1 after any number of forwards of one structure.
  [[nodiscard]] int num_set_ups() const noexcept;

 private:
  struct State;
  HaloExchangeOptions options_;
  Domain domain_;
  std::shared_ptr<State> state_;
};
TORCH_MODULE(HaloExchange);

}  // namespace graticule::nn
