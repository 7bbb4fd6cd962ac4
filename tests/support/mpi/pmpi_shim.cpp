// SPDX-License-Identifier: BSD-3-Clause
// The MPI functions of the test programs, by MPI's profiling interface: each calls the one with the prefix PMPI_.
#include "mpi/pmpi_shim.hpp"

#include <mpi.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace graticule::test {

namespace {

struct Request {
  char const* made_by;
  bool persistent;
  bool receives;
  bool active;
  bool cancelled;
};

/// MPI objects that were made and not freed, each with the function that made it.
struct Live {
  std::multimap<MPI_Request, Request> requests;  // several: MPICH gives all sends that ended at once the same handle
  std::map<MPI_Comm, char const*> communicators;
  std::map<MPI_Win, char const*> windows;
  std::map<MPI_Datatype, char const*> types;
};

// No lock: one thread at a time calls MPI in these programs.
MpiCalls calls;
Live live;
std::vector<std::string> faults;
thread_local int depth = 0;

void found(std::string const& fault) {
  if (std::find(faults.begin(), faults.end(), fault) == faults.end()) faults.push_back(fault);
}

/// Random sequence of this rank; by the environment, so that a failure can be repeated.
struct Delays {
  bool on = std::getenv("GRATICULE_TEST_DELAYS") != nullptr;
  std::mt19937 random;
  bool seeded = false;

  unsigned draw(unsigned below) {
    if (!seeded) {
      int rank = 0;
      PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
      random.seed(unsigned(std::atoi(std::getenv("GRATICULE_TEST_DELAYS")) * 1009 + rank));
      seeded = true;
    }
    return unsigned(random() % below);
  }
  void sleep() {
    if (!on || draw(3) != 0) return;
    auto const longest = draw(50) == 0 ? 5000U : 300U;
    std::this_thread::sleep_for(std::chrono::microseconds(draw(longest)));
  }
  /// A message that has arrived, or is about to, is not seen yet.
  bool miss() { return on && draw(2) == 0; }
};

Delays delays;

/// Interrupts the program now and then, wherever it is: between two writes to shared memory too.
void stall(int) {
  static std::atomic<unsigned> state{12345};
  unsigned const drawn = state.load(std::memory_order_relaxed) * 1664525U + 1013904223U;
  state.store(drawn, std::memory_order_relaxed);
  if (drawn >> 30U != 0) return;
  int const error = errno;
  timespec const time{0, long(drawn % 2000000U)};
  nanosleep(&time, nullptr);
  errno = error;
}

void start_stalling(int rank) {
  struct sigaction action {};
  action.sa_handler = stall;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  itimerval const times{{0, 700 + 130 * (rank % 7)}, {0, 700}};
  setitimer(ITIMER_REAL, &times, nullptr);
}

/// Whether the program has more ranks than this machine has cores, or shares them with other tests (`GRATICULE_WAIT`).
/// A rank that waits inside of MPI polls until its slice has ended, which delays the ranks that it waits for: three
/// ranks on two cores take 4 ms for each collective call.
bool crowded() {
  static bool const shares_cores = [] {
    int num_ranks = 1;
    PMPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    char const* const wait = std::getenv("GRATICULE_WAIT");
    if (wait != nullptr && std::string_view(wait) == "sleep") return true;
    return num_ranks > int(std::thread::hardware_concurrency());
  }();
  return shares_cores;
}

int leave_core_until_ended(MPI_Request request) {
  for (;;) {
    int ended = 0;
    int const code = PMPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || ended != 0) return code;
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
}

/// One call: counted where that is wanted, perhaps delayed.
class Call {
 public:
  explicit Call(long MpiCalls::*kind = nullptr, long number = 1) {
    ++depth;
    if (kind == nullptr) return;
    calls.*kind += number;
    delays.sleep();
  }
  ~Call() { --depth; }
  Call(Call const&) = delete;
  Call& operator=(Call const&) = delete;
};

void add(MPI_Request request, char const* made_by, bool persistent, bool receives) {
  if (request == MPI_REQUEST_NULL) return;
  live.requests.emplace(request, Request{made_by, persistent, receives, !persistent, false});
}

/// After a call that may have ended `before`, which is `after` now.
void note_end(MPI_Request before, MPI_Request after) {
  auto const at = live.requests.find(before);
  if (at == live.requests.end()) return;
  if (after == MPI_REQUEST_NULL)
    live.requests.erase(at);
  else
    at->second.active = false;
}

/// After an error. Open MPI (4.1.4) frees persistent requests too, MPICH keeps them: here they are always freed.
void free_failed(MPI_Request* request) {
  auto const at = live.requests.find(*request);
  if (at != live.requests.end() && at->second.persistent) PMPI_Request_free(request);
}

void note_start(MPI_Request request) {
  auto const at = live.requests.find(request);
  if (at == live.requests.end()) return;
  if (at->second.active) found("a request of " + std::string(at->second.made_by) + " was started twice");
  at->second.active = true;
  at->second.cancelled = false;
}

template <class Handle>
int made(int code, std::map<Handle, char const*> Live::*objects, Handle const* handle, Handle null,
         char const* made_by) {
  if (code == MPI_SUCCESS && *handle != null) (live.*objects)[*handle] = made_by;
  return code;
}

template <class Handle>
void freed(std::map<Handle, char const*> Live::*objects, Handle handle) {
  (live.*objects).erase(handle);
}

/// A message that nobody received, when its communicator ends.
void look_for_unreceived(MPI_Comm comm, char const* made_by) {
  int there = 0;
  MPI_Status status;
  if (PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status) != MPI_SUCCESS || there == 0) return;
  found("a message of rank " + std::to_string(status.MPI_SOURCE) + " with tag " + std::to_string(status.MPI_TAG) +
        " was never received (communicator of " + made_by + ")");
}

