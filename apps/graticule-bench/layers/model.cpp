// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/move_to.hpp>
#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "memory.hpp"
#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

namespace graticule::bench {

namespace {

/// Latitudes of a grid with rows on both poles.
std::vector<double> latitudes(Index num_rows) {
  std::vector<double> result;
  for (Index i = 0; i < num_rows; ++i) result.push_back(90 - 180 * double(i) / double(num_rows - 1));
  return result;
}

/// Forward and backward of a U-Net of five grids on this rank's rows.
struct Step {
  Step(nn::Domain const& on, Index rows, Options const& options, Index channels)
      : domain(on),
        model(models::make_model({.kind = models::ModelKind::unet,
                                  .num_inputs = 2,
                                  .num_outputs = 2,
                                  .channels = channels,
                                  .blocks = 5,
                                  .latitudes = latitudes(rows),
                                  .num_columns = options.num_columns},
                                 on)) {
    models::move_to(*model, torch::Device(options.network_device));
  }

  void operator()(torch::Tensor const& x, torch::Tensor const& target) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad() = torch::Tensor();
    nn::reduce_loss((model->forward(x, {}) - target).square().sum(), domain).backward();
    auto const device = x.device();
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }

  nn::Domain domain;
  std::shared_ptr<models::Model> model;
};

/// Peaks of three steps from a fresh process: freed memory of one step may serve the next.
void show_memory(app::Context& context, Peak const& peak) {
  auto const most = fullest(context.comm, peak);
  auto& data = context.report.data()["memory"];
  data["tensor_bytes"] = most.tensors;
  data["resident_bytes"] = most.resident;
  if (context.comm.rank() == 0)
    std::printf("  peak of the fullest rank: %.1f MB of tensors, %.1f MB resident\n", most.tensors / 1e6,
                most.resident / 1e6);
}

}  // namespace

void run_unet(app::Context& context, Options const& options) {
  Shards const shards(context, options);
  auto const& comm = context.comm;
  nn::Domain const globe(comm, bands(comm), Boundary::sphere(Edge::pole_row));
  // The same layers on the same rows, each rank by itself: what is left is the compute.
  nn::Domain const alone(comm.split(comm.rank(), 0), ProcessGrid{1, 1}, Boundary::uniform(2, Edge::replicate));
  auto sharded = std::make_shared<Step>(globe, options.num_rows, options, shards.channels);
  auto local = std::make_shared<Step>(alone, shards.rows, options, shards.channels);
  torch::Device const device(options.network_device);
  auto const x = torch::randn({1, 2, shards.rows, shards.columns}).to(device);
  auto const target = torch::randn({1, 2, shards.rows, shards.columns}).to(device);
  auto const peak = peak_of([&] {
    for (int step = 0; step < 3; ++step) (*sharded)(x, target);
  });
  if (device.is_cpu()) show_memory(context, peak);
  if (options.timing.num_repetitions == 0) return;
  show(context,
       "U-Net of 5 grids, forward and backward, " + shards.size_text +
           (options.device.is_host() ? "" : ", " + options.device.name()),
       interleave(context,
                  {{"each rank alone, no exchange", [=] { (*local)(x, target); }},
                   {"sharded over latitude", [=] { (*sharded)(x, target); }}},
                  options.timing));
}

}  // namespace graticule::bench
