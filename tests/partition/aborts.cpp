// SPDX-License-Identifier: BSD-3-Clause
// A program that ends by MPI_Abort, in which no handler of exit may call MPI: MPICH holds a lock there where threads
// may call it, as mpi4py has it, and reports an internal error.
#include <graticule/partition/comm.hpp>

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  auto const comm = graticule::Comm::world();
  std::printf("rank %d aborts\n", comm.rank());
  std::fflush(stdout);
  comm.barrier();
  // The launcher passes the lines on before it ends the ranks.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Abort(MPI_COMM_WORLD, 3);
  return 0;
}
