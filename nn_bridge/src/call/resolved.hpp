// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::nn::detail {

/// `x` with lazy conjugates and negatives resolved in memory, which plans read.
[[nodiscard]] inline torch::Tensor resolved(torch::Tensor const& x) {
  return x.defined() ? x.resolve_conj().resolve_neg() : x;
}

}  // namespace graticule::nn::detail
