// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <vector>

namespace graticule::training::detail {

/// Running means that an optimizer keeps of each parameter's gradients: their number depends on its type and options.
/// Knows SGD, Adam, AdamW, RMSprop and Adagrad. @throws `Unsupported` for others
[[nodiscard]] int num_moments(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter);

/// They themselves, in a fixed order; undefined where the optimizer has not made them yet.
[[nodiscard]] std::vector<torch::Tensor> moments_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter);

}  // namespace graticule::training::detail
