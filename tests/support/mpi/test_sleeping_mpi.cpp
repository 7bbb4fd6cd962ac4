// SPDX-License-Identifier: BSD-3-Clause
// The ranks of tests leave their cores while they wait in MPI: sleeping_mpi.c is loaded, and before UCX.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

namespace {

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto const seconds = [](timeval const& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(SleepingMpi, a_rank_that_waits_for_a_message_takes_no_core) {
  if (dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD) == nullptr) GTEST_SKIP() << "the transport of this MPI is not UCX";
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int value = 0;
  MPI_Barrier(MPI_COMM_WORLD);

  if (rank == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  } else if (rank == 1) {
    auto const start = std::chrono::steady_clock::now();
    double const before = processor_seconds();
    MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double const taken = processor_seconds() - before;
    std::chrono::duration<double> const waited = std::chrono::steady_clock::now() - start;

    // Whatever else runs on the machine: a rank that polls takes all that it gets, this one a few hundredths.
    EXPECT_GT(waited.count(), 0.5);
    EXPECT_LT(taken, 0.25);
  }
}

}  // namespace
