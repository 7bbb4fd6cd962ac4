// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "run.hpp"

namespace graticule::train {

/// How far two runs of one training are apart.
struct Comparison {
  double max_relative_loss_difference = 0;  ///< of any step; infinite when the numbers of steps differ
  Index worst_step = 0;                     ///< where it was found, counted from 1
  double max_parameter_difference = 0;      ///< absolute, of any trained parameter; infinite when the networks differ
};

/// @param reference the run that differences are relative to
[[nodiscard]] Comparison compare_runs(TrainedNetwork const& run, TrainedNetwork const& reference);

/// Largest relative loss difference that rounding explains: 1e-9 for f64, 1e-3 for f32, 5e-2 where bf16 is computed
/// with.
[[nodiscard]] double loss_tolerance(NetworkSettings const& settings) noexcept;

/// @throws `CheckFailed` (check) when a loss differs by more than the tolerance, or by a value that is no number
void require_agreement(Comparison const& comparison, NetworkSettings const& settings);

/// Repeats the training of `run` on rank 0 alone, with a communicator and a domain of its own, while the other ranks
/// sleep, and compares. Collective; the result is the same on all ranks.
/// @param on_step called on rank 0 after each step of the repetition
[[nodiscard]] Comparison repeat_on_one_rank(Comm const& comm, RunSettings const& settings, TrainedNetwork const& run,
                                            std::function<void(Index, double)> const& on_step);

/// Returns when all ranks of `comm` have called it; looks every few milliseconds and sleeps between, so that whoever is
/// late has the cores. Collective.
void wait_politely(Comm const& comm);

}  // namespace graticule::train
