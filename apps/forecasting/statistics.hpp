// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/detail/cells.hpp>
#include <graticule/samples/detail/channels.hpp>
#include <graticule/samples/detail/data_teams.hpp>
#include <graticule/samples/detail/missing_cells.hpp>

#include "sequences.hpp"

#include <vector>

namespace graticule::forecasting {

/// What a training knows of its channels, from the states that train.
struct StateStatistics {
  /// Of each channel. Components of vectors keep mean 0, as in `samples::Scaling`.
  std::vector<ChannelScale> values;
  std::vector<ChannelScale> tendencies;  ///< of x(t + lead) - x(t); prognostic channels only
  std::vector<double> east_scales;       ///< of d/dx, likewise
  std::vector<double> north_scales;      ///< of d/dy
  /// Means of each cell over all states, [channel][row][column] of this rank: the climatology. NaN where no state has a
  /// value.
  std::vector<double> climatology;
  /// [state][channel]: the area of cells with values, over the whole globe, of the states in use; 0 for others.
  std::vector<double> areas;
};

/// The times of an axis that training and evaluation use.
struct TimeUse {
  std::vector<bool> trains;  ///< of each time: in the statistics
  std::vector<bool> used;    ///< of each time: read at all
};

/// Reads all states in use once, each data team its part, and counts their missing cells. Collective; equal on all
/// ranks.
/// @throws `BadInput` (input) for a channel without values or without two training states one lead apart
[[nodiscard]] StateStatistics survey_states(samples::DataTeams const& teams, models::Cells const& cells,
                                            samples::SampleStore& store, samples::TimeSteps const& steps,
                                            Index num_members, std::vector<StateChannel> const& channels,
                                            TimeUse const& use, samples::MissingCells& missing);

}  // namespace graticule::forecasting
