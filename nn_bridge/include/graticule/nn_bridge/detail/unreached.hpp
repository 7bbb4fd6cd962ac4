// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <vector>

namespace graticule::nn::detail {

/// Further roots of a backward from `roots`, with zeros: the calls of the domain that other ranks run in theirs. For
/// libraries on top of this one that run a backward within another. Collective.
/// @throws `UnusedOnSomeRanks` on all ranks alike
[[nodiscard]] std::vector<torch::Tensor> unreached_calls(Domain const& domain, std::vector<torch::Tensor> const& roots);

}  // namespace graticule::nn::detail
