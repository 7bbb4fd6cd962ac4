// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/comm.hpp>

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <thread>

namespace graticule {

struct Comm::State {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int num_ranks = 1;
  int node_rank = 0;
  int num_node_ranks = 1;
  int num_nodes = 1;
  std::vector<int> node_ranks;  // ascending
  int max_tag = 0;
  int last_tag = 0;
  bool oversubscribed = false;

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && handle != MPI_COMM_NULL) MPI_Comm_free(&handle);
  }
};

namespace {

/// Cores that the ranks of `node` may run on, together: launchers bind each rank to cores of its own.
int num_cores(MPI_Comm node) {
#ifdef __linux__
  cpu_set_t cores;
  CPU_ZERO(&cores);
  bool const known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &cores, int(sizeof cores), MPI_BYTE, MPI_BOR, node), "MPI_Allreduce");
  if (known) return CPU_COUNT(&cores);
#else
  (void)node;
#endif
  return int(std::thread::hardware_concurrency());
}

/// Longest piece of one MPI call, whose counts are `int`.
constexpr Index max_count = Index(1) << 30;

/// Elements of `type` in bytes.
Index extent_of(MPI_Datatype type) {
  int bytes = 0;
  check_mpi(MPI_Type_size(type, &bytes), "MPI_Type_size");
  return bytes;
}

}  // namespace

Comm::Comm(MPI_Comm parent) : state_(std::make_shared<State>()) {
  int started = 0;
  int finalized = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finalized);
  if (!started || finalized) throw Error("MpiNotStarted", "a communicator outside MPI_Init and MPI_Finalize");
  if (parent == MPI_COMM_NULL) throw Error("NullCommunicator", "MPI_COMM_NULL: this rank is in no communicator");
  auto& s = *state_;
  check_mpi(MPI_Comm_dup(parent, &s.handle), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(s.handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(s.handle, &s.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(s.handle, &s.num_ranks), "MPI_Comm_size");
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(s.handle, MPI_COMM_TYPE_SHARED, s.rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(node, &s.node_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &s.num_node_ranks), "MPI_Comm_size");
  int const cores = num_cores(node);
  s.node_ranks.resize(std::size_t(s.num_node_ranks));
  check_mpi(MPI_Allgather(&s.rank, 1, MPI_INT, s.node_ranks.data(), 1, MPI_INT, node), "MPI_Allgather");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  // Nodes may differ, yet all ranks must choose alike: blocking and non-blocking collective calls do not match.
  std::array<int, 2> counts{s.node_rank == 0 ? 1 : 0, cores != 0 && s.num_node_ranks > cores ? 1 : 0};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, counts.data(), 2, MPI_INT, MPI_SUM, s.handle), "MPI_Allreduce");
  s.num_nodes = counts[0];
  s.oversubscribed = counts[1] > 0;
  void* bound = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(s.handle, MPI_TAG_UB, static_cast<void*>(&bound), &found), "MPI_Comm_get_attr");
  s.max_tag = found ? *static_cast<int*>(bound) : 32767;
}

int Comm::rank() const noexcept { return state_->rank; }
int Comm::num_ranks() const noexcept { return state_->num_ranks; }
int Comm::num_node_ranks() const noexcept { return state_->num_node_ranks; }
int Comm::node_rank() const noexcept { return state_->node_rank; }
int Comm::num_nodes() const noexcept { return state_->num_nodes; }
bool Comm::on_this_node(int rank) const noexcept {
  return std::binary_search(state_->node_ranks.begin(), state_->node_ranks.end(), rank);
}
MPI_Comm Comm::handle() const noexcept { return state_->handle; }

Comm Comm::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(handle(), color, key, &part), "MPI_Comm_split");
  Comm result(part);
  check_mpi(MPI_Comm_free(&part), "MPI_Comm_free");
  // The other parts keep running on the same cores.
  result.state_->oversubscribed = result.oversubscribed() || oversubscribed();
  return result;
}

int Comm::next_tag() const {
  state_->last_tag = state_->last_tag == state_->max_tag ? 1 : state_->last_tag + 1;
  return state_->last_tag;
}

bool Comm::oversubscribed() const noexcept { return state_->oversubscribed; }

void Comm::wait(MPI_Request& request) const {
  int done = 0;
  while (oversubscribed() && !done) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) std::this_thread::yield();
  }
  if (!done) check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

