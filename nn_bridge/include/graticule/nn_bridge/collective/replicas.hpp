// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace graticule::nn {

/// Tensors by their names in a module, such as `encoder.0.weight`.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// In order of registration; one that several modules share comes once, under its first name.
[[nodiscard]] NamedTensors parameters_of(torch::nn::Module const& module);
[[nodiscard]] NamedTensors buffers_of(torch::nn::Module const& module);

/// Collective. @throws `ReplicaMismatch` on all ranks, with two ranks and what they hold, unless number, names, shapes and
///         dtypes are the same on all ranks of the team. Cost: one all-reduce of 4 integers when they are
void require_replicas(Comm const& team, NamedTensors const& tensors);

/// Copies the values of the team's first rank to the others, bit for bit. Collective. Cost: one broadcast a tensor.
void broadcast_replicas(Comm const& team, NamedTensors const& tensors);

/// Collective. @throws `ReplicaDiffers` on all ranks, with the first tensor and two ranks that differ, unless all bits are
///         the same on all ranks of the team. Cost: one all-reduce of 4 integers when they are
void require_same_bits(Comm const& team, NamedTensors const& tensors);

}  // namespace graticule::nn