template <class Objects>
void report_left(Objects const& objects, char const* kind) {
  std::map<std::string, int> numbers;
  for (auto const& object : objects) {
    if constexpr (std::is_same_v<typename Objects::mapped_type, Request>)
      ++numbers[object.second.made_by];
    else
      ++numbers[object.second];
  }
  for (auto const& [made_by, number] : numbers)
    found(std::to_string(number) + " " + kind + " of " + made_by + " left at the end");
}

/// Runs inside of `MPI_Finalize`, after what libraries clean up there.
int look_at_end(MPI_Comm, int, void*, void*) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  PMPI_Ibarrier(MPI_COMM_WORLD, &barrier);
  for (int done = 0; done == 0; std::this_thread::yield()) PMPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
  look_for_unreceived(MPI_COMM_WORLD, "MPI_Init");
  for (auto const& [comm, made_by] : live.communicators) look_for_unreceived(comm, made_by);
  report_left(live.requests, "requests");
  report_left(live.communicators, "communicators");
  report_left(live.windows, "windows");
  report_left(live.types, "data types");
  // Now: MPI itself may stumble over what is left.
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (auto const& fault : faults) std::fprintf(stderr, "[rank %d] MPI: %s\n", rank, fault.c_str());
  return MPI_SUCCESS;
}

/// Attributes of `MPI_COMM_SELF` are deleted first in `MPI_Finalize`, the oldest last.
int watch_end(int code) {
  int key = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, look_at_end, &key, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
#ifndef __SANITIZE_THREAD__  // it hands signals on late and piles them up
  if (delays.on) start_stalling(rank);
#endif
  return code;
}

}  // namespace

MpiCalls const& mpi_calls() { return calls; }
void forgive_left_objects() { live = {}; }
bool inside_mpi() { return depth > 0; }
bool delays_are_on() { return delays.on; }

}  // namespace graticule::test

using namespace graticule::test;

extern "C" {

int MPI_Init(int* argc, char*** argv) { return watch_end(PMPI_Init(argc, argv)); }
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return watch_end(PMPI_Init_thread(argc, argv, required, provided));
}
int MPI_Finalize() {
  int const code = PMPI_Finalize();
  if (!faults.empty()) std::_Exit(1);
  return code;
}

