// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// The buffers, as `parameters_of`.
[[nodiscard]] NamedTensors buffers_of(torch::nn::Module const& module);
/// Parameters, then buffers.
[[nodiscard]] NamedTensors tensors_of(torch::nn::Module const& module);

/// @throws `UnsupportedTensor` for the first tensor without values: of the meta device, which stands for those of lazy
/// modules, too
void require_values(NamedTensors const& tensors);

/// @param gradient that ranks are to sum, or undefined @throws `UnsupportedTensor` for a sparse one of this parameter
void require_dense(std::string const& parameter, torch::Tensor const& gradient);

/// What any rank has thrown, on all ranks that teams join; null where none has. Collective over all teams.
[[nodiscard]] std::exception_ptr agreed_failure(std::vector<Comm> const& teams, std::exception_ptr failure);
/// Throws that.
void throw_agreed(std::vector<Comm> const& teams, std::exception_ptr const& failure);

/// Runs a step that is collective over one of several teams, or none; keeps its exception for `throw_agreed`, unless
/// one is there.
template <class Step>
void attempt(std::exception_ptr& failure, Step&& step) {
  try {
    step();
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
}

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
