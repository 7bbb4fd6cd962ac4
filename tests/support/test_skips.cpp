// SPDX-License-Identifier: BSD-3-Clause
// Cases that are skipped on all ranks, on the last one, and on none: what mpi_main.cpp writes down of them.
#include <gtest/gtest.h>
#include <mpi.h>

namespace {

TEST(Skips, on_all_ranks) { GTEST_SKIP() << "a tool is not installed"; }

TEST(Skips, on_the_last_rank) {
  int rank = 0;
  int num_ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  if (rank + 1 == num_ranks) GTEST_SKIP() << "the last rank\nsits out";
}

TEST(Skips, on_none) {}

}  // namespace
