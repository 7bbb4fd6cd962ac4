// SPDX-License-Identifier: BSD-3-Clause
// Rates of this machine, for forecasts of steps on more ranks (graticule-info NET.pt2 --machine FILE).
#include <graticule/app/driver.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/error.hpp>

#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <vector>

namespace graticule::bench {

namespace {

/// Forward and backward, as the forecast counts a pass of the one and two of the other.
constexpr double passes = 3;

void step(std::function<torch::Tensor()> const& forward, torch::Tensor const& leaf) {
  auto const y = forward();
  y.backward(torch::ones_like(y));
  leaf.mutable_grad() = torch::Tensor();
}

/// Seconds of a message of so many bytes with another rank, in both directions at once.
double message_seconds(Comm const& comm, int peer, Index bytes) {
  std::vector<char> sent(static_cast<std::size_t>(bytes)), received(sent.size());
  double least = 1e9;
  for (int i = 0; i < 60; ++i) {
    comm.barrier();
    double const start = MPI_Wtime();
    if (peer >= 0)
      check_mpi(MPI_Sendrecv(sent.data(), int(bytes), MPI_BYTE, peer, 0, received.data(), int(bytes), MPI_BYTE, peer, 0,
                             comm.handle(), MPI_STATUS_IGNORE),
                "MPI_Sendrecv");
    double seconds = MPI_Wtime() - start;
    comm.reduce(&seconds, 1, MPI_DOUBLE, MPI_MAX);
    least = std::min(least, seconds);
  }
  return least;
}

/// The next rank on the node; -1: none.
int peer_on_node(Comm const& comm) {
  auto const other = comm.rank() ^ 1;
  return other < comm.num_ranks() && comm.on_this_node(other) ? other : -1;
}

/// The rank half of the ranks away, on another node; -1: none.
int peer_elsewhere(Comm const& comm) {
  auto const half = comm.num_ranks() / 2;
  auto const far = comm.rank() < half ? comm.rank() + half : comm.rank() - half;
  return comm.num_ranks() == 2 * half && !comm.on_this_node(far) ? far : -1;
}

}  // namespace

void run_machine(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  torch::set_num_threads(context.num_threads);
  torch::manual_seed(1);
  // Long enough that starts of operators do not count, and beyond the caches.
  auto const image = torch::randn({1, 64, 90, 180}).requires_grad_();
  auto const weight = torch::randn({64, 64, 3, 3}).requires_grad_();
  auto const field = torch::randn({64, 256, 512}).requires_grad_();
  auto const few = torch::randn({8}).requires_grad_();
  constexpr Index windows = 1024, keys = 64, channels = 16;
  auto const queries = torch::randn({windows, keys, channels}).requires_grad_();
  auto const values = torch::randn({windows, keys, channels}).requires_grad_();
  constexpr int length = 100;
  Index const rows = 4;
  nn::Domain const domain(comm, bands(comm));
  nn::HaloExchange halo(nn::HaloExchangeOptions{{1, 1}, {0, 0}, {}}, domain);
  auto const shard = torch::randn({1, 1, rows, 8}).requires_grad_();

  std::vector<Candidate> const candidates{
      {"convolution 3 x 3, 64 to 64 channels, 90 x 180",
       [&] { step([&] { return torch::conv2d(image, weight, {}, 1, 1); }, image); }},
      {"tanh of 32 MiB", [&] { step([&] { return torch::tanh(field); }, field); }},
      {"100 additions of 8 numbers",
       [&] {
         step(
             [&] {
               auto y = few + 1;
               for (int i = 1; i < length; ++i) y = y + 1;
               return y;
             },
             few);
       }},
      {"halo of 8 numbers", [&] { step([&] { return halo(shard); }, shard); }},
      {"attention in windows of 64 cells, 16 channels",
       [&] { step([&] { return at::scaled_dot_product_attention(queries, values, values); }, queries); }}};
  auto const samples = interleave(context, candidates, options.timing);
  show(context, "Forward and backward, all ranks at once", samples);
  auto const seconds = [&](std::size_t i) { return samples.at(i).minimum(); };

  constexpr Index long_message = Index(8) << 20;
  double const within = comm.num_ranks() > 1 ? message_seconds(comm, peer_on_node(comm), long_message) : 0;
  bool const has_nodes = comm.num_nodes() > 1 && comm.num_ranks() % 2 == 0;
  double const between = has_nodes ? message_seconds(comm, peer_elsewhere(comm), long_message) : 0;
  double const first = has_nodes ? message_seconds(comm, peer_elsewhere(comm), 8) : 0;
  // A halo layer sends two messages and waits for both, forward and backward; comparisons of calls are in it.
  double const layer_message = std::max(0.0, seconds(3) - seconds(2) / length) / 4;

  app::Report::Json machine;
  machine["name"] = options.machine.empty() ? "this machine" : std::filesystem::path(options.machine).stem().string();
  machine["ranks_per_node"] = comm.num_node_ranks();
  machine["operations_per_second"] = passes * 2 * 64 * 64 * 9 * 90 * 180 / seconds(0);
  machine["bytes_per_second"] = passes * 2 * double(field.nbytes()) / seconds(1);
  machine["seconds_per_operator"] = seconds(2) / (passes * length);
  double const of_products = passes * 4 * channels / machine["operations_per_second"].get<double>();
  machine["seconds_per_score"] = std::max(0.0, seconds(4) / (windows * keys * keys) - of_products) / passes;
  auto const link = [](double latency, double rate) {
    return app::Report::Json{{"seconds_per_message", latency}, {"bytes_per_second", rate}};
  };
  double const rate_within = within > 0 ? double(long_message) / within : double(field.nbytes()) / seconds(1);
  machine["within_node"] = link(comm.num_ranks() > 1 ? layer_message : 0, rate_within);
  machine["between_nodes"] =
      has_nodes ? link(layer_message + first, double(long_message) / between) : machine["within_node"];
  context.report.data()["machine"] = machine;
  if (comm.rank() != 0) return;
  std::cout << machine.dump(2) << "\n";
  if (!has_nodes) std::cout << "between_nodes is that of one node: run on two nodes, with an even number of ranks\n";
  if (!options.machine.empty()) write_complete_file(options.machine, machine.dump(2) + "\n");
}

}  // namespace graticule::bench
