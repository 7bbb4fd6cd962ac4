// SPDX-License-Identifier: BSD-3-Clause
// The messages of a movement without packing, and what its calls report.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/repartition/stats.hpp>
#include <graticule/repartition/transport.hpp>

#include "timing.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace graticule::bench {

/// Contiguous `MPI_Isend` and `MPI_Irecv` of the bytes that a plan moves between the same ranks.
class RawMessages {
 public:
  /// @throws `BadOption` (usage) for what one MPI call does not take
  RawMessages(Comm const& comm, std::span<PeerPath const> paths, Index cell_bytes);
  void exchange();

 private:
  struct Buffer {
    int peer;
    std::vector<std::byte> bytes;
  };
  Comm comm_;
  std::vector<Buffer> sends_;
  std::vector<Buffer> receives_;
  std::vector<MPI_Request> requests_;
};

/// Seconds of each phase of a call, of the slowest rank, on average over the repetitions; printed and in the report
/// under `phases`. Collective.
void show_phases(app::Context& context, std::string const& title, Timing const& timing,
                 std::function<PullStats()> const& stats, std::function<void()> const& call);

/// `transport` of the report: path, messages and bytes of one call, minimum, mean and maximum over the ranks.
/// Collective.
void report_transport(app::Context& context, std::span<PeerPath const> paths, Index cell_bytes);

/// Throws `CheckFailed` on all ranks unless it holds on all. Collective.
void require(Comm const& comm, bool holds, std::string const& what);

}  // namespace graticule::bench
