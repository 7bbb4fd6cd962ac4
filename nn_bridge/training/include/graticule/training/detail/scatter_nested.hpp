// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace graticule::training::detail {

/// Inputs of each copy, from a function of the user. @throws `ReplicaMismatch` unless it returns one per copy
using InputScatter = std::function<std::vector<torch::IValue>(torch::IValue const& input, int num_copies)>;
/// Calls `scatter` and checks the number of results.
[[nodiscard]] std::vector<torch::IValue> scatter_nested(InputScatter const& scatter, torch::IValue const& input,
                                                        int num_copies);

}  // namespace graticule::training::detail
