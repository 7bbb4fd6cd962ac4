// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/partition.hpp>
#include <graticule/models/description.hpp>
#include <graticule/samples/detail/companions.hpp>
#include <graticule/samples/detail/fields.hpp>
#include <graticule/samples/detail/missing_cells.hpp>

#include "network/trained_network.hpp"
#include "scores.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::train {

/// Whether training samples are joined by their mirror images across the equator; `automatic` does so on grids that are
/// their own mirror image.
enum class Mirror : std::uint8_t { automatic, on, off };
[[nodiscard]] constexpr NamedChoice enum_row(Mirror mirror) noexcept {
  switch (mirror) {
    case Mirror::automatic: return {"auto"};
    case Mirror::on: return {"on"};
    case Mirror::off: return {"off"};
  }
  return {};
}

/// A forecast to learn, as on the command line.
struct ForecastSettings {
  std::string lead = "1";  ///< steps of the time axis, or `6h`
  std::vector<std::string> prognostic;
  std::vector<std::string> diagnostic = {};
  std::vector<std::string> forcings{"insolation", "time_of_day"};
  std::filesystem::path static_file = {};
  Index history = 2;
  models::Predict predict = models::Predict::tendency;
  double polar_filter = 60;  ///< degrees of latitude; 0: none
  /// Of `LossKind::crps`: members of the ensemble that each sample is, and the standard deviation of their initial
  /// perturbations by that of tendencies.
  Index members = 4;
  double perturbation = 0.5;
  double input_noise = 0;  ///< standard deviation of noise in the states that train, by that of tendencies
  std::vector<std::pair<Index, Index>> rollouts{{0, 1}};  ///< {epoch, steps}
  Index rollout_checkpoint = 0;
  /// Of targets; none: the first `RunSettings::train_fraction` of times.
  std::string train_dates = {};  ///< `A..B` in the calendar of the input
  std::string validate_dates = {};
  std::string test_dates = {};
  Index validate_steps = 4;
  std::map<std::string, double> channel_weights = {};  ///< by label or variable
};

/// What to learn from which file.
struct RunSettings {
  std::filesystem::path input;
  std::vector<std::string> inputs{"z"};
  std::vector<std::string> targets{"u", "v"};
  std::vector<std::string> statics{"coriolis", "sin_latitude", "cos_latitude"};
  std::vector<std::string> features{"auto"};
  Mirror mirror = Mirror::automatic;
  double train_fraction = 0.5;
  MissingRule missing = MissingRule::warn;
  samples::RepeatedColumn repeated = samples::RepeatedColumn::refuse;
  app::PartitionChoice partition;
  int data_teams = 1;
  NetworkSettings network;
  std::optional<CheckpointSettings> checkpoints = {};
  Index memory_bytes = 0;                         ///< of one rank, for samples and batches; 0: `default_memory_bytes`
  std::optional<ForecastSettings> forecast = {};  ///< instead of fields of the same time
};

/// How good the predictions of one target are, over all validation samples, weighted by area, in the target's units.
struct Skill {
  double rmse = 0;
  double climatology_rmse = 0;  ///< of the training samples' mean of each level as a forecast

  /// 1 - rmse / climatology_rmse: 1 is perfect, 0 no better than climatology.
  [[nodiscard]] double skill() const noexcept { return 1 - rmse / climatology_rmse; }
};

/// One target on one rank, in its own units.
struct TargetResult {
  FieldInfo info;
  std::vector<Attribute> attributes = {};  ///< that hold for its predictions
  Skill validation = {};                   ///< of all levels
  std::vector<Skill> level_skills = {};    ///< of each level
  /// [row][column] of `RunResult::pictured`.
  std::vector<double> pictured_truth = {};
  std::vector<double> pictured_prediction = {};
};

/// Some predicted samples of this rank's data team, in units: [sample][target][row][column] of the owned box.
struct PredictedFields {
  std::span<Index const> samples;
  std::span<double const> truth;  ///< NaN where missing
  std::span<double const> prediction;

