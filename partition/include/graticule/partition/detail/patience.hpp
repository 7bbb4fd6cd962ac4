// SPDX-License-Identifier: BSD-3-Clause
// The polling loop of every wait of the project, and its environment variables.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/stall.hpp>

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graticule::detail {

/// What makes no sense in the environment variables of waits and checks, which are then as if they were not set. Ranks
/// compare it when they make a communicator.
[[nodiscard]] std::optional<Error> const& wrong_environment();
/// Number and name of the value of `GRATICULE_CHECK`, which is the same on all ranks of a communicator.
[[nodiscard]] int kind_of_check();
[[nodiscard]] std::string_view name_of_check(int kind);
/// `GRATICULE_CHECK=comm` (or `all`): every call is compared between ranks, and a stalled call ends with an error.
[[nodiscard]] bool checks_calls();
/// `GRATICULE_CHECK=cells` (or `all`): cells are poisoned before a call, and each cell of a plan is verified.
[[nodiscard]] bool checks_cells();
/// Seconds for which the destructor of a plan waits until its peers have read and sent their messages: 10, or the stall
/// time if that is less; 1 while an exception unwinds the stack.
[[nodiscard]] double seconds_to_end();

/// Replaces the rule for the waits of this thread during its lifetime.
class StallScope {
 public:
  explicit StallScope(StallRule const& rule) noexcept;
  StallScope(StallScope const&) = delete;
  StallScope& operator=(StallScope const&) = delete;
  ~StallScope();

 private:
  StallRule rule_;
  StallRule const* outer_;
};

/// For polling loops where ranks outnumber cores: sleeps for the least time that lets another process run (about 60 us;
/// yielding leaves a waiting rank on its core for its whole slice, 3 ms).
void leave_core();

/// Used in a polling loop: yields the core, and detects waits that last too long or are for a rank that has given up.
///
/// With more ranks than cores every pause leaves the core; otherwise a wait spins for a millisecond, then yields, and
/// leaves the core after 20 ms. `pause` throws `PeerFailed` when a rank of the communicator has announced a failure or
/// has ended, and `StalledExchange` according to the `StallRule`. The polled operation is then still in progress, and
/// MPI may write to its memory: see `keep_for_good`.
/// Example: `for (int done = test(); !done; done = test()) patience.pause();`
class Patience {
 public:
  /// Both arguments must outlive it. @param describe returns the text of the report (`rank 0 waits in ...`); called
  /// only when the wait stalls
  Patience(Comm const& comm, std::function<std::string()> const& describe)
      : comm_(comm), describe_(describe), oversubscribed_(comm.oversubscribed()) {}
  Patience(Comm const& comm, std::function<std::string()>&& describe) = delete;

  void pause() {
    if (oversubscribed_ || (++num_pauses_ & 255U) == 0) look_at_clock();
  }
  /// Seconds since the first reading of the clock.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  void look_at_clock();
  void look_for_failures();
  void look_for_stall();
  /// Asks the other ranks whether they wait; true when they have answered, or the time for answers is over.
  [[nodiscard]] bool has_answers();
  /// Text of the answers.
  [[nodiscard]] std::string others();

  Comm const& comm_;
  std::function<std::string()> const& describe_;
  double begin_ = -1;
  double seconds_ = 0;
  double failed_since_ = -1;
  double asked_since_ = 0;
  std::int64_t question_ = 0;  ///< 0: not asked
  unsigned num_pauses_ = 0;
  bool oversubscribed_;
  bool reported_ = false;
};

/// Called when a wait stalls: returns what this thread is doing, to be appended to the report, or nothing.
void set_wait_context(std::string (*text)()) noexcept;

/// Lets every wait of this process call `work` from time to time, until it returns true or `owner` removes it: for work
/// that peers wait for although this rank does not. Several calls with one owner count as one.
void work_while_waiting(void const* owner, std::function<bool()> work);
void forget_work(void const* owner) noexcept;

/// Tests a request without blocking. A request that has ended becomes `MPI_REQUEST_NULL`, which has ended as well.
/// @throws `MpiError`
[[nodiscard]] inline bool has_ended(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return true;
  int ended = 0;
  check_mpi(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
  return ended != 0;
}

/// Keeps memory that MPI may still write to, or a peer may still read, until the process ends.
template <class Memory>
void keep_for_good(Memory memory) {
  static auto& kept = *new std::vector<Memory>;
  kept.push_back(std::move(memory));
}

}  // namespace graticule::detail
