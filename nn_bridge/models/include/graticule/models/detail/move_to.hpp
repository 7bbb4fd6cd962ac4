// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::models {

/// Brings a network's parameters and buffers to a device, before an optimizer has them. Not collective.
///
/// `torch::nn::Module::to`, which moves between LibTorch's own devices only, and the same for devices that a program
/// registers with it (`PrivateUse1`).
void move_to(torch::nn::Module& network, torch::Device const& device);

}  // namespace graticule::models