int MPI_Group_translate_ranks(MPI_Group from, int number, int const* ranks, MPI_Group to, int* translated) {
  Call const call(&MpiCalls::translations);
  return PMPI_Group_translate_ranks(from, number, ranks, to, translated);
}

// --- Messages

int MPI_Send(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  Call const call(&MpiCalls::sends);
  return PMPI_Send(data, count, type, to, tag, comm);
}
int MPI_Ssend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  Call const call(&MpiCalls::sends);
  return PMPI_Ssend(data, count, type, to, tag, comm);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  Call const call(&MpiCalls::receives);
  return PMPI_Recv(data, count, type, from, tag, comm, status);
}
int MPI_Sendrecv(void const* out, int num_out, MPI_Datatype type_out, int to, int tag_out, void* in, int num_in,
                 MPI_Datatype type_in, int from, int tag_in, MPI_Comm comm, MPI_Status* status) {
  Call const call(&MpiCalls::sends);
  ++calls.receives;
  return PMPI_Sendrecv(out, num_out, type_out, to, tag_out, in, num_in, type_in, from, tag_in, comm, status);
}

#define GRATICULE_MESSAGE(name, data_type, kind, persistent, receives)                                               \
  int MPI_##name(data_type data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* out) { \
    Call const call(&MpiCalls::kind);                                                                                \
    int const code = PMPI_##name(data, count, type, peer, tag, comm, out);                                           \
    if (code == MPI_SUCCESS) add(*out, "MPI_" #name, persistent, receives);                                          \
    return code;                                                                                                     \
  }
GRATICULE_MESSAGE(Isend, void const*, sends, false, false)
GRATICULE_MESSAGE(Issend, void const*, sends, false, false)
GRATICULE_MESSAGE(Irecv, void*, receives, false, true)
GRATICULE_MESSAGE(Send_init, void const*, persistent, true, false)
GRATICULE_MESSAGE(Ssend_init, void const*, persistent, true, false)
GRATICULE_MESSAGE(Recv_init, void*, persistent, true, true)

int MPI_Start(MPI_Request* request) {
  Call const call(&MpiCalls::starts);
  note_start(*request);
  return PMPI_Start(request);
}
int MPI_Startall(int num, MPI_Request* requests) {
  if (!delays.on) {
    Call const call(&MpiCalls::starts, num);
    std::for_each(requests, requests + num, note_start);
    return PMPI_Startall(num, requests);
  }
  Call const call;
  std::vector<int> order(std::size_t(std::max(num, 0)));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), delays.random);
  int code = MPI_SUCCESS;
  for (int const i : order)
    if (code == MPI_SUCCESS) code = MPI_Start(requests + i);
  return code;
}

