// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "channels.hpp"
#include "model_kind.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::train {

enum class Precision : std::uint8_t { f32, f64 };

/// The network and how it is trained.
struct NetworkSettings {
  ModelKind model = ModelKind::convnet;
  Index channels = 32;
  Index blocks = 4;
  Index kernel = 3;
  Index epochs = 50;
  Index batch = 3;
  double learning_rate = 2e-3;
  std::uint64_t seed = 1;
  Precision precision = Precision::f32;
};

/// One rank's part of what the network learns from; all values normalised.
struct TrainingData {
  Index num_samples = 0;
  Index num_predicted = 0;      ///< the first ones
  std::vector<Index> training;  ///< numbers of the samples that train
  Index num_rows = 0;           ///< of this rank
  Index num_columns = 0;
  std::vector<Channel> inputs;      ///< no missing values
  std::vector<Channel> statics;     ///< one sample each
  std::vector<Channel> targets;     ///< missing values are NaN
  std::vector<double> row_weights;  ///< of this rank's rows
  std::vector<double> latitudes;    ///< of all rows of the grid
  Index num_global_columns = 0;
};

struct TrainedNetwork {
  std::vector<double> losses;  ///< one per optimizer step, the same on all ranks
  std::vector<std::pair<std::string, std::vector<double>>> parameters;
  std::vector<std::vector<double>> predictions;  ///< of each target, `num_predicted` samples, normalised
  Index num_parameters = 0;
  /// What this rank's layers sent in a step, forward and backward, on the average.
  double messages_per_step = 0;
  double bytes_per_step = 0;
};

/// Steps of the optimizer in a training; the last batch of an epoch may be smaller.
[[nodiscard]] Index num_steps(NetworkSettings const& settings, Index num_training);

/// Factor on the learning rate at `step`: a linear rise over the first twentieth, then half a cosine down to zero.
[[nodiscard]] double learning_rate_factor(Index step, Index num_steps);

/// Trains the network on the samples of all ranks of `comm` and predicts. Collective.
///
/// First weights, sample order and every step depend on the settings and the data alone: for any number of ranks and
/// any cuts the losses are the same but for rounding.
/// @param on_step called on every rank after each step with its number and loss
[[nodiscard]] TrainedNetwork train_network(Comm const& comm, ProcessGrid const& grid, Boundary const& boundary,
                                           TrainingData const& data, NetworkSettings const& settings,
                                           std::function<void(Index, double)> const& on_step);

[[nodiscard]] std::string torch_version();

/// Sets the threads that LibTorch computes with.
void use_torch_threads(int num_threads);

}  // namespace graticule::train
