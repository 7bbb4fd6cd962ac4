// SPDX-License-Identifier: BSD-3-Clause
// Position and time of cells as network inputs. All depend on global indices only and are equal for every partition.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/box.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class Constant;
}

/// Extents of the embedding.
struct PositionEmbeddingOptions {
  std::int64_t channels = 1;
  std::int64_t rows = 1;     ///< of the globe; 1: the same for all rows
  std::int64_t columns = 1;  ///< of the globe; 1: the same for all columns
};

/// Adds a learnable number to each channel of each cell; with `columns` 1 a latitude embedding.
///
/// `weight`, [channels, rows, columns], is whole on every rank, and each rank adds its slice. Files and optimizers do
/// not depend on the cuts, and gradients are partial sums (`GradientSync`). Initial values are normal with standard
/// deviation 0.02. Cost: the agreement
class PositionEmbeddingImpl : public CommunicatingModule<PositionEmbeddingImpl, Box> {
 public:
  PositionEmbeddingImpl(PositionEmbeddingOptions options, Domain const& domain);

  /// Collective. @param x [batch, channels, ..., rows, columns] @throws `ShapeMismatch`, `StructureDisagreement`,
  /// `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  PositionEmbeddingOptions options;
  torch::Tensor weight;
};
TORCH_MODULE(PositionEmbedding);

/// Coordinates of the whole field.
struct CoordinateFeaturesOptions {
  std::vector<double> latitudes;   ///< degrees north of all rows of the globe
  std::vector<double> longitudes;  ///< degrees east of all columns
  std::int64_t num_waves = 1;
};

/// Appends four channels per wave k = 1, 2, ...: sin k lat, cos k lat, cos lat sin k lon, cos lat cos k lon.
///
/// All are continuous over the globe: waves along longitude vanish towards the poles, where longitude is undefined. For
/// k = 1 they contain the unit vector of the cell. Cost: the agreement
class CoordinateFeaturesImpl : public CommunicatingModule<CoordinateFeaturesImpl, detail::Constant> {
 public:
  /// Collective. @throws `BadCoordinates` for non-finite numbers, latitudes beyond 90 degrees, or no wave
  CoordinateFeaturesImpl(CoordinateFeaturesOptions options, Domain const& domain);

  /// Collective. @param x [batch, channels, ..., rows, columns] @throws `ShapeMismatch` unless there is one latitude
  /// per row of the globe and one longitude per column; otherwise as `PositionEmbedding`
  torch::Tensor forward(torch::Tensor const& x);

 private:
  CoordinateFeaturesOptions options_;
};
TORCH_MODULE(CoordinateFeatures);

/// Adds a learnable number to each channel of each level of [batch, channels, levels, rows, columns].
///
/// `weight`, [channels, levels], is initialised as for `PositionEmbedding`. Local, because levels are whole.
class LevelEmbeddingImpl : public torch::nn::Cloneable<LevelEmbeddingImpl> {
 public:
  LevelEmbeddingImpl(std::int64_t channels, std::int64_t levels);
  /// @throws `ShapeMismatch`
  torch::Tensor forward(torch::Tensor const& x);
  void reset() override;

  torch::Tensor weight;

 private:
  std::int64_t channels_;
  std::int64_t levels_;
};
TORCH_MODULE(LevelEmbedding);

/// Options of `TimeEmbedding`.
struct TimeEmbeddingOptions {
  std::int64_t channels = 1;
  /// In the unit of the times; {24, 8766} is a day and a year in hours.
  std::vector<double> periods;
  std::int64_t hidden = 32;
};

/// Adds a number to each channel of a sample, computed from its time by a small network: sines and cosines of the phase
/// in each period, a linear layer (`hidden`), SiLU, and a second linear layer (`out`). Local; gradients are partial
/// sums.
class TimeEmbeddingImpl : public torch::nn::Cloneable<TimeEmbeddingImpl> {
 public:
  /// @throws `BadOption` for no period, or one that is not positive
  explicit TimeEmbeddingImpl(TimeEmbeddingOptions options);
  /// @param x [batch, channels, ..., rows, columns] @param times [batch] in f64, the same on all ranks of a domain
  /// @throws `ShapeMismatch`
  torch::Tensor forward(torch::Tensor const& x, torch::Tensor const& times);
  void reset() override;

  TimeEmbeddingOptions options;
  torch::nn::Linear hidden{nullptr};
  torch::nn::Linear out{nullptr};

 private:
  std::shared_ptr<detail::Constant const> periods_;
};
TORCH_MODULE(TimeEmbedding);

}  // namespace graticule::nn
