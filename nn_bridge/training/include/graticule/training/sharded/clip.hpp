// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::training {

/// Treatment of a norm that is not finite.
enum class NonFinite : std::uint8_t {
  kept,     ///< the norm is returned, and the gradients are scaled by it nevertheless
  refused,  ///< `NotFinite` on all ranks, with the first such parameter of this rank; gradients are unchanged
};

/// Options of `ShardedParameters::clip_grad_norm`.
struct ClipOptions {
  double norm_type = 2;  ///< infinity for the largest element
  /// Gradients of replicated parameters, already the same on all ranks, that the norm counts once: by default those of
  /// the ignored modules.
  std::optional<std::vector<torch::Tensor>> replicated = {};
  NonFinite non_finite = NonFinite::kept;
};

}  // namespace graticule::training
