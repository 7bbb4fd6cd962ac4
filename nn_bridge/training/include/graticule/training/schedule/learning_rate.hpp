// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>

namespace graticule::training {

/// A learning rate as a function of only the step, so that a checkpoint needs to hold only the step.
struct Schedule {
  /// Course of the learning rate after the warm-up.
  enum class Kind : std::uint8_t {
    constant,
    linear,       ///< falls to `final_factor` in equal steps
    cosine,       ///< falls to `final_factor` along half a cosine
    steps,        ///< times `gamma` after every `period` steps
    exponential,  ///< times `gamma` over every `period` steps, evenly
  };

  /// By name: `constant`, `linear`, `cosine`, `steps`, `exponential`.
  [[nodiscard]] static std::map<std::string, Kind> const& kinds();

  Kind kind = Kind::cosine;
  Index num_steps = 1;      ///< of the whole training
  double warmup_steps = 0;  ///< over which the rate rises from near 0, multiplied by the factor of the kind
  double final_factor = 0;  ///< of `linear` and `cosine`
  Index period = 1;         ///< of `steps` and `exponential`
  double gamma = 0.1;       ///< of `steps` and `exponential`

  /// Factor of the highest rate at `step`: min(1, (step + 1) / (warmup_steps + 1)) times
  /// constant: 1; linear: 1 - (1 - final) s/n; cosine: final + (1 - final) (1 + cos(pi s/n)) / 2 (Loshchilov and Hutter
  /// 2017); steps: gamma^floor(s / period); exponential: gamma^(s / period), with s = min(step, n).
  /// @throws `BadOption` for a negative step, numbers of steps and periods below 1, and factors that are NaN or below
  ///         0
  [[nodiscard]] double factor(Index step) const;
};

/// Sets the learning rate of all groups of an optimizer.
void set_learning_rate(torch::optim::Optimizer& optimizer, double rate);

}  // namespace graticule::training
