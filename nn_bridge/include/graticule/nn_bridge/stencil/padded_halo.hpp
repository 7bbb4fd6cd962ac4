// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <torch/torch.h>

#include <memory>

namespace graticule::nn {

namespace detail {
class PaddedHaloState;
}

/// Fills the halo of a field that already has room for it: nothing is copied or allocated but the halo.
///
/// A padded field is [..., rows + widths, columns + widths], its middle this rank's shard; rows and columns may be any axes. `forward` reads the middle,
/// writes the halo in place and returns a tensor of the same memory; what the halo held before plays no part, so an
/// operation upstream must not have saved its values for its own backward. The backward adds halo cotangents to the cells
/// that they are copies of, in the memory of the incoming gradient where nobody else holds it, else in a copy; the
/// gradient of the input's own halo is zero. Differentiable to any order. A rank without cells has an empty field.
/// Cost: one small all-reduce and one message per peer a call; `HaloExchange` also reads and writes the whole field.
/// Example: rows 61 and 480 columns, widths {1, 1} each: the field is [..., 63, 482].
class PaddedHaloExchangeImpl : public detail::StatefulModule<PaddedHaloExchangeImpl, detail::PaddedHaloState> {
 public:
  /// @throws `BadHaloWidth` for negative widths, and what `HaloExchange` throws
  PaddedHaloExchangeImpl(HaloExchangeOptions options, Domain domain);

  /// Collective. @throws as `HaloExchange`; `BadHaloWidth` when the field is smaller than its halo
  torch::Tensor forward(torch::Tensor const& padded);

  /// Room for a shard of the shape and type of `shard` and its halo; uninitialised.
  [[nodiscard]] torch::Tensor room_for(torch::Tensor const& shard) const;
  /// The middle of a padded field, as a view.
  [[nodiscard]] torch::Tensor owned(torch::Tensor const& padded) const;

 private:
  /// `owned` of [..., rows, columns].
  [[nodiscard]] torch::Tensor owned_planes(torch::Tensor const& padded) const;

  HaloExchangeOptions options_;
};
TORCH_MODULE(PaddedHaloExchange);

}  // namespace graticule::nn
