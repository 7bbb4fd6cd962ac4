// SPDX-License-Identifier: BSD-3-Clause
// A program whose ranks are connected by TCP, and whose last rank still answers messages in MPI_Finalize when the
// others have made their last call, in a callback or in the last meeting itself. With the argument one_way, rank 1 has
// sent to rank 2 and not the other way round, and comes late to the end of connections, after its last call. Over UCX,
// MPICH 4.0.2 ends neither without `detail::end_together`.
#include <graticule/partition/comm.hpp>

#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>

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

/// Keeps a rank from its core between the meeting by the launcher and the end of connections.
int come_late(MPI_Comm, int, void*, void*) {
  std::this_thread::sleep_for(more_calls);
  return MPI_SUCCESS;
}

/// Attributes are deleted in the opposite order, so before a communicator is made it is called after the engine.
void call_at_the_end(MPI_Comm comm, MPI_Comm_delete_attr_function* callback) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, callback, &key, nullptr);
  MPI_Comm_set_attr(comm, key, nullptr);
  MPI_Comm_free_keyval(&key);
}

void send_one_way(int rank) {
  if (rank == 1) call_at_the_end(MPI_COMM_WORLD, come_late);
  auto const comm = graticule::Comm::world();
  int number = 7;
  if (rank == 1) MPI_Send(&number, 1, MPI_INT, 2, 0, comm.handle());
  if (rank == 2) MPI_Recv(&number, 1, MPI_INT, 1, 0, comm.handle(), MPI_STATUS_IGNORE);
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
  bool const goes_one_way = argc > 1 && std::string(argv[1]) == "one_way";
  if (goes_one_way) {
    send_one_way(rank);
  } else {
    if (rank == num_ranks - 1) call_at_the_end(MPI_COMM_SELF, answer);
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
