// SPDX-License-Identifier: BSD-3-Clause
// Which ranks of a communicator run on this node, and on how many cores.
#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

namespace graticule::detail {

/// Both have the same ranks in the same order. No communication, and no table of ranks.
[[nodiscard]] bool have_same_ranks(MPI_Comm a, MPI_Comm b);

struct NodeMembers {
  std::vector<int> ranks;  ///< of the communicator, on this node; ascending
  int num_cores = 0;  ///< that they may run on, together: launchers bind each rank to cores of its own; 0: not known
};

/// Asks MPI. Collective. Remembers the answer where `comm` has all ranks of MPI_COMM_WORLD.
/// Cost: a communicator is made and freed, which takes 50 ms with more ranks than cores
[[nodiscard]] NodeMembers ask_node_members(MPI_Comm comm);

/// The same without communication; nothing where a rank of `comm` is not in MPI_COMM_WORLD, or where no communicator of
/// all its ranks has been asked about before: that may be so on some ranks only. Cost: a search for
/// each rank of `comm`, where these are not those of MPI_COMM_WORLD
[[nodiscard]] std::optional<NodeMembers> known_node_members(MPI_Comm comm);

}  // namespace graticule::detail
