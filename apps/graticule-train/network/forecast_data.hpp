// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/description.hpp>

#include "static_fields.hpp"
#include "statistics.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace graticule::train {

/// The samples of a forecast training, and what is known of them.
struct ForecastData {
  models::Description description;
  forecasting::StaticFields statics;
  forecasting::StateStatistics statistics;
  Index num_members = 1;
  Index num_states = 0;
  std::vector<Index> training;    ///< initial states, and mirror images
  std::vector<Index> validation;  ///< initial states
  std::vector<Index> test;
  models::Period training_targets;
  models::Period validation_targets;
  models::Period test_targets;
  /// Steps of a rollout from an epoch on, in order of epochs; the first from 0.
  std::vector<std::pair<Index, Index>> rollouts{{0, 1}};
  Index checkpoint_steps = 0;  ///< of a rollout, whose activations are computed again together
  Index num_leads = 1;         ///< of validation and test
  std::vector<double> channel_weights;
  double input_noise = 0;  ///< of the states that train, by the scale of tendencies
  Index ensemble = 1;      ///< forecasts from perturbed states that a sample is trained with; 1: one, not perturbed

  [[nodiscard]] Index rollout_of(Index epoch) const {
    Index steps = 1;
    for (auto const& [from, number] : rollouts)
      if (epoch >= from) steps = number;
    return steps;
  }
  [[nodiscard]] Index longest_rollout() const {
    Index longest = 1;
    for (auto const& [from, number] : rollouts) longest = std::max(longest, number);
    return longest;
  }
  /// Largest number of leads of any sample.
  [[nodiscard]] Index most_steps() const { return std::max(longest_rollout(), num_leads); }
};

}  // namespace graticule::train
