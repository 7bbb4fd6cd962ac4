// SPDX-License-Identifier: BSD-3-Clause
// In a program that starts nothing itself, the outermost runtime starts and ends MPI and Kokkos.
#include <graticule/repartition/runtime.hpp>

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  int started = 0;
  int level = 0;
  bool kokkos_started = false;
  bool kept = false;
  int ended_early = 0;
  {
    graticule::Runtime const outer(argc, argv, 1);
    MPI_Initialized(&started);
    MPI_Query_thread(&level);
    kokkos_started = Kokkos::is_initialized();
    { graticule::Runtime const inner(argc, argv); }
    MPI_Finalized(&ended_early);
    kept = Kokkos::is_initialized();
  }
  int ended = 0;
  MPI_Finalized(&ended);
  bool const right = started && level >= MPI_THREAD_SERIALIZED && kokkos_started && kept && !ended_early && ended &&
                     !Kokkos::is_initialized();
  if (!right)
    std::fprintf(
        stderr,
        "MPI started %d at level %d, Kokkos started %d; ended by an inner runtime: MPI %d, Kokkos %d; ended %d\n",
        started, level, int(kokkos_started), ended_early, int(!kept), ended);
  return right ? 0 : 1;
}
