// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/stepper.hpp>

#include "forecast_training.hpp"
#include "task.hpp"

#include <vector>

namespace graticule::train {

/// States from states of the times before.
class ForecastTask : public Task {
 public:
  /// Collective. All references must outlive this.
  ForecastTask(ForecastParts const& parts, nn::Domain const& domain, NetworkSettings const& settings,
               ForecastCalls const& calls);

  [[nodiscard]] std::shared_ptr<Model> make_network() const override;
  [[nodiscard]] std::string settings_text() const override;
  [[nodiscard]] std::vector<Index> const& training() const override { return data_.training; }
  [[nodiscard]] std::vector<Index> const& validation() const override { return data_.validation; }
  [[nodiscard]] double weight_of(Index sample) const override;
  void begin_epoch(Index epoch) override;
  [[nodiscard]] torch::Tensor share_of_loss(Forward const& forward, Share const& share,
                                            std::span<Index const> upcoming) override;
  [[nodiscard]] bool nests_backwards() const override { return data_.checkpoint_steps > 0; }
  [[nodiscard]] std::optional<double> validate(Forward const& forward, Index epoch, Index step) override;
  void describe(CheckpointWriter& writer) const override;
  [[nodiscard]] bool is_runnable() const override { return true; }
  void predict(Forward const& forward) override;

 private:
  [[nodiscard]] double area_of_target(Index sample, Index step) const;
  [[nodiscard]] Index num_steps_of(std::span<Index const> samples) const;
  [[nodiscard]] std::vector<bool> images_of(std::span<Index const> samples) const;
  /// What the network starts from: each sample once, or as so many members in a row, whose states are perturbed.
  struct Ensemble {
    torch::Tensor state;
    torch::Tensor forcings;
    torch::Tensor mask;
    std::vector<bool> images;
  };
  /// @param stream of the perturbations, besides the numbers of sample and member
  [[nodiscard]] Ensemble ensemble_of(torch::Tensor const& states, torch::Tensor const& forcings,
                                     std::span<Index const> samples, std::string const& stream) const;
  /// [sample and member][prognostic channel][row][column], normalised.
  [[nodiscard]] torch::Tensor noise_of(std::span<Index const> samples, std::string const& stream) const;
  [[nodiscard]] forecasting::ScoreTable score(Forward const& forward, std::vector<Index> const& cases,
                                              models::Period const& targets, std::vector<forecasting::Region> regions,
                                              bool tells_fields);
  void score_batch(Forward const& forward, std::span<Index const> mine, Index first_case,
                   forecasting::SequenceShape const& shape, forecasting::SequenceBatch const& batch,
                   forecasting::ScoreTable& table, bool tells_fields);
  /// Independent in each cell: [sample][prognostic channels of each time of the history][row][column], normalised.
  [[nodiscard]] torch::Tensor input_noise_of(std::span<Index const> samples) const;
  /// Scores the members of a sample at a lead. @param members [member][channel][row][column], normalised
  /// @return the mean of the members, in units
  std::vector<double> score_members(torch::Tensor const& members, std::span<double const> truth,
                                    std::span<double const> initial, Index case_number, Index lead,
                                    forecasting::ScoreTable& table) const;
  [[nodiscard]] double loss_of(forecasting::ScoreTable const& table) const;
  /// Of a channel at a lead, in the units of the loss; NaN without a truth.
  [[nodiscard]] double loss_of(forecasting::Score const& score, std::size_t channel) const;

  DataTeams const& teams_;
  nn::Domain domain_;
  Cells const& cells_;
  ForecastData const& data_;
  samples::TimeSteps const& steps_;
  forecasting::SequenceSource& source_;
  NetworkSettings const& settings_;
  ForecastCalls const& calls_;
  models::Stepper stepper_;
  Loss loss_of_;
  std::vector<double> areas_;  ///< of each state, weighted by channel
  torch::Tensor places_;       ///< [cell, 3] on the unit sphere
  Index rollout_ = 0;
  Index epoch_ = 0;
};

}  // namespace graticule::train
