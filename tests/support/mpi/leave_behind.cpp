// SPDX-License-Identifier: BSD-3-Clause
// Leaves an MPI object of the kind that its argument names behind, to test that pmpi_shim.cpp finds it.
#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string const kind = argc > 1 ? argv[1] : "";
  static int number = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Win window = MPI_WIN_NULL;
  int const next = 1 - rank;

  // What is freed and received is no fault.
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Recv_init(&number, 1, MPI_INT, next, 1, comm, &request);
  MPI_Start(&request);
  MPI_Send(&rank, 1, MPI_INT, next, 1, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  MPI_Comm_free(&comm);

  if (kind == "request") MPI_Send_init(&number, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &request);
  if (kind == "receive") {
    MPI_Recv_init(&number, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
  }
  if (kind == "communicator") MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm);
  if (kind == "type") {
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
  }
  if (kind == "window") MPI_Win_create(&number, sizeof number, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  if (kind == "message") MPI_Send(&rank, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
  if (kind == "message of a communicator") {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Send(&rank, 1, MPI_INT, next, 3, comm);
    MPI_Barrier(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    MPI_Comm_free(&comm);
  }
  MPI_Finalize();
}
