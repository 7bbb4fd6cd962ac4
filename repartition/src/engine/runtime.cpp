// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/watch.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/devices.hpp>
#include <graticule/repartition/runtime.hpp>

#include "kernels/kokkos_compat.hpp"

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

namespace graticule {

Runtime::Runtime(int& argc, char**& argv, int num_threads) : num_exceptions_(std::uncaught_exceptions()) {
  // Before MPI starts, which nobody would end.
  if (!Kokkos::is_initialized()) require_device(devices_of_backend());
  int started = 0;
  MPI_Initialized(&started);
  int level = MPI_THREAD_SINGLE;
  if (started) {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    // Open MPI 4.1.0 to 4.1.4 loses cells of collective reads otherwise
    // (https://github.com/open-mpi/ompi/issues/10546).
    setenv("OMPI_MCA_fbtl_posix_read_datasieving", "0", 0);
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    owns_mpi_ = true;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    if (owns_mpi_) MPI_Finalize();
    throw Error("ThreadLevel", "MPI gives thread level " + std::to_string(level) + ", MPI_THREAD_SERIALIZED (" +
                                   std::to_string(MPI_THREAD_SERIALIZED) + ") is needed");
  }
  if (!Kokkos::is_initialized()) {
    // Ranks share the cores: binding is the launcher's business. Kokkos warns at each rank when nobody has said so.
    setenv("OMP_PROC_BIND", "false", 0);
    detail::start_kokkos(argc, argv, num_threads);
    owns_kokkos_ = true;
  }
}

Runtime::~Runtime() {
  // Its communicators are gone, yet other ranks may wait for it on them.
  if (std::uncaught_exceptions() > num_exceptions_) detail::note_unwinding();
  // Libraries that do not end are named, and left after the limit for waits. Ranks that do not come to the end are
  // reported in MPI_Finalize.
  std::optional<detail::Watch> watch;
  auto const enter = [&watch](char const* place) {
    if (watch) return watch->enter(place);
    watch.emplace("process " + std::to_string(getpid()) + ", whose work is done,", place,
                  [] { return detail::others_are_awaited_at_the_end(); });
  };
  if (owns_kokkos_ && Kokkos::is_initialized()) {
    enter("Kokkos::finalize");
    Kokkos::finalize();
  }
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!owns_mpi_ || finalized) return;
  enter("MPI_Finalize");
  MPI_Finalize();
}

}  // namespace graticule
