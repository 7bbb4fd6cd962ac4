// SPDX-License-Identifier: BSD-3-Clause
#include "mock.hpp"

#include <graticule/partition/detail/check_mpi.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

namespace graticule::bench {

namespace {

constexpr int raw_tag = 30010;

}  // namespace

RawMessages::RawMessages(Comm const& comm, std::span<PeerPath const> paths, Index cell_bytes) : comm_(comm) {
  run_agreed(comm, [&] {
    for (auto const& path : paths)
      if (std::max(path.send_cells, path.receive_cells) > std::numeric_limits<int>::max() / cell_bytes)
        throw Error(Fault::usage, "BadOption", "messages of more than 2 GiB; choose a smaller grid");
  });
  for (auto const& path : paths) {
    if (path.send_cells > 0)
      sends_.push_back({path.peer, std::vector<std::byte>(std::size_t(path.send_cells * cell_bytes))});
    if (path.receive_cells > 0)
      receives_.push_back({path.peer, std::vector<std::byte>(std::size_t(path.receive_cells * cell_bytes))});
  }
  requests_.resize(sends_.size() + receives_.size());
}

void RawMessages::exchange() {
  std::size_t r = 0;
  for (auto& buffer : receives_)
    check_mpi(MPI_Irecv(buffer.bytes.data(), int(buffer.bytes.size()), MPI_BYTE, buffer.peer, raw_tag, comm_.handle(),
                        &requests_[r++]),
              "MPI_Irecv");
  for (auto& buffer : sends_)
    check_mpi(MPI_Isend(buffer.bytes.data(), int(buffer.bytes.size()), MPI_BYTE, buffer.peer, raw_tag, comm_.handle(),
                        &requests_[r++]),
              "MPI_Isend");
  check_mpi(MPI_Waitall(int(r), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void show_phases(app::Context& context, std::string const& title, Timing const& timing,
                 std::function<PullStats()> const& stats, std::function<void()> const& call) {
  auto const seconds = [&] {
    auto const now = stats();
    return std::array<double, 4>{now.pack_seconds, now.local_seconds, now.wait_seconds, now.unpack_seconds};
  };
  auto mean = seconds();
  for (int i = 0; i < timing.num_repetitions; ++i) {
    context.comm.barrier();
    call();
  }
  auto const after = seconds();
  for (std::size_t p = 0; p < mean.size(); ++p) mean[p] = (after[p] - mean[p]) / timing.num_repetitions;
  context.comm.max(mean);
  context.report.data()["results"][title]["phases"] = {
      {"pack_and_post", mean[0]}, {"local", mean[1]}, {"wait", mean[2]}, {"unpack", mean[3]}};
  if (context.comm.rank() == 0)
    std::printf("  phases, warm: pack and post %.1f us, local %.1f us, wait %.1f us, unpack %.1f us\n", 1e6 * mean[0],
                1e6 * mean[1], 1e6 * mean[2], 1e6 * mean[3]);
}

void report_transport(app::Context& context, std::span<PeerPath const> paths, Index cell_bytes) {
  auto const& comm = context.comm;
  std::array<Index, 2> num_peers{};  // by node-shared memory, by messages
  Index messages = 0;
  Index bytes = 0;
  for (auto const& path : paths) {
    ++num_peers[path.path == Transport::node_shared ? 0 : 1];
    if (path.send_cells > 0) ++messages;
    bytes += path.send_cells * cell_bytes;
  }
  comm.max(num_peers);
  auto const spread = [&](Index value) {
    auto const all = comm.gather_to_all(value);
    double sum = 0;
    for (Index const one : all) sum += double(one);
    return app::Report::Json{{"minimum", *std::min_element(all.begin(), all.end())},
                             {"mean", sum / double(all.size())},
                             {"maximum", *std::max_element(all.begin(), all.end())}};
  };
  auto& transport = context.report.data()["transport"];
  transport["path"] = {{"self", "copy"},
                       {"others", num_peers[0] > 0 && num_peers[1] > 0 ? "node-shared memory and point-to-point"
                                  : num_peers[0] > 0                   ? "node-shared memory"
                                  : num_peers[1] > 0                   ? "point-to-point"
                                                                       : "none"}};
  transport["unit"] = "one call";
  transport["messages"] = spread(messages);
  transport["bytes"] = spread(bytes);
}

void require(Comm const& comm, bool holds, std::string const& what) {
  run_agreed(comm, [&] {
    if (!holds) throw Error(Fault::check, "CheckFailed", what);
  });
}

}  // namespace graticule::bench
