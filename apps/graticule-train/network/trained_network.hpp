// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model_kind.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/enum_table.hpp>
#include <graticule/samples/detail/batches.hpp>
#include <graticule/samples/detail/channels.hpp>
#include <graticule/samples/detail/data_teams.hpp>
#include <graticule/training/detail/wires.hpp>

#include "names.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace graticule::train {

/// A value as options, reports and checkpoints name it.
struct NamedChoice {
  char const* name = nullptr;
};

enum class Precision : std::uint8_t { f32, f64 };
[[nodiscard]] constexpr NamedChoice enum_row(Precision precision) noexcept {
  switch (precision) {
    case Precision::f32: return {"f32"};
    case Precision::f64: return {"f64"};
  }
  return {};
}

/// Data type of the network's operations; parameters and optimizer keep their own precision.
enum class Compute : std::uint8_t { own, bf16 };
[[nodiscard]] constexpr NamedChoice enum_row(Compute compute) noexcept {
  switch (compute) {
    case Compute::own: return {"own"};
    case Compute::bf16: return {"bf16"};
  }
  return {};
}

/// When the gradients' reductions are waited for: at the end of the backward, or as late as possible. Or teams on one
/// node share gradients, and nodes average parameters now and then (`training::Daso`).
enum class Parallel : std::uint8_t { blocking, nonblocking, daso };
[[nodiscard]] constexpr NamedChoice enum_row(Parallel parallel) noexcept {
  switch (parallel) {
    case Parallel::blocking: return {"blocking"};
    case Parallel::nonblocking: return {"nonblocking"};
    case Parallel::daso: return {"daso"};
  }
  return {};
}

/// The ranks that parameters and the optimizer's state are cut over.
enum class Shards : std::uint8_t { none, domain, data, all };
[[nodiscard]] constexpr NamedChoice enum_row(Shards shards) noexcept {
  switch (shards) {
    case Shards::none: return {"none"};
    case Shards::domain: return {"domain"};
    case Shards::data: return {"data"};
    case Shards::all: return {"all"};
  }
  return {};
}

/// Errors that a training minimises: squared, absolute, Huber's (quadratic up to 1 in normalised units), squared ones
/// of cells and of the amplitudes of waves along rows, or the fair CRPS of an ensemble, of forecasts alone.
enum class LossKind : std::uint8_t { mse, mae, huber, spectral, crps };
[[nodiscard]] constexpr NamedChoice enum_row(LossKind loss) noexcept {
  switch (loss) {
    case LossKind::mse: return {"mse"};
    case LossKind::mae: return {"mae"};
    case LossKind::huber: return {"huber"};
    case LossKind::spectral: return {"spectral"};
    case LossKind::crps: return {"crps"};
  }
  return {};
}

enum class OptimizerKind : std::uint8_t { adam, adamw, sgd };
[[nodiscard]] constexpr NamedChoice enum_row(OptimizerKind optimizer) noexcept {
  switch (optimizer) {
    case OptimizerKind::adam: return {"adam"};
    case OptimizerKind::adamw: return {"adamw"};
    case OptimizerKind::sgd: return {"sgd"};
  }
  return {};
}

/// See `training::DasoScheduleOptions`.
struct DasoSettings {
  Index warmup_epochs = -1;  ///< in `check_options`: a third of all, at most 4
  Index cooldown_epochs = -1;
  Index max_skip = 8;
  Index teams_per_node = 0;  ///< data teams that count as a node; 0: those that share memory
};

/// The network and how it is trained. Each member has a row in `visit_settings` (settings_table.hpp).
struct NetworkSettings {
  ModelKind model = ModelKind::convnet;
  std::filesystem::path program = {};  ///< file of `ModelKind::program`
  Index channels = 32;
  Index blocks = 4;
  Index kernel = 3;
  Index epochs = 50;
  Index batch = 3;
  double learning_rate = 2e-3;
  std::uint64_t seed = 1;
  Precision precision = Precision::f32;
  std::string schedule = "cosine";  ///< one of `training::Schedule::kinds`
  Index warmup_steps = -1;          ///< over which the rate rises; -1: a twentieth of all
  Index validate_every = 0;         ///< epochs between two validations; 0: none
  Parallel parallel = Parallel::blocking;
  training::Wire wire = training::Wire::own;  ///< of gradients: own, bf16 or f16
  Compute compute = Compute::own;
  Shards shards = Shards::none;
  DasoSettings daso = {};
  Index patience = 0;  ///< validations without improvement that end the training; 0: it runs to its end
  LossKind loss = LossKind::mse;
  double spectral_weight = 0.1;  ///< of the amplitudes in `LossKind::spectral`
  OptimizerKind optimizer = OptimizerKind::adam;
  double weight_decay = 0;
  double clip = 0;             ///< largest norm of the gradients; 0: any
  Index accumulate = 1;        ///< portions that a batch is processed in, one after the other
  double ema = 0;              ///< decay of the average of the parameters that validates and predicts; 0: no average
  std::string device = "cpu";  ///< of this rank, as LibTorch names it: `cuda:1`
};

