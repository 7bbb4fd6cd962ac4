// SPDX-License-Identifier: BSD-3-Clause
#include "network.hpp"

#include <graticule/nn_bridge/gradient_sync.hpp>
#include <graticule/nn_bridge/loss.hpp>
#include <graticule/nn_bridge/traffic.hpp>

#include "model.hpp"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graticule::train {
namespace {

/// Gradients of a loss of order one are far larger; those that cancel, as a sample's and its mirror image's may, are f32
/// rounding far smaller, which the usual 1e-8 would turn into full steps that differ with the number of ranks.
constexpr double adam_epsilon = 1e-5;

torch::Dtype dtype_of(Precision precision) { return precision == Precision::f64 ? torch::kFloat64 : torch::kFloat32; }

/// [samples, channels, rows, columns] of the channels' values.
torch::Tensor stacked(std::vector<Channel> const& channels, TrainingData const& data, torch::Dtype dtype) {
  std::vector<torch::Tensor> parts;
  for (Channel const& channel : channels) {
    auto* const values = const_cast<double*>(channel.values.data());  // only read, and copied below
    parts.push_back(
        torch::from_blob(values, {data.num_samples, data.num_rows, data.num_columns}, torch::kFloat64).to(dtype));
  }
  return torch::stack(parts, 1);
}

/// [rows, statics]: the first column of each static channel; on a rank without columns there is nothing to scale.
torch::Tensor static_tensor(TrainingData const& data, torch::Dtype dtype) {
  auto const count = std::int64_t(data.statics.size());
  torch::Tensor rows = torch::zeros({data.num_rows, count}, torch::kFloat64);
  if (data.num_columns == 0) return rows.to(dtype);
  auto access = rows.accessor<double, 2>();
  for (std::int64_t c = 0; c < count; ++c)
    for (Index i = 0; i < data.num_rows; ++i)
      access[i][c] = data.statics[std::size_t(c)].values[std::size_t(i * data.num_columns)];
  return rows.to(dtype);
}

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
  for (std::size_t c = 0; c < data.inputs.size(); ++c)
    if (data.inputs[c].parity == Parity::odd) options.odd_channels.push_back(std::int64_t(c));
  return options;
}

/// Predictions as doubles: [target][sample][row][column].
std::vector<std::vector<double>> predictions(Model& net, torch::Tensor const& inputs, torch::Tensor const& statics,
                                             Index batch, TrainingData const& data) {
  torch::NoGradGuard const no_grad;
  std::vector<std::vector<double>> result(data.targets.size());
  for (std::int64_t first = 0; first < data.num_predicted; first += batch) {
    torch::Tensor const output =
        net.forward(inputs.narrow(0, first, std::min<std::int64_t>(batch, data.num_predicted - first)), statics)
            .to(torch::kFloat64);
    for (std::size_t t = 0; t < result.size(); ++t) {
      torch::Tensor const values = output.select(1, std::int64_t(t)).contiguous();
      result[t].insert(result[t].end(), values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
    }
  }
  return result;
}

}  // namespace

Index num_steps(NetworkSettings const& settings, Index num_training) {
  return settings.epochs * ((num_training + settings.batch - 1) / settings.batch);
}

double learning_rate_factor(Index step, Index num_steps) {
  double const rise = (double(step) + 1) / (0.05 * double(num_steps) + 1);
  return std::min(1.0, rise) * (1 + std::cos(std::numbers::pi * double(step) / double(num_steps))) / 2;
}

TrainedNetwork train_network(Comm const& comm, ProcessGrid const& grid, Boundary const& boundary,
                             TrainingData const& data, NetworkSettings const& settings,
                             std::function<void(Index, double)> const& on_step) {
  torch::Dtype const dtype = dtype_of(settings.precision);
  torch::Tensor const inputs = stacked(data.inputs, data, dtype);
  torch::Tensor const targets = stacked(data.targets, data, dtype);
  torch::Tensor const statics = static_tensor(data, dtype);

  nn::Domain const domain(comm, grid, boundary);
  auto const net = make_model(model_options(data, settings), domain);
  net->to(dtype);
  initialise_parameters(*net, settings.seed);
  nn::GradientSync const sync(*net, {{comm, nn::Reduction::sum}});
  sync.broadcast();
  nn::AreaWeightedLoss loss_of(nn::LossKind::squared, data.row_weights, domain);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(settings.learning_rate).eps(adam_epsilon));

  TrainedNetwork trained;
  auto const num_training = Index(data.training.size());
  Index const steps = num_steps(settings, num_training);
  auto const before = nn::traffic();
  for (Index epoch = 0; epoch < settings.epochs; ++epoch) {
    std::vector<Index> const order = shuffled(data.training, settings.seed, epoch);
    for (Index first = 0; first < num_training; first += settings.batch) {
      auto const step = Index(trained.losses.size());
      auto const last = std::min(first + settings.batch, num_training);
      torch::Tensor const samples =
          torch::tensor(std::vector<std::int64_t>(order.begin() + first, order.begin() + last));
      auto& group = static_cast<torch::optim::AdamOptions&>(optimizer.param_groups().front().options());
      group.lr(settings.learning_rate * learning_rate_factor(step, steps));
      optimizer.zero_grad();
      torch::Tensor const loss =
          loss_of(net->forward(inputs.index_select(0, samples), statics), targets.index_select(0, samples));
      loss.backward();
      sync.reduce();
      optimizer.step();
      trained.losses.push_back(loss.item<double>());
      if (!std::isfinite(trained.losses.back()))
        throw Error("TrainingDiverged", "the loss of step " + std::to_string(step + 1) + " is not finite; lower --lr");
      on_step(step, trained.losses.back());
    }
  }

  auto const sent = nn::traffic() - before;
  trained.messages_per_step = double(sent.num_messages) / double(steps);
  trained.bytes_per_step = double(sent.bytes) / double(steps);
  trained.predictions = predictions(*net, inputs, statics, settings.batch, data);
  for (auto const& item : net->named_parameters()) {
    torch::Tensor const values = item.value().detach().to(torch::kFloat64).contiguous();
    trained.parameters.emplace_back(
        item.key(), std::vector<double>(values.data_ptr<double>(), values.data_ptr<double>() + values.numel()));
    trained.num_parameters += values.numel();
  }
  return trained;
}

std::string torch_version() { return TORCH_VERSION; }

void use_torch_threads(int num_threads) {
  at::set_num_threads(num_threads);
  // May be set once in a process, and one thread is enough: this program runs one operation at a time.
  static bool const once = (at::set_num_interop_threads(1), true);
  static_cast<void>(once);
}

}  // namespace graticule::train