void Comm::reduce(void* data, Index count, MPI_Datatype type, MPI_Op op) const {
  Index const bytes = extent_of(type);
  for (Index done = 0; done < count; done += max_count) {
    auto const part = int(std::min(max_count, count - done));
    auto* const at = static_cast<std::byte*>(data) + done * bytes;
    auto const* const from = rank() == 0 ? MPI_IN_PLACE : at;
    if (oversubscribed()) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ireduce(from, at, part, type, op, 0, handle(), &request), "MPI_Ireduce");
      wait(request);
    } else {
      check_mpi(MPI_Reduce(from, at, part, type, op, 0, handle()), "MPI_Reduce");
    }
  }
  broadcast(data, count * bytes, 0);
}

void Comm::broadcast(void* data, Index bytes, int root) const {
  for (Index done = 0; done < bytes; done += max_count) {
    auto const part = int(std::min(max_count, bytes - done));
    auto* const at = static_cast<std::byte*>(data) + done;
    if (oversubscribed()) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ibcast(at, part, MPI_BYTE, root, handle(), &request), "MPI_Ibcast");
      wait(request);
    } else {
      check_mpi(MPI_Bcast(at, part, MPI_BYTE, root, handle()), "MPI_Bcast");
    }
  }
}

void Comm::sum(std::span<double> values) const { reduce(values.data(), Index(values.size()), MPI_DOUBLE, MPI_SUM); }
void Comm::sum(std::span<Index> values) const { reduce(values.data(), Index(values.size()), MPI_INT64_T, MPI_SUM); }
void Comm::max(std::span<double> values) const { reduce(values.data(), Index(values.size()), MPI_DOUBLE, MPI_MAX); }

void Comm::max(std::span<Index> values) const {
  if (oversubscribed() || Index(values.size()) > max_count)
    return reduce(values.data(), Index(values.size()), MPI_INT64_T, MPI_MAX);
  // A maximum of integers has the same bits in any order.
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), int(values.size()), MPI_INT64_T, MPI_MAX, handle()),
            "MPI_Allreduce");
}

std::vector<Index> Comm::gather_to_all(Index value) const {
  std::vector<Index> values(std::size_t(num_ranks()), 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, handle(), &request),
            "MPI_Iallgather");
  wait(request);
  return values;
}

std::string Comm::broadcast(std::string const& text, int root) const {
  Index size = Index(text.size());
  broadcast(&size, Index(sizeof size), root);
  std::string result = rank() == root ? text : std::string(std::size_t(size), '\0');
  broadcast(result.data(), size, root);
  return result;
}

void Comm::barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(handle(), &request), "MPI_Ibarrier");
  wait(request);
}

namespace {

struct Described {
  Fault fault = Fault::program;
  std::string rule = "Error";
  std::string given;
};

Described describe(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (Error const& error) {
    return {error.fault(), error.rule(), error.given()};
  } catch (std::exception const& error) {
    return {Fault::program, "Error", error.what()};
  } catch (...) {
    return {Fault::program, "Error", "an exception of unknown type"};
  }
}

}  // namespace

void agree(Comm const& comm, std::exception_ptr const& failure) {
  std::array<Index, 1> speaker{failure ? Index(comm.num_ranks() - comm.rank()) : 0};
  comm.max(speaker);
  if (speaker[0] == 0) return;
  int const failing = comm.num_ranks() - int(speaker[0]);
  auto const own = failure ? describe(failure) : Described{};
  auto const fault = Fault(comm.broadcast(std::string(1, char(own.fault)), failing).at(0));
  auto const rule = comm.broadcast(own.rule, failing);
  auto const given = comm.broadcast(own.given, failing);
  if (comm.rank() == failing) std::rethrow_exception(failure);
  throw Error(fault, rule, "rank " + std::to_string(failing) + ": " + given);
}

void run_agreed(Comm const& comm, std::function<void()> const& action) {
  std::exception_ptr failure;
  try {
    action();
  } catch (...) {
    failure = std::current_exception();
  }
  agree(comm, failure);
}

void require_same(Comm const& comm, std::string_view rule, std::uint64_t fingerprint, std::string const& described) {
  auto const upper = Index(fingerprint >> 32U);
  auto const lower = Index(fingerprint & 0xffffffffU);
  std::array<Index, 4> range{upper, -upper, lower, -lower};
  comm.max(range);
  if (range[0] == -range[1] && range[2] == -range[3]) return;
  // The lowest rank that differs from rank 0 speaks.
  std::uint64_t first = fingerprint;
  check_mpi(MPI_Bcast(&first, 1, MPI_UINT64_T, 0, comm.handle()), "MPI_Bcast");
  std::array<Index, 1> other{fingerprint != first ? Index(comm.num_ranks() - comm.rank()) : 0};
  comm.max(other);
  int const differing = comm.num_ranks() - int(other[0]);
  auto const text = "rank 0 has " + comm.broadcast(described, 0) + ", rank " + std::to_string(differing) + " has " +
                    comm.broadcast(described, differing);
  throw Error(rule, text);
}

}  // namespace graticule
