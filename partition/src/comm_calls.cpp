// SPDX-License-Identifier: BSD-3-Clause
// Collective calls of a communicator. All ranks first meet by messages, whose waits have a time limit and which
// identify a rank in another call. MPI's collectives, which offer neither, are entered once all ranks have arrived.
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/mpi_thread.hpp>
#include <graticule/partition/detail/patience.hpp>

#include "comm_state.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

namespace graticule {

namespace detail {

void wait(MPI_Request& request, Patience& patience) {
  for (;;) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return;
    patience.pause();
  }
}

namespace {

/// The rounds of a meeting that is under way; each rank sends to the one `distance` after it.
class Meeting {
 public:
  Meeting(Comm const& comm, MeetingPlace const& place, std::span<Index> words,
          std::function<std::string()> const& describe_call)
      : comm_(comm), place_(place), words_(words), describe_call_(describe_call) {
    auto& memory = CommState::of(comm).meeting;
    if (!memory) memory = std::make_unique<MeetingMemory>();
    memory_ = std::move(memory);
    for (std::size_t r = 0; 1 << r < comm.num_ranks(); ++r)
      if (memory_->rounds.size() == r) memory_->rounds.emplace_back();
  }
  Meeting(Meeting const&) = delete;
  Meeting& operator=(Meeting const&) = delete;
  ~Meeting() {
    if (ended_) {
      CommState::of(comm_).meeting = std::move(memory_);
      return;
    }
    // A rank that comes late is still paired, but for a meeting that is known by its key.
    for (auto& round : memory_->rounds)
      if (place_.keyed && round.receive != MPI_REQUEST_NULL) MPI_Cancel(&round.receive);
    keep_for_good(std::move(memory_));
  }

  void run() {
    auto& rounds = memory_->rounds;
    std::function<std::string()> const describe = [this] {
      return "rank " + std::to_string(comm_.rank()) + " waits " + describe_call_() + " for rank " +
             std::to_string(from_);
    };
    Patience patience(comm_, describe);
    for (std::size_t r = 0; r < rounds.size(); ++r) receive(rounds[r], r);
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      auto& round = rounds[r];
      std::copy(words_.begin(), words_.end(), round.sent.begin());
      check_mpi(MPI_Isend(round.sent.data(), int(words_.size()), MPI_INT64_T, place_of((comm_.rank() + (1 << r))),
                          place_.tag, place_.handle, &round.send),
                "MPI_Isend");
      from_ = rank_before(r);
      wait(round.receive, patience);
      while (place_.keyed && !std::equal(words_.begin(), words_.begin() + 2, round.received.begin())) {
        receive(round, r);
        wait(round.receive, patience);
      }
      for (std::size_t i = 0; i < words_.size(); ++i) words_[i] = std::max(words_[i], round.received[i]);
    }
    for (auto& round : rounds) wait(round.send, patience);
    ended_ = true;
  }

 private:
  [[nodiscard]] int rank_before(std::size_t round) const {
    return (comm_.rank() + comm_.num_ranks() - (1 << round)) % comm_.num_ranks();
  }
  [[nodiscard]] int place_of(int rank) const {
    rank %= comm_.num_ranks();
    return place_.places ? place_.places[rank] : rank;
  }
  void receive(MeetingMemory::Round& round, std::size_t r) {
    // A rank in another call may send fewer words.
    round.received.fill(std::numeric_limits<Index>::min());
    check_mpi(MPI_Irecv(round.received.data(), int(round.received.size()), MPI_INT64_T, place_of(rank_before(r)),
                        place_.tag, place_.handle, &round.receive),
              "MPI_Irecv");
  }
  Comm const& comm_;
  MeetingPlace const& place_;
  std::span<Index> words_;
  std::function<std::string()> const& describe_call_;
  std::unique_ptr<MeetingMemory> memory_;
  int from_ = 0;
  bool ended_ = false;
};

/// A call as its messages name it.
struct NamedCall {
  CommCall call;
  Index count;
  Index number;

