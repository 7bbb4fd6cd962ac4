// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded/clip.hpp>

#include <optional>
#include <vector>

namespace graticule::training::detail {

/// Parameters with reduced gradients, and their contribution to the norm.
struct ClippedPart {
  nn::NamedTensors parameters;
  /// Each rank of these teams holds different elements, all of which count. Empty: replicated, and counted once.
  std::vector<Comm> parts_over;
  /// Of replicated gradients: the first rank of this team decides about their part of the norm.
  std::optional<Comm> decided_on = {};
};

/// Scales gradients by `min(1, max_norm / (norm + 1e-6))`, as LibTorch does, where `norm` is the norm of all of them as
/// one vector, in f64. Collective over all `parts_over` and `decided_on`; empty parts count as zero.
/// @param parts all gradients, each once @param max_norm at least 0 @param norm_type positive, or infinity for the
///        largest absolute value @param non_finite treatment of a norm that is not finite
/// @returns the norm before scaling, the same on all ranks; NaN where a gradient has one
/// Cost: an all-reduce of one or two numbers per team of each part; a copy of numbers to the host per device.
double scale_gradients(std::vector<ClippedPart> const& parts, double max_norm, double norm_type, NonFinite non_finite);

/// The same for a `max_norm` above 0. @throws `BadOption` unless it and `norm_type` are positive
double clip_gradients(std::vector<ClippedPart> const& parts, double max_norm, double norm_type = 2,
                      NonFinite non_finite = NonFinite::kept);

}  // namespace graticule::training::detail
