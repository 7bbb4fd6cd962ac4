// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/patience.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// What becomes of a wait that lasts too long: what the `StallRule` says, or the error `StalledExchange` when it would be
/// reported.
enum class Stall { by_rule, fail };

/// Polls `done` with patience. @param describe `rank 0 waits for ...` @throws `StalledExchange`, `PeerFailed`
void wait_until(Comm const& comm, std::function<bool()> const& done, std::function<std::string()> const& describe,
                Stall stall);

struct MessageCounts {
  Index messages = 0;  ///< sent by this rank
  Index bytes = 0;
};

using graticule::detail::keep_for_good;

/// Messages in flight between the ranks of a team; all end together.
///
/// Memory of data must live until `wait` has returned, and longer when it has thrown: see `abandoned`.
class Messages {
 public:
  Messages() = default;
  Messages(Messages const&) = delete;
  Messages& operator=(Messages const&) = delete;

  void send(Comm const& team, void const* data, Index bytes, int to, int tag, MessageCounts& counts);
  void receive(Comm const& team, void* data, Index bytes, int from, int tag);
  [[nodiscard]] bool test();
  /// @param what is waited for, for the message of a stalled wait
  void wait(Comm const& team, std::string const& what, Stall stall);
  /// MPI may still write to the memory of messages that `wait` has given up.
  [[nodiscard]] bool abandoned() const noexcept { return abandoned_; }

 private:
  std::vector<MPI_Request> sends_;
  std::vector<MPI_Request> receives_;
  bool abandoned_ = false;
};

/// Compares what the ranks of a team are about to do.
class CallComparison {
 public:
  /// Collective.
  explicit CallComparison(Comm const& team) : team_(team), tag_(team.next_tag()) {}
  /// Throws `CallDisagreement` on all ranks, with two that differ, unless `call` is the same on all; `StalledExchange` when
  /// some do not come in time. Collective. Cost: a message to and from rank 0.
  void compare(std::string const& call);

 private:
  Comm team_;
  int tag_;
  Index number_ = 0;
};

}  // namespace graticule::training::detail