/// Starting point of a training: the beginning, the newest checkpoint if any, or a given one.
enum class Resume : std::uint8_t { never, newest, file };

struct CheckpointSettings {
  std::filesystem::path folder;
  Index every = 0;  ///< steps between two checkpoints; 0: only when the training is stopped
  Resume resume = Resume::never;
  std::filesystem::path file = {};  ///< of `Resume::file`
  /// Where networks that programs can run go: `best/` and `last/`; empty: nowhere.
  std::filesystem::path runnable = {};
};

/// The training data except for the fields' values.
struct TrainingData {
  Index num_predicted = 0;             ///< the first samples
  std::vector<Index> training;         ///< numbers of the samples that train
  std::vector<Index> validation;       ///< numbers of the samples that validate
  std::vector<double> sample_weights;  ///< what each sample counts in the loss
  Index num_rows = 0;                  ///< of this rank
  Index num_columns = 0;
  std::vector<ChannelInfo> inputs;
  std::vector<Channel> statics;
  std::vector<ChannelInfo> targets;
  std::vector<double> row_weights;  ///< of this rank's rows
  std::vector<double> latitudes;    ///< of all rows of the grid
  Index num_global_columns = 0;
};

/// Predictions for some samples on this rank's box, normalised: [sample][target][row][column].
struct PredictedSamples {
  std::span<Index const> samples;  ///< of this rank's team
  std::span<double const> values;
  std::span<double const> truth;  ///< in units
};

/// The loss of all validation samples after a number of steps.
struct Validation {
  Index step = 0;
  double loss = 0;

  friend bool operator==(Validation const&, Validation const&) = default;
};

struct TrainedNetwork {
  std::vector<double> losses;  ///< one per optimizer step, the same on all ranks; also of the steps before a resumption
  std::vector<Validation> validations;
  Index steps_per_epoch = 1;
  Index num_steps = 0;                    ///< of the whole training; more than there are losses if it ended early
  Index first_step = 0;                   ///< where it was resumed; 0 if it was not
  std::optional<Index> best_step;         ///< of the lowest validation loss
  std::optional<std::string> stopped_by;  ///< why it has to be resumed; nothing else below is known then
  std::vector<std::pair<std::string, std::vector<double>>> parameters;
  Index num_parameters = 0;
  std::map<std::string, Index> update_figures;  ///< of this rank: `Updater::figures`
  /// What this rank's layers sent in a step, forward and backward, on the average.
  double messages_per_step = 0;
  double bytes_per_step = 0;
};

/// Steps of the optimizer in a training; the last batch of an epoch may be smaller.
[[nodiscard]] Index num_steps(NetworkSettings const& settings, Index num_training);

/// The learning rate at `step`: as `training::Schedule` says, with a linear rise over the first steps.
[[nodiscard]] double learning_rate(NetworkSettings const& settings, Index step, Index num_steps);

/// Callbacks of a training, on every rank.
struct TrainingControl {
  std::function<void(Index step, double loss)> on_step = [](Index, double) {};
  /// Told the losses of the steps before, when a training is resumed.
  std::function<void(std::span<double const>)> on_resume = [](std::span<double const>) {};
  std::function<void(std::string const&)> on_note = [](std::string const&) {};     ///< a line for the user
  std::function<void(std::string const&)> on_warning = [](std::string const&) {};  ///< one that matters
  /// Asked after each step, with the seconds that one more and a checkpoint may take; collective, and alike on all
  /// ranks.
  std::function<std::optional<std::string>(double)> reason_to_stop = [](double) { return std::nullopt; };
  std::optional<CheckpointSettings> checkpoints = {};
  /// Given the predictions of all samples at the end, some at a time, each from one team. Called as often on all ranks.
  std::function<void(PredictedSamples const&)> on_prediction = [](PredictedSamples const&) {};
};

/// Samples of a batch that fall to one team at most.
[[nodiscard]] Index most_samples_at_once(NetworkSettings const& settings, DataTeams const& teams);

/// Trains the network on the samples, each data team on its part of every batch, and predicts. Collective.
///
/// First weights, sample order and every step depend on the settings and the data alone: for any number of ranks and
/// teams and any cuts the losses are the same but for rounding, unless `Parallel::daso` lets teams differ. Resumed on
/// the same ranks and cuts they have the same bits as those of a training that was not interrupted; with
/// `Parallel::daso` so if that was between epochs.
/// With `NetworkSettings::ema`, the average of the parameters validates and predicts.
/// @param grid of the domain's ranks
/// @throws `StateMismatch` (usage) when the checkpoint that is to be resumed comes from other settings or data
[[nodiscard]] TrainedNetwork train_network(DataTeams const& teams, ProcessGrid const& grid, Boundary const& boundary,
                                           TrainingData const& data, BatchSource& source,
                                           NetworkSettings const& settings, TrainingControl const& control);

}  // namespace graticule::train
