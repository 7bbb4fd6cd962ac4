// SPDX-License-Identifier: BSD-3-Clause
// Stands between the tests and MPI: counts calls, delays them, and fails a run that leaves MPI objects behind.
#pragma once

namespace graticule::test {

/// Calls of this rank since `MPI_Init`, by kind.
struct MpiCalls {
  long sends = 0;          ///< single sends, not those of persistent requests
  long receives = 0;       ///< the same for receives
  long starts = 0;         ///< persistent requests started, of either kind
  long collectives = 0;    ///< blocking or not, `MPI_Win_fence` included
  long communicators = 0;  ///< made, by whatever call
  long windows = 0;        ///< made
  long types = 0;          ///< committed
  long persistent = 0;     ///< persistent requests made
  long translations = 0;   ///< of ranks from one group to another
  friend bool operator==(MpiCalls const&, MpiCalls const&) = default;
};

[[nodiscard]] MpiCalls const& mpi_calls();

/// The objects that there are now may be left behind.
void forgive_left_objects();

/// True while MPI runs on this thread: what it allocates is not the library's.
[[nodiscard]] bool inside_mpi();

/// Messages that are delayed by `GRATICULE_TEST_DELAYS`: the seed of a random sequence, none where it is not set. Sends
/// and starts then sleep now and then, several persistent requests start in another order, and tests for completion
/// miss what has completed: all that MPI allows, on a network where every message takes its time.
[[nodiscard]] bool delays_are_on();

}  // namespace graticule::test
