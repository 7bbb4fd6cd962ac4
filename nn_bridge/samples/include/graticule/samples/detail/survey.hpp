// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/detail/cells.hpp>
#include <graticule/samples/detail/batches.hpp>
#include <graticule/samples/detail/data_teams.hpp>
#include <graticule/samples/detail/missing_cells.hpp>

#include <vector>

namespace graticule::samples {

/// Result of one pass over all samples.
struct Survey {
  std::vector<LevelStatistics> inputs;   ///< of each input channel, over the training samples
  std::vector<LevelStatistics> targets;  ///< of each target
  /// What each sample of the file counts in the loss: the area of all its targets' cells that are not missing.
  std::vector<double> sample_weights;
};

/// Reads all targets, and the inputs of training samples, once: each data team its part of the samples, a thread reads
/// the next ones meanwhile. Collective; the same bits on all ranks and for all budgets of the store.
/// @param at_once samples that are in memory together
/// @param missing counts what was read
/// @throws `BadInput` (input), what reading throws
[[nodiscard]] Survey survey_samples(DataTeams const& teams, Cells const& cells, Derivatives const& derivatives,
                                    SampleStore& store, ChannelPlan const& plan, Index num_training, Index at_once,
                                    MissingCells& missing);

}  // namespace graticule::samples
