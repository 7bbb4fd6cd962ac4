// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "data_parallel/reducer.hpp"

#include <exception>
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

/// @throws `WrongState` for a module whose parameters, or some of them, are cut; `ParametersChanged` for what is left
/// of them
void refuse_cut(torch::nn::Module const& module);

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

}  // namespace graticule::training::detail
