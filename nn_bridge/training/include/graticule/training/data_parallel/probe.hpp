// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel/wrapper.hpp>

#include <functional>
#include <string>
#include <vector>

namespace graticule::training {

/// A parameter whose reduced gradient differs from that of the loss.
struct WrongRule {
  std::string parameter;
  /// Reduced gradient divided by the true one: a team's size or its inverse where sum and mean are confused.
  double factor = 1;
};

/// Options of `find_wrong_rules`.
struct ProbeOptions {
  double tolerance = 0.1;  ///< of the factor; must be less than the effect of two ranks
  double step = 0;         ///< length of the perturbation; 0: from type and norm of the parameter
};

/// Compares each parameter's reduced gradient with a finite difference of the global loss, along the gradient.
///
/// Collective; call it once, before training, with a loss that is smooth and uses no random numbers. Gradients are
/// zeroed, parameters are restored bit for bit. Parameters with zero gradient are not checked.
/// @param parallel the wrapper to test @param options see `ProbeOptions` @param backward one iteration's forward and
///        backward on this rank's samples, as in training
/// @param global_loss of the whole batch, the same number on all ranks: the loss whose gradients are expected
/// @returns the parameters whose factor is not 1, the same on all ranks. Cost: one backward, up to four losses per
///         parameter
[[nodiscard]] std::vector<WrongRule> find_wrong_rules(DataParallel& parallel, std::function<void()> const& backward,
                                                      std::function<double()> const& global_loss,
                                                      ProbeOptions const& options = {});

}  // namespace graticule::training
