// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

namespace graticule::nn {

namespace detail {
class MatchCutsState;
}

/// Moves a field to the cuts of another one with the same rows and columns of the globe, so that `torch::cat` or a sum
/// can join them.
///
/// Layers that change the number of rows leave other cuts than those of a skip connection, although both have the same
/// rows: 61 rows as 32 + 29 and as 31 + 30. Where the cuts are equal, and on one rank, the layer returns the field
/// itself, without a copy. Where the way up is a transposed convolution or a resize, their `forward_like` gives the
/// cuts of the skip without a move. Differentiable to any order.
/// Example: `torch::cat({skip, match->forward(up, skip)}, 1)`.
/// Cost: two small all-reduces; a move of the field where the cuts differ. Plans are made once per pair of structures.
class MatchCutsImpl : public detail::StatefulModule<MatchCutsImpl, detail::MatchCutsState> {
 public:
  /// Without a domain the layer is serial until `shard` moves it to the model's.
  explicit MatchCutsImpl(Domain domain = {});

  /// Collective. @param x this rank's shard @param like its channels, batch and dtype may be any
  /// @throws `ShapeMismatch` where the rows or columns of the whole fields differ, `UnsupportedTensor`,
  /// `StructureDisagreement`, `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x, torch::Tensor const& like);
};
TORCH_MODULE(MatchCuts);

}  // namespace graticule::nn
