// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

namespace graticule::nn {

/// Sum over all ranks of `comm`; the backward is the identity, because every rank holds the whole sum.
///
/// This closes a globally normalised loss. Each rank then holds its partial gradient of a replicated parameter, and
/// partial gradients are summed over the domain (`GradientSync`). Collective. Cost: one all-reduce.
[[nodiscard]] torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm);

/// The same over the ranks of a domain, for the losses of its layers.
///
/// A call of the domain's layers that the result depends on through any rank's part is tied to it on all ranks, so that
/// the backward runs through it on every rank, also where a rank did not use the output. Other calls are left alone.
/// @throws `UnusedOnSomeRanks` on all ranks when another rank has thrown away such an output
[[nodiscard]] torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain);

}  // namespace graticule::nn
