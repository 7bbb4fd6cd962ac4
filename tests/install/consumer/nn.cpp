// SPDX-License-Identifier: BSD-3-Clause
// A training program's view of the installed graticule::nn, graticule::training and graticule::models: a step of a
// convolution divided by rows equals that of the whole one.
#include <graticule/models/forecaster.hpp>
#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/repartition/runtime.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include <torch/torch.h>

#include <cstdio>

using namespace graticule;

namespace {

/// The networks of graticule-train, and what loads them.
bool has_models(nn::Domain const& domain) {
  auto const model = models::make_model({.num_inputs = 2, .channels = 4, .latitudes = {60, 30, 0, -30, -60}}, domain);
  try {
    static_cast<void>(models::load("no_such_folder", domain.comm()));
  } catch (Error const& error) {
    return model->parameters().size() > 4;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  Comm const comm = Comm::world();
  nn::Domain const domain(comm, {comm.num_ranks(), 1}, Boundary::uniform(2, Edge::constant));
  auto const options = torch::nn::Conv2dOptions(2, 3, 3).padding(1);
  torch::manual_seed(1);
  torch::nn::Conv2d whole(options);
  whole->to(torch::kFloat64);
  nn::Conv2d sharded(options, domain);
  sharded->to(torch::kFloat64);
  {
    torch::NoGradGuard const no_grad;
    sharded->weight.copy_(whole->weight);
    sharded->bias.copy_(whole->bias);
  }
  auto const x = torch::randn({1, 2, 7, 6}, torch::kFloat64);
  auto const cotangent = torch::randn({1, 3, 7, 6}, torch::kFloat64);
  Cuts const rows = balanced_cuts(7, comm.num_ranks());
  auto const shard = [&](torch::Tensor const& t) { return t.slice(2, rows.lo(comm.rank()), rows.hi(comm.rank())); };

  auto const expected = whole(x);
  (expected * cotangent).sum().backward();
  torch::optim::SGD optimizer(sharded->parameters(), 0.1);
  training::DataParallel parallel(*sharded, optimizer, {{comm, nn::Reduction::sum}});
  auto const output = sharded(shard(x).contiguous());
  (output * shard(cotangent)).sum().backward();
  parallel.step();

  torch::NoGradGuard const no_grad;
  bool const equal = torch::allclose(output, shard(expected), 1e-12, 1e-12) &&
                     torch::allclose(sharded->weight, whole->weight - 0.1 * whole->weight.grad(), 1e-12, 1e-12);
  std::vector<double> num_equal{equal && has_models(domain) ? 1.0 : 0.0};
  comm.sum(num_equal);
  bool const all_equal = num_equal[0] == comm.num_ranks();
  if (comm.rank() == 0 && all_equal) std::printf("nn: %d ranks agree\n", comm.num_ranks());
  return all_equal ? 0 : 1;
}