int MPI_Request_free(MPI_Request* request) {
  Call const call;
  if (auto const at = live.requests.find(*request); at != live.requests.end()) {
    auto const& freed = at->second;
    if (freed.receives && freed.active && !freed.cancelled)
      found("a receive of " + std::string(freed.made_by) + " was freed before it ended");
    live.requests.erase(at);
  }
  return PMPI_Request_free(request);
}
int MPI_Cancel(MPI_Request* request) {
  Call const call;
  if (auto const at = live.requests.find(*request); at != live.requests.end()) at->second.cancelled = true;
  return PMPI_Cancel(request);
}
int MPI_Request_get_status(MPI_Request request, int* done, MPI_Status* status) {
  Call const call;
  *done = 0;
  return delays.miss() ? MPI_SUCCESS : PMPI_Request_get_status(request, done, status);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  Call const call;
  delays.sleep();
  MPI_Request const before = *request;
  int const code = PMPI_Wait(request, status);
  if (code != MPI_SUCCESS) free_failed(request);
  note_end(before, *request);
  return code;
}
int MPI_Waitall(int num, MPI_Request* requests, MPI_Status* statuses) {
  Call const call;
  delays.sleep();
  std::vector<MPI_Request> const before(requests, requests + num);
  int const code = PMPI_Waitall(num, requests, statuses);
  for (int i = 0; i < num; ++i) note_end(before[std::size_t(i)], requests[i]);
  return code;
}
int MPI_Waitany(int num, MPI_Request* requests, int* which, MPI_Status* status) {
  Call const call;
  delays.sleep();
  std::vector<MPI_Request> const before(requests, requests + num);
  int const code = PMPI_Waitany(num, requests, which, status);
  if (*which != MPI_UNDEFINED) note_end(before[std::size_t(*which)], requests[*which]);
  return code;
}
int MPI_Waitsome(int num, MPI_Request* requests, int* num_ended, int* which, MPI_Status* statuses) {
  Call const call;
  delays.sleep();
  std::vector<MPI_Request> const before(requests, requests + num);
  int const code = PMPI_Waitsome(num, requests, num_ended, which, statuses);
  if (*num_ended != MPI_UNDEFINED)
    for (int i = 0; i < *num_ended; ++i) note_end(before[std::size_t(which[i])], requests[which[i]]);
  return code;
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  Call const call;
  *done = 0;
  if (delays.miss()) return MPI_SUCCESS;
  MPI_Request const before = *request;
  int const code = PMPI_Test(request, done, status);
  if (code != MPI_SUCCESS) free_failed(request);
  if (code != MPI_SUCCESS || *done != 0) note_end(before, *request);
  return code;
}
int MPI_Testall(int num, MPI_Request* requests, int* done, MPI_Status* statuses) {
  Call const call;
  *done = 0;
  if (delays.miss()) return MPI_SUCCESS;
  std::vector<MPI_Request> const before(requests, requests + num);
  int const code = PMPI_Testall(num, requests, done, statuses);
  for (int i = 0; i < num && *done != 0; ++i) note_end(before[std::size_t(i)], requests[i]);
  return code;
}
int MPI_Testany(int num, MPI_Request* requests, int* which, int* done, MPI_Status* status) {
  Call const call;
  std::vector<MPI_Request> const before(requests, requests + num);
  int const code = PMPI_Testany(num, requests, which, done, status);
  if (*done != 0 && *which != MPI_UNDEFINED) note_end(before[std::size_t(*which)], requests[*which]);
  return code;
}
int MPI_Testsome(int num, MPI_Request* requests, int* num_ended, int* which, MPI_Status* statuses) {
  Call const call;
  std::vector<MPI_Request> const before(requests, requests + num);
  int const code = PMPI_Testsome(num, requests, num_ended, which, statuses);
  if (*num_ended != MPI_UNDEFINED)
    for (int i = 0; i < *num_ended; ++i) note_end(before[std::size_t(which[i])], requests[which[i]]);
  return code;
}

// --- Collective calls: the parameters in the first brackets, their names in the second

#define GRATICULE_PLAIN(...) __VA_ARGS__
#define GRATICULE_BLOCKING(name, started, parameters, names)                \
  int MPI_##name(GRATICULE_PLAIN parameters, MPI_Comm comm) {               \
    Call const call(&MpiCalls::collectives);                                \
    if (!crowded()) return PMPI_##name(GRATICULE_PLAIN names, comm);        \
    MPI_Request request = MPI_REQUEST_NULL;                                 \
    int const code = PMPI_##started(GRATICULE_PLAIN names, comm, &request); \
    return code == MPI_SUCCESS ? leave_core_until_ended(request) : code;    \
  }
#define GRATICULE_STARTED(name, parameters, names)                                  \
  int MPI_##name(GRATICULE_PLAIN parameters, MPI_Comm comm, MPI_Request* request) { \
    Call const call(&MpiCalls::collectives);                                        \
    int const code = PMPI_##name(GRATICULE_PLAIN names, comm, request);             \
    if (code == MPI_SUCCESS) add(*request, "MPI_" #name, false, false);             \
    return code;                                                                    \
  }
#define GRATICULE_COLLECTIVE(name, started, parameters, names) \
  GRATICULE_BLOCKING(name, started, parameters, names)         \
  GRATICULE_STARTED(started, parameters, names)

