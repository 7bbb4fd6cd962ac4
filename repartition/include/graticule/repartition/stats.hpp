// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <string>
#include <string_view>

namespace graticule {

/// Traffic of a call with one field of each kind on this rank; bytes are cells times the bytes per cell of the field.
struct PullCounts {
  int num_send_peers = 0;
  int num_receive_peers = 0;
  Index send_cells = 0;     ///< to other ranks
  Index receive_cells = 0;  ///< from other ranks
  Index local_cells = 0;    ///< from this rank to itself
  Index filled_cells = 0;   ///< from constants
};

/// Traffic and times of the calls of a plan on this rank so far.
struct PullStats {
  /// Messages sent and their bytes, by path.
  struct Sent {
    Index num_messages = 0;
    Index bytes = 0;
  };

  Index num_calls = 0;
  Sent point_to_point;
  Sent node_packed;    ///< through memory of the node, or of a device, packed by the sender
  Sent node_in_place;  ///< read by the peer from a field in `NodeMemory`, or from a device field in a long move
  Index local_bytes = 0;
  Index num_workspaces = 0;  ///< made so far; constant once every pattern of calls was seen
  Index buffer_bytes = 0;    ///< of all workspaces
  /// Device memory is passed to MPI directly; otherwise messages of device fields are staged through pinned host
  /// memory.
  bool mpi_reads_device = false;
  /// Peers on the node read device memory of this rank by kernels; otherwise it is staged, or passed to MPI.
  bool peers_read_device = false;
  /// How this process copies long runs: a name of `GRATICULE_COPY`. Empty before its first large call.
  std::string_view long_copies;
  /// Seconds: of the first 16 calls, and then of one of 16 calls that move under 32 KiB, counted for all.
  double pack_seconds = 0;    ///< and posting
  double local_seconds = 0;   ///< 0 on devices where the launch that unpacks also moves these cells
  double wait_seconds = 0;    ///< for messages that had not arrived yet
  double unpack_seconds = 0;  ///< with the wait for the device in calls without a queue
};

/// One line per path, for reports.
[[nodiscard]] std::string to_string(PullStats const& stats);

}  // namespace graticule
