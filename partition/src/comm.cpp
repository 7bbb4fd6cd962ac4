// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/comm.hpp>

#include <array>
#include <limits>

namespace graticule {

struct Comm::State {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int num_ranks = 1;
  int node_rank = 0;
  int num_node_ranks = 1;
  int num_nodes = 1;
  int max_tag = 0;
  int last_tag = 0;

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

void find_node(MPI_Comm comm, int rank, int& node_rank, int& num_node_ranks, int& num_nodes) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(node, &node_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &num_node_ranks), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  int const leads = node_rank == 0 ? 1 : 0;
  check_mpi(MPI_Allreduce(&leads, &num_nodes, 1, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
}

void reduce(MPI_Comm comm, void* data, std::size_t count, MPI_Datatype type, MPI_Op op) {
  if (count > std::size_t(std::numeric_limits<int>::max()))
    throw Error("Overflow", std::to_string(count) + " values in one reduction");
  // Reduce and broadcast, not all-reduce: the MPI standard only recommends that all ranks get the same bits there.
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Reduce(rank == 0 ? MPI_IN_PLACE : data, data, int(count), type, op, 0, comm), "MPI_Reduce");
  check_mpi(MPI_Bcast(data, int(count), type, 0, comm), "MPI_Bcast");
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
  find_node(s.handle, s.rank, s.node_rank, s.num_node_ranks, s.num_nodes);
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
MPI_Comm Comm::handle() const noexcept { return state_->handle; }

Comm Comm::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(handle(), color, key, &part), "MPI_Comm_split");
  Comm result(part);
  check_mpi(MPI_Comm_free(&part), "MPI_Comm_free");
  return result;
}

int Comm::next_tag() const {
  state_->last_tag = state_->last_tag == state_->max_tag ? 1 : state_->last_tag + 1;
  return state_->last_tag;
}

void Comm::sum(std::span<double> values) const {
  reduce(handle(), values.data(), values.size(), MPI_DOUBLE, MPI_SUM);
}
void Comm::sum(std::span<Index> values) const {
  reduce(handle(), values.data(), values.size(), MPI_INT64_T, MPI_SUM);
}
void Comm::max(std::span<double> values) const {
  reduce(handle(), values.data(), values.size(), MPI_DOUBLE, MPI_MAX);
}
void Comm::max(std::span<Index> values) const {
  if (values.size() > std::size_t(std::numeric_limits<int>::max()))
    throw Error("Overflow", std::to_string(values.size()) + " values in one reduction");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), int(values.size()), MPI_INT64_T, MPI_MAX, handle()),
            "MPI_Allreduce");
}

std::vector<Index> Comm::gather_to_all(Index value) const {
  std::vector<Index> values(std::size_t(num_ranks()), 0);
  check_mpi(MPI_Allgather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, handle()), "MPI_Allgather");
  return values;
}

std::string Comm::broadcast(std::string const& text, int root) const {
  Index size = Index(text.size());
  check_mpi(MPI_Bcast(&size, 1, MPI_INT64_T, root, handle()), "MPI_Bcast");
  if (size > std::numeric_limits<int>::max()) throw Error("Overflow", "a text of " + std::to_string(size) + " bytes");
  std::string result = rank() == root ? text : std::string(std::size_t(size), '\0');
  check_mpi(MPI_Bcast(result.data(), int(size), MPI_CHAR, root, handle()), "MPI_Bcast");
  return result;
}

void Comm::barrier() const { check_mpi(MPI_Barrier(handle()), "MPI_Barrier"); }

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
