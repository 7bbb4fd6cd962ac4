// SPDX-License-Identifier: BSD-3-Clause
#include "regression_task.hpp"

#include "settings_text.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <numeric>

namespace graticule::train {
namespace {

ModelOptions model_options(TrainingData const& data, NetworkSettings const& settings) {
  ModelOptions options;
  options.kind = settings.model;
  options.num_inputs = std::int64_t(data.inputs.size());
  options.num_statics = std::int64_t(data.statics.size());
  options.num_outputs = std::int64_t(data.targets.size());
  options.channels = settings.channels;
  options.blocks = settings.blocks;
  options.kernel = settings.kernel;
  options.latitudes = data.latitudes;
  options.num_columns = data.num_global_columns;
  options.program = settings.program;
  for (auto const& input : data.inputs) options.input_names.push_back(input.name);
  for (auto const& field : data.statics) options.static_names.push_back(field.name);
  for (auto const& target : data.targets) options.output_names.push_back(target.name);
  for (std::size_t c = 0; c < data.inputs.size(); ++c)
    if (data.inputs[c].parity == Parity::odd) options.odd_channels.push_back(std::int64_t(c));
  return options;
}

}  // namespace

RegressionTask::RegressionTask(DataTeams const& teams, nn::Domain const& domain, TrainingData const& data,
                               BatchSource& source, NetworkSettings const& settings, OnPrediction on_prediction)
    : teams_(teams),
      domain_(domain),
      data_(data),
      source_(source),
      settings_(settings),
      on_prediction_(std::move(on_prediction)),
      statics_(static_tensor(data, dtype_of(settings.precision)).to(device_of(settings))),
      loss_of_(make_loss(settings, domain, {.row_weights = data.row_weights}, data.num_global_columns)) {}

std::shared_ptr<Model> RegressionTask::make_network() const {
  return make_model(model_options(data_, settings_), domain_);
}

std::string RegressionTask::settings_text() const { return data_text(data_); }

/// A mirror image counts as its sample.
double RegressionTask::weight_of(Index sample) const {
  return data_.sample_weights[std::size_t(sample % data_.num_predicted)];
}

torch::Tensor RegressionTask::share_of_loss(Forward const& forward, Share const& share,
                                            std::span<Index const> upcoming) {
  Batch const batch = source_.take(share.samples, upcoming);
  torch::Tensor const targets = tensor_of(batch.targets, data_.targets.size(), batch, data_).to(device_of(settings_));
  torch::Tensor const loss = loss_of_(output_of(forward, batch).to(targets.dtype()), targets);
  return share.weight == share.batch_weight ? loss : loss * (share.weight / share.batch_weight);
}

torch::Tensor RegressionTask::output_of(Forward const& forward, Batch const& batch) const {
  return forward(tensor_of(batch.inputs, data_.inputs.size(), batch, data_).to(device_of(settings_)), statics_);
}

/// Each team processes its share of the samples in portions. All teams run the same number of forwards, which may be
/// collective over them.
void RegressionTask::predict(Forward const& forward) {
  Index const at_once = most_samples_at_once(settings_, teams_);
  auto const part = teams_.my_part_of(data_.num_predicted);
  // A team that has no more samples takes the last one.
  auto const samples_of = [&](Index round) {
    Index const first = std::min(part.first + round, data_.num_predicted - 1);
    std::vector<Index> samples(std::size_t(std::clamp<Index>(part.last - first, 1, at_once)));
    std::iota(samples.begin(), samples.end(), first);
    return samples;
  };
  Index const most = (data_.num_predicted + teams_.num_teams() - 1) / teams_.num_teams();
  for (Index round = 0; round < most; round += at_once) {
    bool const is_last = round + at_once >= most;
    auto const samples = samples_of(round);
    Batch const batch =
        source_.take(samples, is_last ? std::vector<Index>() : samples_of(round + at_once), Truth::with);
    torch::Tensor const output = output_of(forward, batch).to(torch::kCPU, torch::kFloat64).contiguous();
    std::span<double const> const values(output.const_data_ptr<double>(), std::size_t(output.numel()));
    bool const is_mine = part.first + round < part.last;
    on_prediction_(is_mine ? PredictedSamples{samples, values, batch.truth} : PredictedSamples{});
  }
}

}  // namespace graticule::train
