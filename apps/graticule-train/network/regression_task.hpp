// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "task.hpp"

#include <functional>

namespace graticule::train {

/// Fields from other fields of the same time.
class RegressionTask : public Task {
 public:
  using OnPrediction = std::function<void(PredictedSamples const&)>;

  /// Collective. All references must outlive this.
  RegressionTask(DataTeams const& teams, nn::Domain const& domain, TrainingData const& data, BatchSource& source,
                 NetworkSettings const& settings, OnPrediction on_prediction);

  [[nodiscard]] std::shared_ptr<Model> make_network() const override;
  [[nodiscard]] std::string settings_text() const override;
  [[nodiscard]] std::vector<Index> const& training() const override { return data_.training; }
  [[nodiscard]] std::vector<Index> const& validation() const override { return data_.validation; }
  [[nodiscard]] double weight_of(Index sample) const override;
  [[nodiscard]] torch::Tensor share_of_loss(Forward const& forward, Share const& share,
                                            std::span<Index const> upcoming) override;
  void predict(Forward const& forward) override;

 private:
  [[nodiscard]] torch::Tensor output_of(Forward const& forward, Batch const& batch) const;

  DataTeams const& teams_;
  nn::Domain domain_;
  TrainingData const& data_;
  BatchSource& source_;
  NetworkSettings const& settings_;
  OnPrediction on_prediction_;
  torch::Tensor statics_;
  Loss loss_of_;
};

}  // namespace graticule::train
