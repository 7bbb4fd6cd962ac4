// SPDX-License-Identifier: BSD-3-Clause
#include "forecast_task.hpp"

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/samples/detail/random.hpp>
#include <graticule/samples/detail/whole_field.hpp>

#include "smooth_noise.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace graticule::train {
namespace {

using forecasting::SequenceShape;

/// The sequences of a batch as tensors, where they lie.
torch::Tensor states_of(forecasting::SequenceBatch const& batch, SequenceShape const& shape, std::size_t num_channels,
                        Box const& box) {
  return torch::from_blob(
      const_cast<void*>(batch.states),  // only read
      {batch.num_samples, shape.history + shape.steps, std::int64_t(num_channels), box.extent(0), box.extent(1)},
      batch.dtype == DType::f64 ? torch::kFloat64 : torch::kFloat32);
}

torch::Tensor forcings_of(forecasting::SequenceBatch const& batch, SequenceShape const& shape,
                          std::vector<std::string> const& forcings, Box const& box) {
  auto const num_forcings = models::forcing_channels(models::forcings_of(forcings)).size();
  return torch::from_blob(const_cast<void*>(batch.forcings),  // only read
                          {batch.num_samples, shape.steps, std::int64_t(num_forcings), box.extent(0), box.extent(1)},
                          batch.dtype == DType::f64 ? torch::kFloat64 : torch::kFloat32);
}

nn::LossOptions weighted_sum(Cells const& cells, std::vector<double> const& channel_weights) {
  auto const rows = cells.row_weights.subspan(std::size_t(cells.box.lo(0)), std::size_t(cells.box.extent(0)));
  return {.reduction = nn::LossReduction::sum,
          .row_weights = {rows.begin(), rows.end()},
          .channel_weights = channel_weights};
}

/// [channel][cell] in units.
std::vector<double> in_units(torch::Tensor const& normalised, models::Description const& description) {
  torch::Tensor const values = normalised.to(torch::kCPU, torch::kFloat64).contiguous();
  std::vector<double> result(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  std::size_t const cells = result.size() / description.channels.size();
  for (std::size_t c = 0; c < description.channels.size(); ++c)
    for (std::size_t i = 0; i < cells; ++i)
      result[c * cells + i] = result[c * cells + i] * description.values[c].scale + description.values[c].mean;
  return result;
}

/// [cell, 3], in rows.
torch::Tensor places_of_cells(Cells const& cells) {
  torch::Tensor places = torch::zeros({cells.per_sample(), 3}, torch::kFloat64);
  double* out = places.data_ptr<double>();
  for (Index i = cells.box.lo(0); i < cells.box.hi(0); ++i)
    for (Index j = cells.box.lo(1); j < cells.box.hi(1); ++j) {
      auto const place =
          forecasting::SmoothNoise::place(cells.grid.latitudes[std::size_t(i)], cells.grid.longitudes[std::size_t(j)]);
      out = std::copy(place.begin(), place.end(), out);
    }
  return places;
}

}  // namespace

ForecastTask::ForecastTask(ForecastParts const& parts, nn::Domain const& domain, NetworkSettings const& settings,
                           ForecastCalls const& calls)
    : teams_(parts.teams),
      domain_(domain),
      cells_(parts.cells),
      data_(parts.data),
      steps_(parts.steps),
      source_(parts.source),
      settings_(settings),
      calls_(calls),
      stepper_(data_.description, cells_, domain, data_.statics.values, data_.statics.mirrored),
      loss_of_(make_loss(settings, domain, weighted_sum(cells_, data_.channel_weights), cells_.grid.num_columns())),
      areas_(std::size_t(data_.num_states)) {
  std::size_t const channels = data_.description.channels.size();
  for (std::size_t s = 0; s < areas_.size(); ++s)
    for (std::size_t c = 0; c < channels; ++c)
      areas_[s] += data_.channel_weights[c] * data_.statistics.areas[s * channels + c];
  if (data_.ensemble > 1) places_ = places_of_cells(cells_);
  rollout_ = data_.rollout_of(0);
  stepper_.to(device_of(settings));
}

std::shared_ptr<Model> ForecastTask::make_network() const { return make_model(stepper_.model_options(), domain_); }

std::string ForecastTask::settings_text() const {
  std::ostringstream text;
  text << "forecast " << models::to_text(data_.description) << "\nrollouts";
  for (auto const& [epoch, steps] : data_.rollouts) text << " " << steps << "@" << epoch;
  if (data_.ensemble > 1) text << "\nmembers " << data_.ensemble;
  if (data_.input_noise > 0) text << "\ninput noise " << data_.input_noise;
  text << "\nchannel weights";
  for (double const weight : data_.channel_weights) text << " " << weight;
  text << "\ntraining samples " << data_.training.size() << "\nvalidation samples " << data_.validation.size()
       << "\nvalidation leads " << data_.num_leads << "\n";
  // Periods of equal length have equal numbers of samples.
  Hash times;
  for (auto const* samples : {&data_.training, &data_.validation})
    for (Index const sample : *samples) {
      auto const position = steps_.at(sample % data_.num_states / data_.num_members, 1);
      times.add(position ? steps_.times()[std::size_t(*position)] : Seconds(-1));
    }
  text << "times of samples " << times.value() << "\n";
  return text.str();
}

/// 0 where the target lies outside of the training part.
double ForecastTask::area_of_target(Index sample, Index step) const {
  Index const state = sample % data_.num_states;
  auto const position = steps_.at(state / data_.num_members, step);
  if (!position || !data_.training_targets.contains(steps_.times()[std::size_t(*position)])) return 0;
  return areas_[std::size_t(*position * data_.num_members + state % data_.num_members)];
}

double ForecastTask::weight_of(Index sample) const {
  double sum = 0;
  for (Index step = 1; step <= rollout_; ++step) sum += area_of_target(sample, step);
  return sum;
}

void ForecastTask::begin_epoch(Index epoch) {
  Index const steps = data_.rollout_of(epoch);
  if (steps != rollout_)
    calls_.on_note("epoch " + std::to_string(epoch + 1) + ": rollouts of " + std::to_string(steps) +
                   (steps == 1 ? " step" : " steps"));
  rollout_ = steps;
  epoch_ = epoch;
}

/// Until the last target of any sample; the same on all teams, which may gather parameters together.
Index ForecastTask::num_steps_of(std::span<Index const> samples) const {
  Index steps = 1;
  for (Index const sample : samples)
    for (Index step = 2; step <= rollout_; ++step)
      if (area_of_target(sample, step) > 0) steps = std::max(steps, step);
  return steps;
}

std::vector<bool> ForecastTask::images_of(std::span<Index const> samples) const {
  std::vector<bool> images;
  for (Index const sample : samples) images.push_back(sample >= data_.num_states);
  return images;
}

torch::Tensor ForecastTask::noise_of(std::span<Index const> samples, std::string const& stream) const {
  auto const& description = data_.description;
  std::vector<torch::Tensor> fields;
  for (Index const sample : samples)
    for (Index member = 0; member < data_.ensemble; ++member)
      for (std::size_t c = 0; c < description.num_prognostic(); ++c) {
        forecasting::SmoothNoise const noise(settings_.seed, stream + " sample " + std::to_string(sample) + " member " +
                                                                 std::to_string(member) + " " +
                                                                 description.channels[c].label);
        std::vector<double> vectors;
        std::vector<double> phases;
        for (auto const& wave : noise.waves()) {
          vectors.insert(vectors.end(), wave.vector.begin(), wave.vector.end());
          phases.push_back(wave.phase);
        }
        torch::Tensor const turns =
            torch::matmul(places_, torch::tensor(vectors, torch::kFloat64).reshape({-1, 3}).t());
        double const amplitude =
            noise.factor() * description.perturbation * description.tendencies[c].scale / description.values[c].scale;
        fields.push_back((turns + torch::tensor(phases, torch::kFloat64)).cos().sum(1) * amplitude);
      }
  auto const channels = std::int64_t(description.num_prognostic());
  if (fields.empty()) return torch::zeros({0, channels, cells_.box.extent(0), cells_.box.extent(1)}, stepper_.dtype());
  return torch::stack(fields)
      .reshape({std::int64_t(samples.size()) * data_.ensemble, channels, cells_.box.extent(0), cells_.box.extent(1)})
      .to(stepper_.dtype());
}

torch::Tensor ForecastTask::input_noise_of(std::span<Index const> samples) const {
  auto const& description = data_.description;
  std::size_t const channels = description.num_prognostic();
  Index const num_fields = description.history * Index(channels);
  Box const& box = cells_.box;
  torch::Tensor noise =
      torch::zeros({std::int64_t(samples.size()), num_fields, box.extent(0), box.extent(1)}, torch::kFloat64);
  double* out = noise.data_ptr<double>();
  for (Index const sample : samples)
    for (Index field = 0; field < num_fields; ++field) {
      std::size_t const c = std::size_t(field) % channels;
      double const amplitude = data_.input_noise * description.tendencies[c].scale / description.values[c].scale;
      std::string const stream = "input noise epoch " + std::to_string(epoch_) + " sample " + std::to_string(sample) +
                                 " field " + std::to_string(field) + " row ";
      for (Index i = box.lo(0); i < box.hi(0); ++i) {
        // Of a whole row, of which this rank takes its columns.
        samples::Random random(settings_.seed, stream + std::to_string(i));
        for (Index j = 0; j < box.hi(1); ++j) {
          double const value = amplitude * random.normal();
          if (j >= box.lo(1)) *out++ = value;
        }
      }
    }
  return noise.to(stepper_.dtype());
}

ForecastTask::Ensemble ForecastTask::ensemble_of(torch::Tensor const& states, torch::Tensor const& forcings,
                                                 std::span<Index const> samples, std::string const& stream) const {
  auto const state = stepper_.initial(states);
  auto const mask = stepper_.mask(states);
  auto const images = images_of(samples);
  Index const m = data_.ensemble;
  if (m == 1) return {state, forcings, mask, images};
  Ensemble result{state.repeat_interleave(m, 0), forcings.repeat_interleave(m, 0), mask.repeat_interleave(m, 0), {}};
  for (bool const image : images) result.images.insert(result.images.end(), std::size_t(m), image);
  // The same noise in all states of the history, none where a value is missing.
  auto const noise = noise_of(samples, stream).to(result.mask.device()) * result.mask;
  std::int64_t const prognostic = noise.size(1);
  for (Index t = 0; t < data_.description.history; ++t)
    result.state.slice(1, t * prognostic, (t + 1) * prognostic).add_(noise);
  return result;
}

torch::Tensor ForecastTask::share_of_loss(Forward const& forward, Share const& share, std::span<Index const> upcoming) {
  auto const& description = data_.description;
  SequenceShape const shape{description.history, rollout_, data_.training_targets};
  auto const batch = source_.take(share.samples, shape, upcoming);
  auto const device = device_of(settings_);
  auto const states = states_of(batch, shape, description.channels.size(), cells_.box).to(device);
  auto const forcings = forcings_of(batch, shape, description.forcings, cells_.box).to(device);
  auto const start = ensemble_of(states, forcings, share.samples, "training epoch " + std::to_string(epoch_));
  if (data_.input_noise > 0) {
    auto const noise = input_noise_of(share.samples).to(device).repeat_interleave(data_.ensemble, 0);
    start.state.slice(1, 0, noise.size(1)).add_(noise * start.mask.repeat({1, description.history, 1, 1}));
  }
  std::vector<bool> has_target;
  for (Index step = 1; step <= rollout_; ++step)
    has_target.push_back(std::any_of(share.samples.begin(), share.samples.end(),
                                     [&](Index sample) { return area_of_target(sample, step) > 0; }));
  // With checkpoints the backward calls both again, when this function has returned: they own what they use.
  torch::Tensor const sum = nn::rollout(
      domain_, start.state, {.num_steps = num_steps_of(share.batch), .checkpoint_steps = data_.checkpoint_steps},
      [this, forward, start](torch::Tensor const& state, std::int64_t k) {
        return stepper_.next(forward, state, start.forcings.select(1, k), start.mask, start.images);
      },
      [this, states, has_target, history = description.history](torch::Tensor const& state, std::int64_t k) {
        if (!has_target[std::size_t(k)]) return torch::zeros({}, state.options().dtype(torch::kFloat64));
        auto const target = states.select(1, history + k);
        auto present = stepper_.present(state) * stepper_.error_factors();
        if (data_.ensemble > 1) present = present.unflatten(0, {target.size(0), data_.ensemble});
        return loss_of_(present, target * stepper_.error_factors());
      });
  return sum * ((share.weight > 0 ? 1 : 0) / share.batch_weight);
}

std::optional<double> ForecastTask::validate(Forward const& forward, Index epoch, Index step) {
  auto const table =
      score(forward, data_.validation, data_.validation_targets, {forecasting::standard_regions().front()}, false);
  calls_.on_validation(epoch, step, table);
  return loss_of(table);
}

/// The errors that the training minimises; Huber's and those of amplitudes count as squared ones.
double ForecastTask::loss_of(forecasting::Score const& score, std::size_t channel) const {
  double const factor = data_.description.error_factors()[channel] / data_.description.values[channel].scale;
  if (settings_.loss == LossKind::crps) return score.crps * factor;
  if (settings_.loss == LossKind::mae) return score.mae * factor;
  return std::pow(score.rmse * factor, 2);
}

/// In the units of the training's loss, over the leads of the longest rollout.
double ForecastTask::loss_of(forecasting::ScoreTable const& table) const {
  auto const& description = data_.description;
  double sum = 0;
  double weights = 0;
  for (Index lead = 0; lead < std::min(data_.longest_rollout(), data_.num_leads); ++lead)
    for (std::size_t c = 0; c < description.channels.size(); ++c) {
      double const loss = loss_of(table.score(Index(c), lead, 0), c);
      if (std::isnan(loss)) continue;
      sum += data_.channel_weights[c] * loss;
      weights += data_.channel_weights[c];
    }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

forecasting::ScoreTable ForecastTask::score(Forward const& forward, std::vector<Index> const& cases,
                                            models::Period const& targets, std::vector<forecasting::Region> regions,
                                            bool tells_fields) {
  forecasting::ScoreTable table(teams_.domain(), cells_.layout, cells_.grid.latitudes, cells_.row_weights,
                                {.num_cases = Index(cases.size()),
                                 .num_channels = Index(data_.description.channels.size()),
                                 .num_leads = data_.num_leads,
                                 .regions = std::move(regions)});
  SequenceShape const shape{data_.description.history, data_.num_leads, targets};
  auto const part_of = [&](Index first) {
    Index const last = std::min(first + settings_.batch, Index(cases.size()));
    auto const [begin, end] = teams_.my_part_of(std::max<Index>(last - first, 0));
    return std::span(cases).subspan(std::size_t(std::min(first + begin, Index(cases.size()))),
                                    std::size_t(end - begin));
  };
  for (Index first = 0; first < Index(cases.size()); first += settings_.batch) {
    auto const mine = part_of(first);
    auto const batch = source_.take(mine, shape, part_of(first + settings_.batch));
    if (!mine.empty()) score_batch(forward, mine, mine.data() - cases.data(), shape, batch, table, tells_fields);
  }
  table.join(teams_.data());
  return table;
}

void ForecastTask::score_batch(Forward const& forward, std::span<Index const> mine, Index first_case,
                               SequenceShape const& shape, forecasting::SequenceBatch const& batch,
                               forecasting::ScoreTable& table, bool tells_fields) {
  auto const& description = data_.description;
  std::size_t const channels = description.channels.size();
  auto const states = states_of(batch, shape, channels, cells_.box);
  auto const device = device_of(settings_);
  auto const forcings = forcings_of(batch, shape, description.forcings, cells_.box).to(device);
  auto const start = ensemble_of(states.to(device), forcings, mine, "validation");
  auto state = start.state;
  for (Index lead = 0; lead < shape.steps; ++lead) {
    state = stepper_.next(forward, state, start.forcings.select(1, lead), start.mask, start.images);
    auto const present = stepper_.present(state).unflatten(0, {std::int64_t(mine.size()), data_.ensemble});
    for (std::size_t place = 0; place < mine.size(); ++place) {
      auto const truth = in_units(states[std::int64_t(place)][shape.history + lead], description);
      auto const initial = in_units(states[std::int64_t(place)][0], description);
      auto const forecast =
          score_members(present[std::int64_t(place)], truth, initial, first_case + Index(place), lead, table);
      if (tells_fields) calls_.on_fields({first_case + Index(place), lead, forecast, truth});
    }
  }
}

std::vector<double> ForecastTask::score_members(torch::Tensor const& members, std::span<double const> truth,
                                                std::span<double const> initial, Index case_number, Index lead,
                                                forecasting::ScoreTable& table) const {
  auto const& description = data_.description;
  auto const cells = std::size_t(cells_.per_sample());
  auto const num_members = std::size_t(data_.ensemble);
  std::vector<std::vector<double>> fields;
  for (std::size_t m = 0; m < num_members; ++m) fields.push_back(in_units(members[std::int64_t(m)], description));
  std::vector<double> mean(truth.size());
  std::vector<double> crps(truth.size());
  std::vector<double> variance(truth.size());
  std::vector<forecasting::ScoredField> scored;
  for (std::size_t c = 0; c < description.channels.size(); ++c) {
    auto const part = [&](auto& values) { return std::span(values).subspan(c * cells, cells); };
    std::vector<double> all;
    for (auto const& field : fields) all.insert(all.end(), part(field).begin(), part(field).end());
    forecasting::ensemble_statistics(all, num_members, part(truth), part(crps), part(mean), part(variance));
    bool const has_initial = description.channels[c].role == models::Role::prognostic;
    scored.push_back({part(mean), part(truth), has_initial ? part(initial) : std::span<double const>(),
                      part(data_.statistics.climatology), part(crps), part(variance)});
  }
  table.add(case_number, lead, scored);
  return mean;
}

void ForecastTask::describe(CheckpointWriter& writer) const {
  // Each cell is written by the first team.
  auto const layout = layout_of_boxes(teams_.world(), cells_.layout.global().extents(),
                                      teams_.team() == 0 ? cells_.box : Box({0, 0}, {0, 0}));
  Box const box = layout.owned(teams_.world().rank());
  models::save_description(writer, data_.description, layout, box, data_.statistics.climatology, data_.statics.values);
}

void ForecastTask::predict(Forward const& forward) {
  bool const has_test = !data_.test.empty();
  auto const& cases = has_test ? data_.test : data_.validation;
  if (cases.empty()) return;
  calls_.on_scores(score(forward, cases, has_test ? data_.test_targets : data_.validation_targets,
                         forecasting::standard_regions(), true));
}

TrainedNetwork train_forecast(ForecastParts const& parts, ProcessGrid const& grid, Boundary const& boundary,
                              NetworkSettings const& settings, ForecastCalls const& calls,
                              TrainingControl const& control) {
  nn::Domain const domain(parts.teams.domain(), grid, boundary);
  ForecastTask task(parts, domain, settings, calls);
  return train_on_task(parts.teams, task, settings, control);
}

}  // namespace graticule::train
