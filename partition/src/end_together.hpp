// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::detail {

/// Keeps MPI_Finalize from a deadlock of MPICH over UCX where ranks are connected by TCP: it sleeps 0.1 s after all
/// callbacks that call MPI, on such ranks alone.
///
/// UCX closes a connection by TCP after an answer of its peer. A rank of MPICH before 4.2 whose own are closed waits in
/// a barrier of the launcher, where it answers nobody (https://github.com/pmodels/mpich/pull/6596). So no rank may
/// answer before all have asked. A rank answers in any call of MPI, and a rank that sleeps makes none; the sleep lasts
/// until the others have left their last call too. UCX uses TCP between nodes that have no other network, and for long
/// messages within a node where a process cannot read the memory of another, as in some containers.
///
/// Call it once, after MPI_Init. @throws `MpiError`
void end_together();

}  // namespace graticule::detail
