// SPDX-License-Identifier: BSD-3-Clause
// A communicator cannot be made before MPI starts or after it ends, and one that lives longer than MPI is left alone.
#include <graticule/partition/comm.hpp>

#include "expect_error.hpp"

#include <cstdio>
#include <optional>

using graticule::Comm;
using graticule::test::rule_of;

int main(int argc, char** argv) {
  auto const before = rule_of([] { (void)Comm::world(); });
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::optional<Comm> late(Comm::world());
  bool const knows_rank = late->rank() == rank;
  MPI_Finalize();
  auto const after = rule_of([] { (void)Comm::world(); });
  late.reset();

  bool const right = before == "WrongState" && after == "WrongState" && knows_rank;
  if (!right)
    std::fprintf(stderr, "before MPI_Init: %s; after MPI_Finalize: %s; rank known: %d\n", before.c_str(), after.c_str(),
                 int(knows_rank));
  return right ? 0 : 1;
}
