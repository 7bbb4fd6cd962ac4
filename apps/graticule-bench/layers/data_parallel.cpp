// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::bench {

namespace {

/// Steps of one repetition: a late step ends in the forward of the next one.
constexpr int num_steps = 4;
constexpr Index num_classes = 10;

void add_convolutions(torch::nn::Sequential& model, Index num_inputs, Index num_outputs) {
  for (auto const num : {num_inputs, num_outputs}) {
    model->push_back(nn::Unit<torch::nn::Conv2d>(torch::nn::Conv2dOptions(num, num_outputs, 3).padding(1)));
    model->push_back(torch::nn::ReLU());
  }
}

/// Three pairs of 3x3 convolutions with ReLU, of `channels`, 2 and 4 times as many, with 2x2 maxima taken between them;
/// then the mean over all cells and a linear layer.
torch::nn::Sequential make_model(Index channels, torch::Device device) {
  torch::nn::Sequential model;
  add_convolutions(model, 3, channels);
  model->push_back(torch::nn::MaxPool2d(2));
  add_convolutions(model, channels, 2 * channels);
  model->push_back(torch::nn::MaxPool2d(2));
  add_convolutions(model, 2 * channels, 4 * channels);
  model->push_back(torch::nn::AdaptiveAvgPool2d(1));
  model->push_back(torch::nn::Flatten());
  model->push_back(nn::Unit<torch::nn::Linear>(4 * channels, num_classes));
  model->to(device);
  return model;
}

using CutParameters = training::ShardedParameters;

/// A replica with its optimizer. It trains by itself unless it is given options, or cuts parameters, gradients and the
/// optimizer's state among the ranks.
struct Trainer {
  Trainer(Comm const& comm, Options const& options, std::optional<training::DataParallelOptions> const& how, bool cuts)
      : device(options.network_device),
        model(make_model(options.num_channels, device)),
        shards(cuts ? std::make_unique<CutParameters>(model.ptr(), nn::TeamRule{comm, nn::Reduction::mean}) : nullptr),
        optimizer(cuts ? shards->parameters() : model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)),
        images(torch::randn({options.batch, 3, options.num_rows, options.num_columns}).to(device)),
        labels(torch::randint(num_classes, {options.batch}, torch::kLong).to(device)) {
    if (how) parallel.emplace(*model, optimizer, std::vector<nn::TeamRule>{{comm, nn::Reduction::mean}}, *how);
  }

  void operator()() {
    auto const forward = [&] { return model->forward(images); };
    for (int step = 0; step < num_steps; ++step) {
      optimizer.zero_grad();
      torch::cross_entropy_loss(shards ? shards->forward(forward) : forward(), labels).backward();
      if (parallel)
        parallel->step();
      else
        optimizer.step();
    }
    if (parallel) parallel->finalize();
    wait_for(device);
  }

  torch::Device device;
  torch::nn::Sequential model;
  std::unique_ptr<CutParameters> shards;
  torch::optim::SGD optimizer;
  torch::Tensor images;
  torch::Tensor labels;
  std::optional<training::DataParallel> parallel;
};

}  // namespace

void run_data_parallel(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  torch::set_num_threads(context.num_threads);
  torch::manual_seed(1 + std::uint64_t(comm.rank()));
  std::vector<std::shared_ptr<Trainer>> trainers;
  std::vector<Candidate> candidates;
  auto const add = [&](std::string const& name, std::optional<training::DataParallelOptions> const& how,
                       bool cuts = false) {
    auto const trainer = std::make_shared<Trainer>(comm, options, how, cuts);
    if (!cuts) trainers.push_back(trainer);
    candidates.push_back({name, [trainer] { (*trainer)(); }});
  };
  add("each rank alone, no communication", {});
  add("DataParallel", training::DataParallelOptions{});
  add("DataParallel, late", training::DataParallelOptions{.wait = training::GradientWait::late});
  add("DataParallel, MPI's all-reduce", training::DataParallelOptions{.order = training::SumOrder::any});
  add("DataParallel, bf16 on the wire", training::DataParallelOptions{.wire = training::Wire::bf16});
  add("ShardedParameters", {}, true);

  Index num_parameters = 0;
  for (auto const& parameter : trainers.front()->model->parameters()) num_parameters += parameter.numel();
  auto const samples = interleave(context, candidates, options.timing);

  for (std::size_t i = 1; i < trainers.size(); ++i) nn::require_same_bits(comm, nn::parameters_of(*trainers[i]->model));
  show(context,
       std::to_string(num_steps) + " steps of a CNN of " + std::to_string(num_parameters) + " parameters, " +
           std::to_string(options.batch) + " images of " + std::to_string(options.num_rows) + " x " +
           std::to_string(options.num_columns) + " f32 a rank, " + std::to_string(comm.num_ranks()) + " ranks" +
           options.place(),
       samples);
}

}  // namespace graticule::bench
