// SPDX-License-Identifier: BSD-3-Clause
// make_train_fields FILE [DAY]: the small file for the tests of the command, from that day on.
#include "train_fields.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: make_train_fields FILE [DAY]\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    graticule::test::write_train_fields(graticule::Comm::world(), argv[1],
                                        {.first_time = argc == 3 ? std::atof(argv[2]) : 0.0});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
