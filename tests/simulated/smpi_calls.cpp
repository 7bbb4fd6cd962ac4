// SPDX-License-Identifier: BSD-3-Clause
// Each rank has its own copy of this file's variables, and one thread.
#include "smpi_calls.hpp"

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace graticule::simulated {

namespace {

Counts calls;
bool has_ended = false;
std::map<MPI_Request, long> persistent_sends;  // bytes of each

/// A barrier that other calls may overtake: in round r each rank sends to the one 2^r after it. SimGrid's own consists
/// of 2 (P - 1) messages at rank 0.
struct Barrier {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int distance = 1;
  char sent = 1;
  char received = 0;
  std::vector<MPI_Request> sends;

  /// @return the request of the next round; null after the last
  MPI_Request next() {
    // No tag of the engine is as large.
    constexpr int tag = (1 << 23) - 1;
    if (distance >= size) {
      PMPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
      return MPI_REQUEST_NULL;
    }
    MPI_Request receive = MPI_REQUEST_NULL;
    PMPI_Irecv(&received, 1, MPI_CHAR, (rank + size - distance) % size, tag, comm, &receive);
    PMPI_Isend(&sent, 1, MPI_CHAR, (rank + distance) % size, tag, comm, &sends.emplace_back(MPI_REQUEST_NULL));
    distance *= 2;
    return receive;
  }
};

std::map<MPI_Request, std::unique_ptr<Barrier>> barriers;

/// A message that a matched probe has found: the next one of its source and tag, as a rank has one thread.
struct Found {
  int source;
  int tag;
  MPI_Comm comm;
};

int count(int number, MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  ++calls.messages;
  calls.bytes += long(number) * bytes;
  return 0;
}

}  // namespace

Counts const& counts() { return calls; }

}  // namespace graticule::simulated

using namespace graticule::simulated;

extern "C" {

// Objects of static duration are not destroyed. Each rank registers its own ones, all at one address, where more than
// 256 ranks exchange the pages of their variables: exit would destroy the objects of the last rank once per rank.
[[gnu::visibility("hidden")]] int __cxa_atexit(void (*)(void*), void*, void*) noexcept {  // NOLINT
  return 0;
}

int MPI_Isend(void const* data, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  count(number, type);
  return PMPI_Isend(data, number, type, to, tag, comm, request);
}

int MPI_Issend(void const* data, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  count(number, type);
  return PMPI_Issend(data, number, type, to, tag, comm, request);
}

int MPI_Send_init(void const* data, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  int const code = PMPI_Send_init(data, number, type, to, tag, comm, request);
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  persistent_sends[*request] = long(number) * bytes;
  return code;
}

int MPI_Start(MPI_Request* request) {
  if (auto const at = persistent_sends.find(*request); at != persistent_sends.end()) {
    ++calls.messages;
    calls.bytes += at->second;
  }
  return PMPI_Start(request);
}

int MPI_Startall(int number, MPI_Request* requests) {
  for (int i = 0; i < number; ++i) MPI_Start(requests + i);
  return MPI_SUCCESS;
}

int MPI_Request_free(MPI_Request* request) {
  persistent_sends.erase(*request);
  return PMPI_Request_free(request);
}

// SimGrid says no, and has no thread levels.
int MPI_Is_thread_main(int* flag) {
  *flag = 1;
  return MPI_SUCCESS;
}

// Handlers of exit run where SimGrid knows no rank.
int MPI_Finalize() {
  has_ended = true;
  return PMPI_Finalize();
}
int MPI_Finalized(int* flag) {
  *flag = has_ended ? 1 : 0;
  return MPI_SUCCESS;
}

// SimGrid returns the null handler of a communicator that has the default one, and takes it back neither there nor
// here.
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
  return handler == MPI_ERRHANDLER_NULL ? MPI_SUCCESS : PMPI_Comm_set_errhandler(comm, handler);
}
int MPI_Errhandler_free(MPI_Errhandler* handler) {
  return *handler == MPI_ERRHANDLER_NULL ? MPI_SUCCESS : PMPI_Errhandler_free(handler);
}

// SimGrid says that the null request has not ended.
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  ++calls.tests;
  *flag = 1;
  if (*request == MPI_REQUEST_NULL) return MPI_SUCCESS;
  auto const at = barriers.find(*request);
  int const code = PMPI_Test(request, flag, status);
  if (code != MPI_SUCCESS || *flag == 0 || at == barriers.end()) return code;
  auto barrier = std::move(at->second);
  barriers.erase(at);
  *request = barrier->next();
  *flag = *request == MPI_REQUEST_NULL ? 1 : 0;
  if (*flag == 0) barriers[*request] = std::move(barrier);
  return code;
}

int MPI_Testall(int number, MPI_Request* requests, int* flag, MPI_Status*) {
  *flag = 1;
  for (int i = 0; i < number; ++i) {
    int ended = 0;
    int const code = MPI_Test(requests + i, &ended, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    if (ended == 0) *flag = 0;
  }
  return MPI_SUCCESS;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  ++calls.tests;
  return PMPI_Iprobe(source, tag, comm, flag, status);
}

// Not implemented in SimGrid.
int MPI_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  MPI_Status found;
  int const code = MPI_Iprobe(source, tag, comm, flag, &found);
  if (code != MPI_SUCCESS || *flag == 0) return code;
  *message = new Found{found.MPI_SOURCE, found.MPI_TAG, comm};
  if (status != MPI_STATUS_IGNORE) *status = found;
  return code;
}

int MPI_Imrecv(void* data, int number, MPI_Datatype type, MPI_Message* message, MPI_Request* request) {
  std::unique_ptr<Found> const found(static_cast<Found*>(*message));
  *message = nullptr;
  return PMPI_Irecv(data, number, type, found->source, found->tag, found->comm, request);
}

int MPI_Mrecv(void* data, int number, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
  std::unique_ptr<Found> const found(static_cast<Found*>(*message));
  *message = nullptr;
  return PMPI_Recv(data, number, type, found->source, found->tag, found->comm, status);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  auto barrier = std::make_unique<Barrier>();
  barrier->comm = comm;
  PMPI_Comm_rank(comm, &barrier->rank);
  PMPI_Comm_size(comm, &barrier->size);
  *request = barrier->next();
  if (*request != MPI_REQUEST_NULL) barriers[*request] = std::move(barrier);
  return MPI_SUCCESS;
}

// SimGrid's send P - 1 messages from each rank, whatever algorithm is asked for; the blocking calls do not. The engine
// waits for them at once.
int MPI_Iallreduce(void const* data, void* result, int number, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return PMPI_Allreduce(data, result, number, type, op, comm);
}

int MPI_Iallgather(void const* data, int number, MPI_Datatype type, void* all, int number_of_each,
                   MPI_Datatype type_of_each, MPI_Comm comm, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return PMPI_Allgather(data, number, type, all, number_of_each, type_of_each, comm);
}

int MPI_Ibcast(void* data, int number, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return PMPI_Bcast(data, number, type, root, comm);
}

int MPI_Ireduce(void const* data, void* result, int number, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return PMPI_Reduce(data, result, number, type, op, root, comm);
}

}  // extern "C"
