// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel.hpp>

#include <functional>
#include <string>
#include <vector>

namespace graticule::training {

/// A parameter whose reduced gradient is not that of the loss.
struct WrongRule {
  std::string parameter;
  double factor =
      1;  ///< reduced gradient divided by the true one: a team's size or its inverse where sum and mean are mixed up
};

struct ProbeOptions {
  double tolerance = 0.1;  ///< of the factor; less than what two ranks make
  double step = 0;         ///< length of the perturbation; 0: by type and norm of the parameter
};

/// Compares each parameter's reduced gradient with a finite difference of the global loss, along the gradient.
///
/// Collective; to be called once, before training, with a loss that is smooth and draws no random numbers. Gradients are
/// zeroed, parameters are restored bit for bit. Parameters whose gradient is zero are not judged.
/// @param backward one iteration's forward and backward on this rank's samples, as in training
/// @param global_loss of the whole batch, the same number on all ranks: what the gradients are meant to belong to
/// @returns the parameters whose factor is not 1, on all ranks alike. Cost: one backward, up to four losses a parameter
[[nodiscard]] std::vector<WrongRule> find_wrong_rules(DataParallel& parallel, std::function<void()> const& backward,
                                                      std::function<double()> const& global_loss,
                                                      ProbeOptions const& options = {});

}  // namespace graticule::training
