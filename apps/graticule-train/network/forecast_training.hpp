// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/description.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/samples/detail/data_teams.hpp>

#include "forecast_data.hpp"
#include "scores.hpp"
#include "sequences.hpp"
#include "trained_network.hpp"

#include <functional>
#include <string>

namespace graticule::train {

/// What a training of forecasts works with.
struct ForecastParts {
  DataTeams const& teams;
  Cells const& cells;
  ForecastData const& data;
  samples::TimeSteps const& steps;
  forecasting::SequenceSource& source;
};

/// Some forecasts of this rank's team at one lead, in units.
struct ForecastFields {
  Index case_number = 0;             ///< in the list of initial states
  Index lead = 0;                    ///< from 0
  std::span<double const> forecast;  ///< [channel][row][column]
  std::span<double const> truth;
};

/// Callbacks of a training of forecasts, on every rank.
struct ForecastCalls {
  /// After each validation of the training; collective.
  std::function<void(Index epoch, Index step, forecasting::ScoreTable const&)> on_validation;
  /// Scores of the test part, else of the validation part, at the end; collective.
  std::function<void(forecasting::ScoreTable&&)> on_scores;
  /// What is scored, where this team forecasts it.
  std::function<void(ForecastFields const&)> on_fields;
  std::function<void(std::string const&)> on_note;
};

/// Trains a network on the states that follow, and scores its forecasts. Collective; otherwise as `train_network`.
[[nodiscard]] TrainedNetwork train_forecast(ForecastParts const& parts, ProcessGrid const& grid,
                                            Boundary const& boundary, NetworkSettings const& settings,
                                            ForecastCalls const& calls, TrainingControl const& control);

}  // namespace graticule::train