#define GRATICULE_REDUCED (void const* from, void* to, int count, MPI_Datatype type, MPI_Op op)
#define GRATICULE_COUNTED (void const* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u)

int MPI_Barrier(MPI_Comm comm) {
  Call const call(&MpiCalls::collectives);
  if (!crowded()) return PMPI_Barrier(comm);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = PMPI_Ibarrier(comm, &request);
  return code == MPI_SUCCESS ? leave_core_until_ended(request) : code;
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  Call const call(&MpiCalls::collectives);
  int const code = PMPI_Ibarrier(comm, request);
  if (code == MPI_SUCCESS) add(*request, "MPI_Ibarrier", false, false);
  return code;
}
GRATICULE_COLLECTIVE(Bcast, Ibcast, (void* data, int count, MPI_Datatype type, int root), (data, count, type, root))
GRATICULE_COLLECTIVE(Reduce, Ireduce, (void const* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root),
                     (from, to, count, type, op, root))
GRATICULE_COLLECTIVE(Allreduce, Iallreduce, GRATICULE_REDUCED, (from, to, count, type, op))
GRATICULE_COLLECTIVE(Scan, Iscan, GRATICULE_REDUCED, (from, to, count, type, op))
GRATICULE_COLLECTIVE(Exscan, Iexscan, GRATICULE_REDUCED, (from, to, count, type, op))
GRATICULE_COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, GRATICULE_REDUCED, (from, to, count, type, op))
GRATICULE_COLLECTIVE(Reduce_scatter, Ireduce_scatter,
                     (void const* from, void* to, int const* counts, MPI_Datatype type, MPI_Op op),
                     (from, to, counts, type, op))
GRATICULE_COLLECTIVE(Gather, Igather,
                     (void const* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u, int root),
                     (from, n, t, to, m, u, root))
GRATICULE_COLLECTIVE(Scatter, Iscatter,
                     (void const* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u, int root),
                     (from, n, t, to, m, u, root))
GRATICULE_COLLECTIVE(Gatherv, Igatherv,
                     (void const* from, int n, MPI_Datatype t, void* to, int const* m, int const* at, MPI_Datatype u,
                      int root),
                     (from, n, t, to, m, at, u, root))
GRATICULE_COLLECTIVE(Scatterv, Iscatterv,
                     (void const* from, int const* n, int const* at, MPI_Datatype t, void* to, int m, MPI_Datatype u,
                      int root),
                     (from, n, at, t, to, m, u, root))
GRATICULE_COLLECTIVE(Allgather, Iallgather, GRATICULE_COUNTED, (from, n, t, to, m, u))
GRATICULE_COLLECTIVE(Allgatherv, Iallgatherv,
                     (void const* from, int n, MPI_Datatype t, void* to, int const* m, int const* at, MPI_Datatype u),
                     (from, n, t, to, m, at, u))
GRATICULE_COLLECTIVE(Alltoall, Ialltoall, GRATICULE_COUNTED, (from, n, t, to, m, u))
GRATICULE_COLLECTIVE(Alltoallv, Ialltoallv,
                     (void const* from, int const* n, int const* a, MPI_Datatype t, void* to, int const* m,
                      int const* b, MPI_Datatype u),
                     (from, n, a, t, to, m, b, u))
GRATICULE_COLLECTIVE(Alltoallw, Ialltoallw,
                     (void const* from, int const* n, int const* a, MPI_Datatype const* t, void* to, int const* m,
                      int const* b, MPI_Datatype const* u),
                     (from, n, a, t, to, m, b, u))
GRATICULE_COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, GRATICULE_COUNTED, (from, n, t, to, m, u))
GRATICULE_COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, GRATICULE_COUNTED, (from, n, t, to, m, u))
GRATICULE_COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv,
                     (void const* from, int const* n, int const* a, MPI_Datatype t, void* to, int const* m,
                      int const* b, MPI_Datatype u),
                     (from, n, a, t, to, m, b, u))
