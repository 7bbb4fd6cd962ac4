// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/replicas.hpp>
#include <graticule/partition/comm.hpp>

#include <cstdint>

namespace graticule::nn::detail {

/// The buffers, as `parameters_of`.
[[nodiscard]] NamedTensors buffers_of(torch::nn::Module const& module);

/// What is compared beside names, shapes and dtypes.
enum class ReplicaNeeds : std::uint8_t {
  any,
  gradients,  ///< which tensors need gradients
};

/// Checks that the ranks of a team hold tensors of the same number, names, shapes and dtypes. Collective.
/// @throws `ReplicaMismatch` otherwise, on all ranks, with two ranks and their tensors. Cost: one all-reduce of 4
/// integers if equal
void require_replicas(Comm const& team, NamedTensors const& tensors, ReplicaNeeds needs = ReplicaNeeds::any);

/// Copies the values of one of the team's ranks to the others, bit for bit. Collective. Cost: one broadcast per tensor,
/// of host memory; of a device, through pinned memory, in order of its current stream.
void broadcast_replicas(Comm const& team, NamedTensors const& tensors, int root = 0);

}  // namespace graticule::nn::detail
