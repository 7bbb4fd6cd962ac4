// SPDX-License-Identifier: BSD-3-Clause
#include "trained_network.hpp"

#include <graticule/training/schedule/learning_rate.hpp>

#include "regression_task.hpp"

#include <torch/torch.h>

#include <algorithm>

namespace graticule::train {
namespace {

training::Schedule schedule_of(NetworkSettings const& settings, Index num_steps) {
  training::Schedule schedule;
  schedule.kind = training::Schedule::kinds().at(settings.schedule);
  schedule.num_steps = num_steps;
  schedule.warmup_steps = settings.warmup_steps < 0 ? 0.05 * double(num_steps) : double(settings.warmup_steps);
  schedule.period = std::max<Index>(1, num_steps / 3);
  return schedule;
}

}  // namespace

Index num_steps(NetworkSettings const& settings, Index num_training) {
  return settings.epochs * ((num_training + settings.batch - 1) / settings.batch);
}

Index most_samples_at_once(NetworkSettings const& settings, DataTeams const& teams) {
  return (settings.batch + teams.num_teams() - 1) / teams.num_teams();
}

double learning_rate(NetworkSettings const& settings, Index step, Index num_steps) {
  return settings.learning_rate * schedule_of(settings, num_steps).factor(step);
}

TrainedNetwork train_network(DataTeams const& teams, ProcessGrid const& grid, Boundary const& boundary,
                             TrainingData const& data, BatchSource& source, NetworkSettings const& settings,
                             TrainingControl const& control) {
  nn::Domain const domain(teams.domain(), grid, boundary);
  RegressionTask task(teams, domain, data, source, settings, control.on_prediction);
  return train_on_task(teams, task, settings, control);
}

}  // namespace graticule::train