GRATICULE_COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw,
                     (void const* from, int const* n, MPI_Aint const* a, MPI_Datatype const* t, void* to, int const* m,
                      MPI_Aint const* b, MPI_Datatype const* u),
                     (from, n, a, t, to, m, b, u))

int MPI_Win_fence(int assertion, MPI_Win window) {
  Call const call(&MpiCalls::collectives);
  return PMPI_Win_fence(assertion, window);
}

// --- Objects

#define GRATICULE_NEW_COMM(name, parameters, names)                                                          \
  int MPI_##name(GRATICULE_PLAIN parameters, MPI_Comm* out) {                                                \
    Call const call(&MpiCalls::communicators);                                                               \
    return made(PMPI_##name(GRATICULE_PLAIN names, out), &Live::communicators, out, MPI_Comm(MPI_COMM_NULL), \
                "MPI_" #name);                                                                               \
  }
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* out) {
  Call const call(&MpiCalls::communicators);
  int code = MPI_SUCCESS;
  if (crowded()) {
    MPI_Request request = MPI_REQUEST_NULL;
    code = PMPI_Comm_idup(comm, out, &request);
    if (code == MPI_SUCCESS) code = leave_core_until_ended(request);
  } else {
    code = PMPI_Comm_dup(comm, out);
  }
  return made(code, &Live::communicators, out, MPI_Comm(MPI_COMM_NULL), "MPI_Comm_dup");
}
GRATICULE_NEW_COMM(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info), (comm, info))
GRATICULE_NEW_COMM(Comm_split, (MPI_Comm comm, int color, int key), (comm, color, key))
GRATICULE_NEW_COMM(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info), (comm, type, key, info))
GRATICULE_NEW_COMM(Comm_create, (MPI_Comm comm, MPI_Group group), (comm, group))
GRATICULE_NEW_COMM(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag), (comm, group, tag))
GRATICULE_NEW_COMM(Cart_create, (MPI_Comm comm, int ndim, int const* extents, int const* periodic, int reorder),
                   (comm, ndim, extents, periodic, reorder))
GRATICULE_NEW_COMM(Dist_graph_create_adjacent,
                   (MPI_Comm comm, int n, int const* from, int const* w, int m, int const* to, int const* v,
                    MPI_Info info, int reorder),
                   (comm, n, from, w, m, to, v, info, reorder))

int MPI_Comm_free(MPI_Comm* comm) {
  Call const call;
  if (auto const at = live.communicators.find(*comm); at != live.communicators.end())
    look_for_unreceived(*comm, at->second);
  freed(&Live::communicators, *comm);
  return PMPI_Comm_free(comm);
}

int MPI_Win_create(void* base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* out) {
  Call const call(&MpiCalls::windows);
  return made(PMPI_Win_create(base, bytes, unit, info, comm, out), &Live::windows, out, MPI_Win(MPI_WIN_NULL),
              "MPI_Win_create");
}
int MPI_Win_allocate(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* out) {
  Call const call(&MpiCalls::windows);
  return made(PMPI_Win_allocate(bytes, unit, info, comm, base, out), &Live::windows, out, MPI_Win(MPI_WIN_NULL),
              "MPI_Win_allocate");
}
int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* out) {
  Call const call(&MpiCalls::windows);
  return made(PMPI_Win_allocate_shared(bytes, unit, info, comm, base, out), &Live::windows, out, MPI_Win(MPI_WIN_NULL),
              "MPI_Win_allocate_shared");
}
int MPI_Win_free(MPI_Win* window) {
  Call const call;
  freed(&Live::windows, *window);
  return PMPI_Win_free(window);
}

int MPI_Type_commit(MPI_Datatype* type) {
  Call const call(&MpiCalls::types);
  return made(PMPI_Type_commit(type), &Live::types, type, MPI_Datatype(MPI_DATATYPE_NULL), "MPI_Type_commit");
}
int MPI_Type_free(MPI_Datatype* type) {
  Call const call;
  freed(&Live::types, *type);
  return PMPI_Type_free(type);
}

}  // extern "C"
