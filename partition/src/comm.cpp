// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/identity.hpp>
#include <graticule/partition/detail/mpi_thread.hpp>
#include <graticule/partition/detail/patience.hpp>

#include "agreed_error.hpp"
#include "comm_state.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <tuple>

namespace graticule {

namespace detail {

namespace {

/// Communicators of this process up to now, and those that there are.
std::int64_t num_made = 0;
std::atomic<int> num_alive = 0;

}  // namespace

void check_made(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  try {
    check_mpi(code, call);
  } catch (Error const& error) {
    throw Error(
        error.fault(), error.rule(),
        error.text() + "; MPI has a limited number of communicators (MPICH 2048 per process), and this process has " +
            std::to_string(num_alive) +
            " of Graticule: make one and pass copies of it on, which share it, and end those that are no longer "
            "needed");
  }
}

CommState::CommState() { ++num_alive; }

CommState::~CommState() {
  --num_alive;
  if (mpi_is_over()) return;
  if (channel) channel->forget(id, generation);
  if (handle != MPI_COMM_NULL && !given_up) MPI_Comm_free(&handle);
}

}  // namespace detail

void detail::CommState::meet_ranks(MPI_Comm ranks) {
  check_mpi(MPI_Comm_rank(ranks, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(ranks, &num_ranks), "MPI_Comm_size");
  std::tie(channel, places) = detail::Channel::find(ranks);
}

detail::CommState::Census detail::CommState::count(Comm const& comm, MPI_Comm ranks,
                                                   std::optional<NodeMembers> const& members) {
  if (members) {
    node_ranks = members->ranks;
    num_node_ranks = int(node_ranks.size());
    node_rank = int(std::find(node_ranks.begin(), node_ranks.end(), rank) - node_ranks.begin());
  }
  // Nodes may differ, yet all ranks must choose alike: blocking and non-blocking collective calls do not match.
  bool const outnumbered = members && members->num_cores != 0 && num_node_ranks > members->num_cores;
  bool const crowded = kind_of_wait() == Wait::automatic ? outnumbered : kind_of_wait() == Wait::sleep;
  oversubscribed = crowded;  // for the wait
  if (own_id == 0) {
    int world_rank = 0;
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank), "MPI_Comm_rank");
    own_id = std::int64_t(world_rank + 1) << 32U | ++num_made;
  }
  auto sums = std::make_unique<std::array<Census, 2>>();
  auto& [own, counts] = *sums;
  own.know_members = members ? 1 : 0;
  own.are_first_of_node = node_rank == 0 ? 1 : 0;
  own.are_crowded = crowded ? 1 : 0;
  own.id = rank == 0 ? own_id : 0;
  own.have_wrong_environment = wrong_environment() ? 1 : 0;
  own.check_as.at(std::size_t(kind_of_check())) = 1;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Iallreduce(&own, &counts, int(sizeof(Census) / sizeof(std::int64_t)), MPI_INT64_T, MPI_SUM, ranks, &request),
      "MPI_Iallreduce");
  try {
    comm.wait(request, "for the other ranks to make a communicator");
  } catch (...) {
    static_cast<void>(sums.release());  // MPI may still use it
    given_up = true;
    throw;
  }
  num_nodes = int(counts.are_first_of_node);
  oversubscribed = counts.are_crowded > 0;
  id = counts.id;
  return counts;
}

void detail::CommState::require_one_environment(Census const& counts, MPI_Comm ranks) const {
  if (counts.have_wrong_environment > 0) {
    auto const& wrong = wrong_environment();
    int const own = wrong ? rank : num_ranks;
    int first = own;
    check_mpi(MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, ranks), "MPI_Allreduce");
    std::array<char, 512> text{};
    if (rank == first) wrong->text().copy(text.data(), text.size() - 1);
    check_mpi(MPI_Bcast(text.data(), int(text.size()), MPI_CHAR, first, ranks), "MPI_Bcast");
    bool const some_are_right = counts.have_wrong_environment < num_ranks;
    throw Error(Fault::usage, "BadOption",
                (some_are_right ? "rank " + std::to_string(first) + ": " : std::string()) + text.data());
  }
  std::vector<int> kinds;
  for (std::size_t kind = 0; kind < counts.check_as.size(); ++kind)
    if (counts.check_as[kind] > 0) kinds.push_back(int(kind));
  if (kinds.size() > 1)
    throw Error(Fault::usage, "BadOption",
                "GRATICULE_CHECK is '" + std::string(name_of_check(kinds.front())) + "' on some ranks and '" +
                    std::string(name_of_check(kinds.back())) + "' on others; all compare the same");
}

