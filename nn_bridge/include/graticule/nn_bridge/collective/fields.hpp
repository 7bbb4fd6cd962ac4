// SPDX-License-Identifier: BSD-3-Clause
// From whole fields to shards and back, and where a shard lies.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>

#include <torch/torch.h>

#include <optional>

namespace graticule::nn {

/// This rank's rows and columns, the last two axes, of a field that it holds whole: a view. Communicates nothing.
/// With `cuts`, which are the same on all ranks; else balanced.
/// Example: 7 rows on 2 ranks: rank 0 gets rows 0 to 3, rank 1 rows 4 to 6.
/// @throws `UnsupportedTensor` for fewer than two axes, `BadCuts` where cuts do not fit the field or the domain
[[nodiscard]] torch::Tensor shard_of(torch::Tensor const& whole, Domain const& domain,
                                     std::optional<FieldCuts> const& cuts = {});

/// Which rows and columns of the globe this rank's shard holds: for most layers the only way to learn the cuts of the
/// output.
///
/// Example: on a rank of the second part with `x` [8, 30, 144] after 31 rows of the first, `part_of(x,
/// domain).rows.lo()` is 31; the row weights of a loss are `weights.narrow(0, part.rows.lo(), part.rows.size())`.
/// Collective. @throws `UnsupportedTensor` for fewer than two axes, `BadLayout` where shards do not fit together, on
/// all ranks alike. Cost: one small all-reduce and one gather of extents
[[nodiscard]] FieldPart part_of(torch::Tensor const& shard, Domain const& domain);

/// The whole field on every rank, from any cuts. Differentiable to any order: the backward adds what the ranks' results
/// contribute.
///
/// For output and diagnosis: it makes a plan in each call, and every rank holds the whole field.
/// Collective. @throws `UnsupportedTensor`, `BadLayout`, and what all layers throw, on all ranks alike
[[nodiscard]] torch::Tensor whole_field(torch::Tensor const& shard, Domain const& domain);

}  // namespace graticule::nn
