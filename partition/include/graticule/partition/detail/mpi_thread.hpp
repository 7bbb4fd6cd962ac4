// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::detail {

/// Refuses a call that uses MPI on a thread on which MPI must not be called: below `MPI_THREAD_SERIALIZED` any but the
/// one that started it. MPI must be running. @throws `ThreadLevel`
void require_mpi_thread();

}  // namespace graticule::detail
