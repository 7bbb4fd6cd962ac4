// SPDX-License-Identifier: BSD-3-Clause
// A program whose MPI or device library does not end: unending mpi|kokkos.
#include <graticule/repartition/runtime.hpp>

#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <unistd.h>

#include <string_view>

namespace {
bool mpi_ends = true;
}

/// In place of the library's.
extern "C" int MPI_Finalize() {
  while (!mpi_ends) pause();
  return PMPI_Finalize();
}

int main(int argc, char** argv) {
  graticule::Runtime const runtime(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "mpi") mpi_ends = false;
  if (argc > 1 && std::string_view(argv[1]) == "kokkos")
    Kokkos::push_finalize_hook([] {
      for (;;) pause();
    });
  return 0;
}
