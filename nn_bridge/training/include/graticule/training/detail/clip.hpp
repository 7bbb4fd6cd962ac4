// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded/clip.hpp>

#include <vector>

namespace graticule::training::detail {

/// Parameters with reduced gradients, and their contribution to the norm.
struct ClippedPart {
  nn::NamedTensors parameters;
  /// Each rank of these teams holds different elements, and the norm is over all of them. Empty: replicated, and
  /// counted once.
  std::vector<Comm> parts_over;
};

/// Scales gradients by `min(1, max_norm / (norm + 1e-6))`, as LibTorch does, where `norm` is the norm of all of them as
/// one vector, in f64. Collective over all `parts_over`; empty parts count as zero.
/// @param parts all gradients, each once @param max_norm positive @param norm_type positive, or infinity for the
///        largest absolute value @param non_finite treatment of a norm that is not finite
/// @returns the norm before scaling, the same on all ranks @throws `BadOption` unless `max_norm` and `norm_type` are
///         positive
/// Cost: one all-reduce of one number per team of each part; on devices one copy of a number per gradient, per device.
double clip_gradients(std::vector<ClippedPart> const& parts, double max_norm, double norm_type = 2,
                      NonFinite non_finite = NonFinite::kept);

}  // namespace graticule::training::detail
