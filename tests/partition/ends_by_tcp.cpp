// SPDX-License-Identifier: BSD-3-Clause
// A program whose ranks are connected by TCP, and whose last rank still answers messages in MPI_Finalize when the
// others have made their last call, in a callback or in the last meeting itself. Over UCX, MPICH 4.0.2 does not end
// without `detail::end_together`.
#include <graticule/partition/comm.hpp>

#include <mpi.h>

#include <chrono>

namespace {

/// More than ranks rest, and far more than it takes to get to the barrier of the launcher.
constexpr auto more_calls = std::chrono::milliseconds(300);

/// In the last calls of the engine.
bool is_late = false;

void answer_for_a_while() {
  auto const begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < more_calls) {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  }
}

int answer(MPI_Comm, int, void*, void*) {
  answer_for_a_while();
  is_late = true;
  return MPI_SUCCESS;
}

}  // namespace

/// A rank that others keep from its core is as slow to leave the last meeting.
extern "C" int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  int const code = PMPI_Test(request, flag, status);
  if (is_late && *flag != 0) answer_for_a_while();
  return code;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int num_ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  if (rank == num_ranks - 1) {
    // Set before that of the communicator, so it is called after it.
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, answer, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    MPI_Comm_free_keyval(&key);
  }
  {
    auto const comm = graticule::Comm::world();
    for (int distance = 1; distance < num_ranks; ++distance) {
      int received = -1;
      int const from = (rank + num_ranks - distance) % num_ranks;
      MPI_Sendrecv(&rank, 1, MPI_INT, (rank + distance) % num_ranks, 0, &received, 1, MPI_INT, from, 0, comm.handle(),
                   MPI_STATUS_IGNORE);
      if (received != from) MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return 0;
}
