// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "network.hpp"
#include "partition.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace graticule::train {

/// Whether training samples are joined by their mirror images across the equator; `automatic` does so on grids that are
/// their own mirror image.
enum class Mirror : std::uint8_t { automatic, on, off };

/// What to learn from which file.
struct RunSettings {
  std::filesystem::path input;
  std::vector<std::string> inputs{"z"};
  std::vector<std::string> targets{"u", "v"};
  std::vector<std::string> statics{"coriolis", "sin_latitude", "cos_latitude"};
  std::vector<std::string> features{"auto"};
  Mirror mirror = Mirror::automatic;
  double train_fraction = 0.5;
  PartitionChoice partition;
  int data_teams = 1;
  NetworkSettings network;
  std::optional<CheckpointSettings> checkpoints = {};
};

/// How good the predictions of one target are, over all validation samples, weighted by area, in the target's units.
struct Skill {
  double rmse = 0;
  double climatology_rmse = 0;  ///< of the training samples' mean of each level as a forecast

  /// 1 - rmse / climatology_rmse: 1 is perfect, 0 no better than climatology.
  [[nodiscard]] double skill() const noexcept { return 1 - rmse / climatology_rmse; }
};

/// One target on one rank, in its own units: [sample][row][column] of the owned box.
struct TargetResult {
  FieldInfo info;
  std::vector<double> truth;
  std::vector<double> prediction;
  Skill validation;                 ///< of all levels
  std::vector<Skill> level_skills;  ///< of each level
};

/// What a training leaves.
struct RunResult {
  TeamWork teams;
  Grid grid = {};
  Layout layout;  ///< of the ranks of one domain
  SampleAxes samples = {};
  std::string latitude_name = {};
  std::string longitude_name = {};
  std::vector<double> row_weights = {};
  Index num_training = 0;                  ///< samples of the file that train
  Index num_mirrored = 0;                  ///< mirror images that train
  std::vector<std::string> channels = {};  ///< names of the input channels
  std::vector<TargetResult> targets = {};
  TrainedNetwork network = {};
  std::map<std::string, double> seconds = {};  ///< `read`, `train`, `evaluate`
};

/// Told about a run while it goes on, and asked, on every rank.
struct RunObserver {
  std::function<void(RunResult const&, Index num_steps)> on_start;  ///< when all but the network is known
  std::function<void(Index step, double loss)> on_step;
  std::function<void(std::string const&)> on_note = [](std::string const&) {};
  std::function<std::optional<std::string>(double)> reason_to_stop = [](double) { return std::nullopt; };
};

/// Reads the file, trains on all ranks of `comm`, predicts and evaluates. Collective; errors are the same on all ranks.
/// A training that was stopped (`network.stopped_by`) has no results yet.
[[nodiscard]] RunResult run_training(Comm const& comm, RunSettings const& settings, RunObserver const& observer);

}  // namespace graticule::train