  /// One target of the sample at `place`, of `num_targets`.
  [[nodiscard]] std::span<double const> field(std::span<double const> values, std::size_t place, std::size_t target,
                                              std::size_t num_targets) const {
    std::size_t const cells = values.size() / (samples.size() * num_targets);
    return values.subspan((place * num_targets + target) * cells, cells);
  }
};

/// How a channel of fields of the same time was normalised, level by level: (value - mean) / scale.
struct ChannelScaling {
  std::string name;
  std::string units;  ///< of the field; of derivatives per metre
  Scaling scaling;
};

/// Where a rank's samples came from.
struct InputCounts {
  Index memory_bytes = 0;  ///< the budget
  StoreCounts store = {};
};

/// What a training of forecasts leaves.
struct ForecastOutcome {
  models::Description description;
  bool has_test = false;     ///< the test part is scored, not the validation part
  Index num_validation = 0;  ///< initial states
  Index num_test = 0;
  std::vector<models::Seconds> scored;                 ///< initial time of each case
  std::optional<forecasting::ScoreTable> scores = {};  ///< none without validation and test
  /// [channel][row][column] of this rank: the first case at the first lead, in units.
  std::vector<double> pictured_forecast = {};
  std::vector<double> pictured_truth = {};
};

/// What a training leaves.
struct RunResult {
  DataTeams teams;
  Grid grid = {};
  Layout layout;  ///< of the ranks of one domain
  SampleAxes samples = {};
  std::string latitude_name = {};
  std::string longitude_name = {};
  CompanionSet companions = {};
  std::string input_history = {};
  std::vector<double> row_weights = {};
  Index num_training = 0;                           ///< samples of the file that train
  Index num_mirrored = 0;                           ///< mirror images that train
  std::vector<std::string> channels = {};           ///< names of the input channels
  std::vector<ChannelScaling> input_scalings = {};  ///< without functions of latitude
  std::vector<ChannelScaling> target_scalings = {};
  std::vector<TargetResult> targets = {};
  Index pictured = 0;  ///< the first sample that validates, or the first of all
  TrainedNetwork network = {};
  InputCounts input = {};
  std::map<std::string, double> seconds = {};  ///< `read`, `train`, `evaluate` and, among them, `wait_for_input`
  std::optional<ForecastOutcome> forecast = {};
};

/// Told about a run while it goes on, and asked, on every rank.
struct RunObserver {
  std::function<void(RunResult const&, Index num_steps)> on_start;  ///< when all but the network is known
  std::function<void(Index step, double loss)> on_step;
  std::function<void(std::string const&)> on_note = [](std::string const&) {};
  std::function<void(std::string const&)> on_warning = [](std::string const&) {};
  /// Given the predictions of all samples, some at a time; called as often on all ranks, on some without samples.
  std::function<void(RunResult const&, PredictedFields const&)> on_predictions = [](RunResult const&,
                                                                                    PredictedFields const&) {};
  /// Told on the reading thread before a field of a sample is read.
  std::function<void(Index sample, std::size_t field)> on_read = {};
  /// Told the losses of the steps before, when a training is resumed.
  std::function<void(std::span<double const>)> on_resume = [](std::span<double const>) {};
  /// Scores of the validation part of a forecast during the training.
  std::function<void(RunResult const&, Index epoch, Index step, forecasting::ScoreTable const&)> on_scores =
      [](RunResult const&, Index, Index, forecasting::ScoreTable const&) {};
  std::function<std::optional<std::string>(double)> reason_to_stop = [](double) { return std::nullopt; };
};

/// Trains on all ranks of `comm`, predicts and evaluates, reading from the file what does not fit into memory.
/// Collective; errors are the same on all ranks. What `memory_bytes` says does not change a bit.
/// @throws `BudgetTooSmall` (usage) when not even two batches fit
/// With `RunSettings::forecast`, the network learns the states that follow, and `on_predictions` is not called.
/// A training that was stopped (`network.stopped_by`) has no results yet.
[[nodiscard]] RunResult run_training(Comm const& comm, RunSettings const& settings, RunObserver const& observer);

}  // namespace graticule::train
