// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/move_to.hpp>
#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "memory.hpp"
#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

#include <torch/torch.h>

namespace graticule::bench {

namespace {

/// Forward and backward of a U-Net of five grids on this rank's rows.
struct Step {
  Step(nn::Domain const& on, Index rows, Options const& options, Index channels)
      : domain(on),
        model(models::make_model({.kind = models::ModelKind::unet,
                                  .num_inputs = 2,
                                  .num_outputs = 2,
                                  .channels = channels,
                                  .blocks = 5,
                                  .latitudes = latitudes_of(rows),
                                  .num_columns = options.num_columns},
                                 on)) {
    models::move_to(*model, torch::Device(options.network_device));
  }

  void operator()(torch::Tensor const& x, torch::Tensor const& target) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad() = torch::Tensor();
    nn::reduce_loss((model->forward(x, {}) - target).square().sum(), domain).backward();
    wait_for(x.device());
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
  auto const alone = domain_alone(comm);
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
  show(context, "U-Net of 5 grids, forward and backward, " + shards.size_text + options.place(),
       interleave(context,
                  {{"each rank alone, no exchange", [=] { (*local)(x, target); }},
                   {"sharded over latitude", [=] { (*sharded)(x, target); }}},
                  options.timing));
}

}  // namespace graticule::bench
