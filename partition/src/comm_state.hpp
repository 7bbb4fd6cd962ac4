// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "channel.hpp"
#include "node_members.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::detail {

/// Memory of the messages of a meeting.
struct MeetingMemory {
  /// Values that are always folded, and room for the caller's numbers.
  static constexpr int num_own = 3;
  static constexpr int most_values = 13;
  using Words = std::array<Index, num_own + most_values>;
  struct Round {
    Words sent;
    Words received;
    MPI_Request send = MPI_REQUEST_NULL;
    MPI_Request receive = MPI_REQUEST_NULL;
  };
  std::vector<Round> rounds;
};

/// A call of a communicator, as its ranks must agree on it.
enum class CommCall : std::uint8_t { barrier, maximum, sum, gather, broadcast, split };

/// `GRATICULE_WAIT`: whether waiting ranks leave their cores. Automatic: where a node has more ranks than cores.
enum class Wait : std::uint8_t { automatic, poll, sleep };
[[nodiscard]] Wait kind_of_wait();

/// A communicator. More than 20 members: what its ranks have settled when they met, and what each call changes; only
/// the calls of `Comm` touch them.
struct CommState {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int num_ranks = 1;
  int node_rank = 0;
  int num_node_ranks = 1;
  int num_nodes = 1;
  std::vector<int> node_ranks;  // ascending
  int max_tag = 0;
  int last_tag = 0;  // tag 0 is that of meetings
  bool oversubscribed = false;

  Channel* channel = nullptr;  ///< null until the ranks are known to have one
  std::vector<int> places;     ///< of the ranks in the channel
  std::int64_t id = 0;         ///< the same on all ranks, and of no other communicator
  int generation = 0;
  bool renewing = false;
  /// A call on `handle` was not ended, so that messages of it may still come: it is never freed, because another
  /// communicator would get its context, and them.
  bool given_up = false;

  Index num_calls = 0;
  Index num_met = 0;         ///< calls that all ranks have come to
  Index call_under_way = 0;  ///< number of the call in which this rank waits for others to come; 0: none
  std::uint64_t calls = 0;   ///< hash of the calls up to now
  std::unique_ptr<MeetingMemory> meeting;

  CommState();
  CommState(CommState const&) = delete;
  CommState& operator=(CommState const&) = delete;
  ~CommState();

  [[nodiscard]] static CommState& of(Comm const& comm) noexcept { return *comm.state_; }
  /// Sets what follows from the group of `ranks`. No communication.
  void meet_ranks(MPI_Comm ranks);
  /// Numbers of ranks, and what rank 0 alone adds. Summed as one array.
  struct Census {
    std::int64_t know_members = 0;  ///< of their node
    std::int64_t are_first_of_node = 0;
    std::int64_t are_crowded = 0;
    std::int64_t id = 0;
    std::int64_t have_wrong_environment = 0;
    std::array<std::int64_t, 4> check_as{};  ///< by kind of `GRATICULE_CHECK`
  };
  /// Sets what follows from the members of this node, and what all ranks must have in common. Collective on `ranks`.
  [[nodiscard]] Census count(Comm const& comm, MPI_Comm ranks, std::optional<NodeMembers> const& members);
  /// Compares the environment variables of waits and checks, of which a wrong one on one rank would leave the others
  /// waiting. @throws `BadOption` (usage) on all ranks, with the text of the first
  void require_one_environment(Census const& counts, MPI_Comm ranks) const;
  /// Sets what follows from a fresh `handle`, of `comm`. Collective.
  void look_around(Comm const& comm, bool all_know_members);

 private:
  std::int64_t own_id = 0;  ///< of this rank, for all counts of one communicator
};

/// `check_mpi` for calls that make communicators, of which MPI has a limited number: the error says how to do with
/// fewer.
void check_made(int code, std::string_view call);

/// A failure or end of another rank that ends the waits of this one.
struct FoundFailure {
  Comm::Failure failure;
  /// Another one may say more: this rank's own, or of the rank that the other one has waited for.
  bool may_follow = false;
};

/// Without those of ranks that have left the call in which this one waits: all ranks have come to it, and it ends.
[[nodiscard]] std::optional<FoundFailure> find_failure(Comm const& comm);

/// Makes a call that all ranks must come to known to `find_failure`.
class CallUnderWay {
 public:
  CallUnderWay(CommState& state, Index number) noexcept : state_(state) { state.call_under_way = number; }
  CallUnderWay(CallUnderWay const&) = delete;
  CallUnderWay& operator=(CallUnderWay const&) = delete;
  ~CallUnderWay() { state_.call_under_way = 0; }
  /// All ranks have come.
  void note_met() noexcept { state_.num_met = state_.call_under_way; }

 private:
  CommState& state_;
};

class Patience;
/// Blocks until `request` has ended, or the patience has.
void wait(MPI_Request& request, Patience& patience);

/// Where the messages of a meeting go.
struct MeetingPlace {
  MPI_Comm handle;
  int tag;
  int const* places = nullptr;  ///< of the ranks in `handle`; null: their own
  bool keyed = false;           ///< the first two words are a key, and messages with another are thrown away
};

/// Folds `words` by their maximum over all ranks, and returns when all have come: messages in ceil(log2 n) rounds.
/// Source: the dissemination barrier of Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988;
/// a maximum may be folded in any order and any number of times. Collective.
/// @param describe_call what this rank does, for a wait that stalls: `in a barrier`
/// @pre no more words than `MeetingMemory::Words` has
void meet(Comm const& comm, MeetingPlace const& place, std::span<Index> words,
          std::function<std::string()> const& describe_call);

/// Begins a call of the communicator, in which all ranks have come when this returns, and folds `values`. Throws
/// `CallDisagreement` on all ranks when they make different calls.
/// @pre at most `MeetingMemory::most_values` values
void enter(Comm const& comm, CommCall call, Index count, std::span<Index> values = {});

/// Throws `rule` with the values of rank 0 and of the lowest rank that differs from it. Collective.
[[noreturn]] void throw_difference(Comm const& comm, std::string_view rule, std::uint64_t fingerprint,
                                   std::string const& described);

}  // namespace graticule::detail