void detail::CommState::look_around(Comm const& comm, bool all_know_members) {
  check_mpi(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (!all_know_members) static_cast<void>(count(comm, handle, ask_node_members(handle)));
  void* bound = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(handle, MPI_TAG_UB, static_cast<void*>(&bound), &found), "MPI_Comm_get_attr");
  max_tag = found ? *static_cast<int*>(bound) : 32767;
  if (channel) return;
  auto& made = detail::Channel::make(handle);
  places = made.places(handle).value();
  channel = &made;
}

namespace {

/// A duplicate, or an error: the caller's communicator has the handler that ends the program, as a rule.
MPI_Comm duplicate_of(MPI_Comm parent) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  check_mpi(MPI_Comm_get_errhandler(parent, &handler), "MPI_Comm_get_errhandler");
  check_mpi(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm result = MPI_COMM_NULL;
  int const code = MPI_Comm_dup(parent, &result);
  check_mpi(MPI_Comm_set_errhandler(parent, handler), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Errhandler_free(&handler), "MPI_Errhandler_free");
  detail::check_made(code, "MPI_Comm_dup");
  return result;
}

}  // namespace

void detail::require_mpi_thread() {
  static int const level = [] {
    int result = MPI_THREAD_SINGLE;
    check_mpi(MPI_Query_thread(&result), "MPI_Query_thread");
    return result;
  }();
  if (level >= MPI_THREAD_SERIALIZED) return;
  int is_main = 0;
  check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  if (is_main == 0)
    throw Error("ThreadLevel", "a call on another thread than the one that started MPI, at thread level " +
                                   std::to_string(level) +
                                   ": call from that thread (of OpenMP: within !$omp master or outside of parallel "
                                   "regions), or start MPI by MPI_Init_thread with MPI_THREAD_SERIALIZED");
}

Comm::Comm(MPI_Comm parent) : state_(std::make_shared<detail::CommState>()) {
  int started = 0;
  int finalized = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finalized);
  if (!started || finalized)
    throw Error("WrongState", "communicators can only be made between MPI_Init and MPI_Finalize");
  if (parent == MPI_COMM_NULL) throw Error("WrongState", "MPI_COMM_NULL: this rank is in no communicator");
  detail::require_mpi_thread();
  auto& s = *state_;
  s.meet_ranks(parent);
  // MPI_Comm_dup would wait for a late rank without any limit.
  auto const counts = s.count(*this, parent, detail::known_node_members(parent));
  s.require_one_environment(counts, parent);
  s.handle = duplicate_of(parent);
  s.look_around(*this, counts.know_members == s.num_ranks);
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
  detail::enter(*this, detail::CommCall::split, 0);
  MPI_Comm part = MPI_COMM_NULL;
  detail::check_made(MPI_Comm_split(handle(), color, key, &part), "MPI_Comm_split");
  if (part == MPI_COMM_NULL) throw Error("WrongState", "MPI_COMM_NULL: this rank is in no communicator");
  Comm result(*this);
  result.state_ = std::make_shared<detail::CommState>();
  result.state_->handle = part;
  result.state_->meet_ranks(part);
  check_mpi(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  auto const counts = result.state_->count(result, part, detail::known_node_members(part));
  result.state_->look_around(result, counts.know_members == result.num_ranks());
  // The other parts keep running on the same cores.
  result.state_->oversubscribed = result.oversubscribed() || oversubscribed();
  return result;
}

int Comm::next_tag() const {
  state_->last_tag = state_->last_tag == state_->max_tag ? 1 : state_->last_tag + 1;
  return state_->last_tag;
}

bool Comm::oversubscribed() const noexcept { return state_->oversubscribed; }

void Comm::wait(MPI_Request& request, char const* what) const {
  struct Waiting {
    int rank;
    char const* what;
  };
  Waiting const waiting{rank(), what};
  std::function<std::string()> const describe = [&waiting] {
    return "rank " + std::to_string(waiting.rank) + " waits " + waiting.what;
  };
  detail::Patience patience(*this, describe);
  detail::wait(request, patience);
}

