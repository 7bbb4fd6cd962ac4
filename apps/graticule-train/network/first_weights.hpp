// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace graticule::train {

/// Fills all parameters from `seed` and their names: normal weights of variance 1 / fan-in, scales of one, zero biases,
/// and a zero head, so that training starts from the mean. The same on every rank, and for f32 and f64 but for
/// rounding.
void initialise_parameters(torch::nn::Module& model, std::uint64_t seed);

}  // namespace graticule::train