  [[nodiscard]] std::string text() const {
    auto const of = [this](char const* what, char const* unit) {
      return std::string(what) + " of " + std::to_string(count) + " " + unit;
    };
    auto const what = [&]() -> std::string {
      switch (call) {
        case CommCall::barrier: return "barrier";
        case CommCall::maximum: return of("maximum", "numbers");
        case CommCall::sum: return of("reduction", "numbers");
        case CommCall::gather: return of("gathering", "bytes per rank");
        case CommCall::broadcast: return of("broadcast", "bytes");
        case CommCall::split: return "split";
      }
      return "call";
    };
    return "call " + std::to_string(number) + " of a communicator (" + what() + ")";
  }
};

/// Counts a call: ranks whose calls differ up to now have different sums.
NamedCall note_call(CommState& s, CommCall call, Index count) {
  s.calls = Hash().add(s.calls).add(int(call)).add(count).value();
  return {call, count, ++s.num_calls};
}

}  // namespace

void meet(Comm const& comm, MeetingPlace const& place, std::span<Index> words,
          std::function<std::string()> const& describe_call) {
  if (comm.num_ranks() > 1) Meeting(comm, place, words, describe_call).run();
}

void enter(Comm const& comm, CommCall call, Index count, std::span<Index> values) {
  auto& s = CommState::of(comm);
  if (!mpi_is_over()) require_mpi_thread();
  auto const named = note_call(s, call, count);
  if (s.num_ranks == 1) return;
  if (mpi_is_over()) throw Error("WrongState", "a " + named.text() + " was called after MPI_Finalize");
  auto const own = s.calls;
  MeetingMemory::Words words;
  words[0] = Index(own);
  words[1] = ~Index(own);
  words[2] = named.number;
  auto* const folded = words.data() + MeetingMemory::num_own;
  std::copy(values.begin(), values.end(), folded);
  std::function<std::string()> const describe = [&named] { return "in " + named.text(); };
  {
    CallUnderWay under_way(s, named.number);
    meet(comm, {s.handle, 0}, std::span(words.data(), MeetingMemory::num_own + values.size()), describe);
    under_way.note_met();
  }
  if (words[0] == ~words[1]) {
    std::copy_n(folded, values.size(), values.begin());
    return;
  }
  // From here on the ranks are together again.
  s.calls = std::uint64_t(words[0]);
  s.num_calls = words[2];
  s.num_met = words[2];
  throw_difference(comm, "CallDisagreement", own, named.text());
}

namespace {

/// Longest piece of one MPI call, whose counts are `int`.
constexpr Index max_count = Index(1) << 30;
/// Maximum gathered without a meeting, in memory that may be abandoned.
constexpr Index small_bytes = Index(1) << 16;

/// Elements of `type` in bytes.
Index extent_of(MPI_Datatype type) {
  int bytes = 0;
  check_mpi(MPI_Type_size(type, &bytes), "MPI_Type_size");
  return bytes;
}

/// Waits for a request that all ranks have begun: it ends, and its memory is the caller's. Ranks outnumber cores.
void finish(MPI_Request& request) {
  for (int done = 0; !done;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) leave_core();
  }
}

/// All ranks have come.
void broadcast_now(Comm const& comm, void* data, Index bytes, int root) {
  for (Index done = 0; done < bytes; done += max_count) {
    auto const part = int(std::min(max_count, bytes - done));
    auto* const at = static_cast<std::byte*>(data) + done;
    if (comm.oversubscribed()) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ibcast(at, part, MPI_BYTE, root, comm.handle(), &request), "MPI_Ibcast");
      finish(request);
    } else {
      check_mpi(MPI_Bcast(at, part, MPI_BYTE, root, comm.handle()), "MPI_Bcast");
    }
  }
}

/// A small gathering, which MPI may still write to after it was given up.
struct Gathering {
  std::vector<std::byte> own;
  std::vector<std::byte> all;
};

}  // namespace

}  // namespace detail

