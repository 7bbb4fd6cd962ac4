// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::nn::detail {

// For LibTorch's own norms: LibTorch 2.13's backward of batch_norm and instance_norm on the CPU is wrong where input
// and cotangent lie in memory in different ways that LibTorch takes for the same (one sample, or one column).

/// `y`, whose backward gets a contiguous cotangent whatever the loss gives. Differentiable any number of times.
[[nodiscard]] torch::Tensor with_contiguous_cotangent(torch::Tensor const& y);

/// `x` itself where it is contiguous or has the strides of channels last, also along axes of one cell; else a copy.
[[nodiscard]] torch::Tensor in_plain_memory(torch::Tensor const& x);

}  // namespace graticule::nn::detail
