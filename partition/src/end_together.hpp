// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::detail {

/// Keeps MPI_Finalize from a deadlock of MPICH before 4.2 over UCX where ranks are connected by TCP: after the
/// callbacks of MPI_COMM_SELF, which may call MPI, all ranks meet by MPI and then by the launcher. Where the launcher
/// cannot be asked, those that are connected so sleep 0.1 s.
///
/// UCX closes a connection by TCP after an answer of its peer, to which it has sent; if it has sent nothing, at once. A
/// rank whose own are closed waits in a barrier of the launcher, where it answers nobody
/// (https://github.com/pmodels/mpich/pull/6596). So ranks send a byte to each other, and no rank may answer before all
/// have asked. A rank answers in any call of MPI: between the meeting by the launcher and the end of its connections it
/// makes none, and none while it sleeps; the sleep lasts until the others have left the last call too. UCX uses TCP
/// between nodes that have no other network, and for long messages within a node where a process cannot read the memory
/// of another, as in some containers.
///
/// Not covered: programs of which some ranks make no communicator, and those that call MPI in a callback of
/// MPI_COMM_WORLD.
///
/// @param num_ranks of a communicator that all of them have just made. @throws `MpiError`
void end_together(int num_ranks);

}  // namespace graticule::detail
