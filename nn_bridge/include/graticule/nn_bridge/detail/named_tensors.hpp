// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace graticule::nn {

/// Tensors with their names in a module, such as `encoder.0.weight`.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// In order of registration. A tensor that several modules share appears once, under its first name.
[[nodiscard]] NamedTensors parameters_of(torch::nn::Module const& module);

/// Checks that all tensors are bitwise equal on the ranks of a team. Collective. @throws `ReplicaMismatch` otherwise,
/// on all ranks, with the first different tensor and two ranks. Cost: one all-reduce of 4 integers if equal
void require_same_bits(Comm const& team, NamedTensors const& tensors);

}  // namespace graticule::nn
