// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

namespace graticule::nn {

/// Sum over all ranks of `comm`; the backward is the identity, because every rank holds the whole sum.
///
/// A globally normalised loss ends with this call. Each rank then holds its partial gradient of a replicated parameter;
/// `GradientSync` sums the partial gradients over the domain. Where `partial` has a gradient on no rank, the result has
/// none, and its `backward()` throws. Collective. Cost: two all-reduces, one of them of one integer.
[[nodiscard]] torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm);

/// The same over the ranks of a domain, for the losses of its layers.
///
/// If the result depends on a layer call through any rank's part, the backward runs through this call on every rank,
/// including ranks that did not use its output. Other calls are not affected.
/// @throws `UnusedOnSomeRanks` on all ranks if some rank has discarded such an output
[[nodiscard]] torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain);

}  // namespace graticule::nn
