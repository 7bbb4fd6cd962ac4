// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/replicas.hpp>

#include "data_parallel/reducer.hpp"

#include <vector>

namespace graticule::training::detail {

/// A module's replicas, after they have been made equal.
struct Wrapped {
  std::vector<ReducedParameter> parameters;  ///< that require a gradient
  std::vector<Comm> teams;                   ///< communicators of our own
  std::vector<TeamPlace> default_rules;      ///< their teams are the first ones of `teams`
};

/// Checks arguments and replicas on all ranks, and broadcasts. @throws see `DataParallel`
[[nodiscard]] Wrapped wrap(torch::nn::Module const& module, std::vector<nn::TeamRule> const& rules,
                           DataParallelOptions const& options);

/// @throws `WrongState` for a module with cut parameters; `ParametersChanged` for what remains of such a module
void refuse_cut(torch::nn::Module const& module);

using nn::detail::attempt;
using nn::detail::throw_agreed;

}  // namespace graticule::training::detail
