// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/program.hpp>
#include <graticule/program/sharded_program.hpp>

#include "memory.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace graticule::bench {

namespace {

std::vector<program::Shape> input_shapes(program::Program const& network) {
  auto const& graph = network->graph();
  program::Sizes const sizes(graph);
  std::vector<program::Shape> shapes;
  for (auto const id : program::user_inputs(graph)) shapes.push_back(sizes(graph.graph.value(id).tensor).value());
  return shapes;
}

/// Forward, the sum of the squares of the first output, and backward, on random inputs that need no gradient.
template <class Network>
struct ProgramStep {
  ProgramStep(Network one, nn::Domain on, std::vector<program::Shape> const& shapes, torch::Dtype dtype)
      : network(std::move(one)), domain(std::move(on)) {
    for (auto const& shape : shapes) inputs.push_back(torch::randn(shape, dtype));
  }

  void clear_gradients() {
    for (auto& parameter : network->parameters()) parameter.mutable_grad() = torch::Tensor();
  }

  void operator()() {
    clear_gradients();
    nn::reduce_loss(network->run(inputs).front().square().sum(), domain).backward();
  }

  Network network;
  nn::Domain domain;
  std::vector<torch::Tensor> inputs;
};

/// Rows of the fields among these inputs are this rank's.
std::vector<program::Shape> own_shapes(std::vector<program::Shape> shapes, program::ExportedGraph const& graph,
                                       Comm const& comm) {
  auto const first = program::first_field(graph);
  if (!first) throw Error(Fault::input, "RefusedProgram", "the network has no input with rows and columns to cut");
  auto const ndim = shapes[*first].size();
  for (auto& shape : shapes)
    if (program::is_field(shape.size(), ndim)) {
      auto& rows = shape[shape.size() - 2];
      rows = balanced_cuts(rows, comm.num_ranks()).size(comm.rank());
    }
  return shapes;
}

/// @throws `ShapeMismatch` (input), on all ranks, where the network cannot run on these rows by itself
void require_any_rows(Comm const& comm, program::ExportedGraph const& graph, std::vector<program::Shape> const& own) {
  run_agreed(comm, [&] {
    try {
      static_cast<void>(program::Sizes(graph, own));
    } catch (Error const& error) {
      throw Error(error.fault(), error.rule(),
                  "without --share the network runs on each rank's rows alone: " + error.text() +
                      "; --share names the same network exported for the rows of one rank");
    }
  });
}

void show_memory(app::Context& context, double alone, double sharded) {
  auto& data = context.report.data()["memory"];
  data["alone_bytes"] = alone;
  data["sharded_bytes"] = sharded;
  if (context.comm.rank() != 0) return;
  std::printf(
      "  most bytes of tensors in a step: %.1f MB each rank alone, %.1f MB sharded (fullest rank), ratio %.3f\n",
      alone / 1e6, sharded / 1e6, sharded / alone);
}

void show_traffic(app::Context& context, program::Plan const& plan) {
  auto& data = context.report.data()["plan"];
  data["received_bytes"] = plan.received_bytes;
  data["messages"] = plan.messages;
  if (context.comm.rank() != 0) return;
  auto const busiest = *std::max_element(plan.received_bytes.begin(), plan.received_bytes.end());
  std::printf("  forward, busiest rank: %.2f MB received in %lld messages\n", double(busiest) / 1e6,
              static_cast<long long>(plan.messages));
}

}  // namespace

void run_program(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  torch::set_num_threads(context.num_threads);
  torch::manual_seed(1);
  program::Program const network(options.plan);
  // The same layers on as many rows as a rank has, each rank by itself: what is left is the compute.
  program::Program const share(options.share.empty() ? options.plan : options.share);
  nn::Domain const globe(comm, bands(comm));
  nn::Domain const alone(comm.split(comm.rank(), 0), ProcessGrid{1, 1});

  auto const whole = input_shapes(network);
  auto const own = own_shapes(whole, network->graph(), comm);
  if (options.share.empty()) require_any_rows(comm, network->graph(), own);
  auto const local_shapes = options.share.empty() ? own : input_shapes(share);
  auto const sharded = std::make_shared<ProgramStep<program::ShardedProgram>>(program::ShardedProgram(network, globe),
                                                                              globe, own, network->dtype());
  auto const local = std::make_shared<ProgramStep<program::Program>>(share, alone, local_shapes, share->dtype());
  if (options.timing.num_repetitions > 0) {
    auto const samples = interleave(
        context,
        {{"each rank alone, no exchange", [=] { (*local)(); }}, {"sharded over latitude", [=] { (*sharded)(); }}},
        options.timing);
    show(context, options.plan + ", forward and backward, " + std::to_string(comm.num_ranks()) + " ranks", samples);
  }
  local->clear_gradients();
  auto const alone_bytes = fullest(comm, peak_of([&] { (*local)(); })).tensors;
  local->clear_gradients();
  sharded->clear_gradients();
  show_memory(context, alone_bytes, fullest(comm, peak_of([&] { (*sharded)(); })).tensors);
  show_traffic(context, sharded->network->plan());
}

}  // namespace graticule::bench
