// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <torch/torch.h>

namespace graticule::nn {

namespace detail {
class PaddedHaloState;
}

/// Fills the halo of a field that is allocated with its halo: only halo cells are copied, and nothing is allocated.
///
/// A padded field is [..., rows + widths, columns + widths], with this rank's shard in its center; rows and columns may
/// be any axes. `forward` reads the shard, writes the halo in place and returns a tensor that shares its memory.
/// Previous halo values are overwritten, so an earlier operation must not have saved them for its own backward. The
/// backward adds halo cotangents to the cells of which they are copies. It works in the memory of the incoming gradient
/// if nothing else references it, otherwise in a copy; the gradient of the input's own halo is zero. Differentiable to
/// any order. A rank without cells has an empty field, with room along the axis of which it has cells (`room_for`).
/// Cost per call: one small all-reduce and one message per peer; `HaloExchange` also reads and writes the whole field.
/// Example: rows 61 and 480 columns, widths {1, 1} each: the field is [..., 63, 482].
class PaddedHaloExchangeImpl : public detail::StatefulModule<PaddedHaloExchangeImpl, detail::PaddedHaloState> {
 public:
  /// @throws `BadHaloWidth` for negative widths; otherwise as `HaloExchange`
  PaddedHaloExchangeImpl(HaloExchangeOptions options, Domain domain);

  /// Collective. @throws as `HaloExchange`; `BadHaloWidth` if the field is smaller than its halo
  torch::Tensor forward(torch::Tensor const& padded);

  /// An uninitialised padded field for a shard of the shape and type of `shard`.
  [[nodiscard]] torch::Tensor room_for(torch::Tensor const& shard) const;
  /// The shard in the center of a padded field, as a view.
  [[nodiscard]] torch::Tensor owned(torch::Tensor const& padded) const;

 private:
  /// `owned` of [..., rows, columns].
  [[nodiscard]] torch::Tensor owned_planes(torch::Tensor const& padded) const;

  HaloExchangeOptions options_;
};
TORCH_MODULE(PaddedHaloExchange);

}  // namespace graticule::nn