std::optional<detail::FoundFailure> detail::find_failure(Comm const& comm) {
  auto const& s = CommState::of(comm);
  if (!s.channel || mpi_is_over()) return std::nullopt;
  s.channel->poll();
  std::optional<FoundFailure> found;
  for (auto const& [from, notice] : s.channel->received()) {
    bool const ends = notice.kind == Notice::Kind::ended;
    if (!ends && (notice.comm != s.id || notice.number != s.generation || s.renewing)) continue;
    if (!ends && s.call_under_way != 0 && notice.num_calls >= s.call_under_way) continue;
    auto const place = std::find(s.places.begin(), s.places.end(), from);
    if (place == s.places.end()) continue;
    if (ends) s.channel->note_missed();
    bool const may_follow = ends || notice.is_of_wait != 0;
    if (found && may_follow) continue;
    found = {{int(place - s.places.begin()), Fault(notice.fault), notice.text.data()}, may_follow};
    if (!may_follow) return found;
  }
  return found;
}

std::optional<Comm::Failure> Comm::failed_peer() const {
  auto found = detail::find_failure(*this);
  if (!found) return std::nullopt;
  return std::move(found->failure);
}

int Comm::generation() const noexcept { return state_->generation; }

std::int64_t detail::identity(Comm const& comm) noexcept { return CommState::of(comm).id; }

void Comm::renew() const {
  auto& s = *state_;
  s.renewing = true;
  try {
    std::array<Index, 2> key{s.id, s.generation};
    std::function<std::string()> const describe = [] { return std::string("in the renewal of a communicator"); };
    detail::meet(*this, {s.channel->handle(), detail::Channel::renewal_tag, s.places.data(), true}, key, describe);
    // Calls begun on it never complete, so it is never freed.
    MPI_Group group = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(s.handle, &group), "MPI_Comm_group");
    check_mpi(MPI_Comm_create_group(s.channel->handle(), group, detail::Channel::renewal_tag + 1, &s.handle),
              "MPI_Comm_create_group");
    check_mpi(MPI_Group_free(&group), "MPI_Group_free");
    check_mpi(MPI_Comm_set_errhandler(s.handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  } catch (...) {
    s.renewing = false;
    throw;
  }
  s.renewing = false;
  s.given_up = false;
  s.last_tag = 0;
  s.num_calls = 0;
  s.num_met = 0;
  s.calls = 0;
  s.channel->forget(s.id, s.generation++);
  detail::Channel::note_renewal(s.id);
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
    return {error.fault(), error.rule(), error.text()};
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
  auto const& s = detail::CommState::of(comm);
  throw detail::AgreedError(Error(fault, rule, "rank " + std::to_string(failing) + ": " + given), s.channel,
                            s.places.at(std::size_t(failing)));
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
  detail::throw_difference(comm, rule, fingerprint, described);
}

namespace {

std::vector<std::string> parts_of(std::string const& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at != std::string::npos;) {
    auto const end = text.find("; ", at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : end + 2;
  }
  return parts;
}

/// Lists whose parts are separated by `; `, without those that are the same in both, except the first one.
std::pair<std::string, std::string> differences(std::string const& one, std::string const& other) {
  auto const of_one = parts_of(one);
  auto const of_other = parts_of(other);
  if (of_one.size() != of_other.size()) return {one, other};
  std::pair<std::string, std::string> result{of_one.front(), of_other.front()};
  bool left_out = false;
  auto const add = [&](std::string const& mark, std::size_t p) {
    result.first += "; " + mark + of_one[p];
    result.second += "; " + mark + of_other[p];
  };
  for (std::size_t p = 1; p < of_one.size(); ++p) {
    if (of_one[p] != of_other[p]) add(left_out ? "...; " : "", p);
    left_out = of_one[p] == of_other[p];
  }
  return result;
}

}  // namespace

void detail::throw_difference(Comm const& comm, std::string_view rule, std::uint64_t fingerprint,
                              std::string const& described) {
  // The lowest rank that differs from rank 0 reports.
  std::uint64_t first = fingerprint;
  comm.broadcast(&first, Index(sizeof first), 0);
  std::array<Index, 1> other{fingerprint != first ? Index(comm.num_ranks() - comm.rank()) : 0};
  comm.max(other);
  int const differing = comm.num_ranks() - int(other[0]);
  auto const of_first = comm.broadcast(described, 0);
  auto const of_other = comm.broadcast(described, differing);
  if (of_first == of_other)
    throw Error(rule, "rank 0 and rank " + std::to_string(differing) + " have different " + of_first);
  auto const [first_text, other_text] = differences(of_first, of_other);
  throw Error(rule, "rank 0 has " + first_text + ", rank " + std::to_string(differing) + " has " + other_text);
}

}  // namespace graticule