void Comm::reduce(void* data, Index count, MPI_Datatype type, MPI_Op op) const {
  if (count == 0) return;
  Index const bytes = detail::extent_of(type);
  detail::enter(*this, detail::CommCall::sum, count);
  if (num_ranks() == 1) return;
  for (Index done = 0; done < count; done += detail::max_count) {
    auto const part = int(std::min(detail::max_count, count - done));
    auto* const at = static_cast<std::byte*>(data) + done * bytes;
    auto const* const from = rank() == 0 ? MPI_IN_PLACE : at;
    if (oversubscribed()) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ireduce(from, at, part, type, op, 0, handle(), &request), "MPI_Ireduce");
      detail::finish(request);
    } else {
      check_mpi(MPI_Reduce(from, at, part, type, op, 0, handle()), "MPI_Reduce");
    }
  }
  detail::broadcast_now(*this, data, count * bytes, 0);
}

void Comm::broadcast(void* data, Index bytes, int root) const {
  if (bytes == 0) return;
  detail::enter(*this, detail::CommCall::broadcast, bytes);
  if (num_ranks() > 1) detail::broadcast_now(*this, data, bytes, root);
}

void Comm::sum(std::span<double> values) const { reduce(values.data(), Index(values.size()), MPI_DOUBLE, MPI_SUM); }
void Comm::sum(std::span<Index> values) const { reduce(values.data(), Index(values.size()), MPI_INT64_T, MPI_SUM); }
void Comm::max(std::span<double> values) const { reduce(values.data(), Index(values.size()), MPI_DOUBLE, MPI_MAX); }

void Comm::max(std::span<Index> values) const {
  if (Index(values.size()) > detail::MeetingMemory::most_values)
    return reduce(values.data(), Index(values.size()), MPI_INT64_T, MPI_MAX);
  if (!values.empty()) detail::enter(*this, detail::CommCall::maximum, Index(values.size()), values);
}

void Comm::gather_to_all(void const* own, Index bytes, void* all) const {
  if (bytes == 0) return;
  Index const total = bytes * num_ranks();
  auto* const result = static_cast<std::byte*>(all);
  if (total > detail::small_bytes) {
    detail::enter(*this, detail::CommCall::gather, bytes);
    auto* const mine = result + rank() * bytes;
    if (mine != own) std::memcpy(mine, own, std::size_t(bytes));
    for (int root = 0; bytes > detail::max_count && root < num_ranks(); ++root)
      detail::broadcast_now(*this, result + root * bytes, bytes, root);
    if (bytes > detail::max_count) return;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, int(bytes), MPI_BYTE, handle(), &request),
              "MPI_Iallgather");
    return detail::finish(request);
  }
  struct Gathered {
    int rank;
    detail::NamedCall named;
    [[nodiscard]] std::string text() const { return "rank " + std::to_string(rank) + " waits in " + named.text(); }
  };
  Gathered const call{rank(), detail::note_call(*state_, detail::CommCall::gather, bytes)};
  auto gathering = std::make_unique<detail::Gathering>();
  auto const* const first = static_cast<std::byte const*>(own);
  gathering->own.assign(first, first + bytes);
  gathering->all.resize(std::size_t(total));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(gathering->own.data(), int(bytes), MPI_BYTE, gathering->all.data(), int(bytes), MPI_BYTE,
                           handle(), &request),
            "MPI_Iallgather");
  std::function<std::string()> const describe = [&call] { return call.text() + " for the other ranks"; };
  detail::Patience patience(*this, describe);
  try {
    detail::CallUnderWay under_way(*state_, call.named.number);
    detail::wait(request, patience);
    under_way.note_met();
  } catch (...) {
    detail::keep_for_good(std::move(gathering));
    throw;
  }
  std::memcpy(result, gathering->all.data(), std::size_t(total));
}

std::vector<Index> Comm::gather_to_all(Index value) const {
  std::vector<Index> values(std::size_t(num_ranks()), 0);
  gather_to_all(&value, Index(sizeof value), values.data());
  return values;
}

std::string Comm::broadcast(std::string const& text, int root) const {
  Index size = Index(text.size());
  broadcast(&size, Index(sizeof size), root);
  std::string result = rank() == root ? text : std::string(std::size_t(size), '\0');
  broadcast(result.data(), size, root);
  return result;
}

void Comm::barrier() const { detail::enter(*this, detail::CommCall::barrier, 0); }

}  // namespace graticule
