// SPDX-License-Identifier: BSD-3-Clause
// How every wait of the project waits, and what the environment says about it.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/stall.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

/// `GRATICULE_CHECK=comm` (or `all`): every call is compared among ranks, and a stalled one ends with an error.
/// @throws `BadCheck`, `BadStallSeconds` (usage), as all of these, for a value of the environment that has no meaning
[[nodiscard]] bool checks_calls();
/// `GRATICULE_CHECK=cells` (or `all`): cells are poisoned before a call, and each cell of a plan is verified.
[[nodiscard]] bool checks_cells();
/// Seconds that a plan which is destroyed gives its peers to read or to send what they will: 10, or the time for stalls;
/// 1 while an exception unwinds the stack.
[[nodiscard]] double seconds_to_end();

/// Another rule for the waits of this thread, for as long as it lives.
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

/// Says in a polling loop when to yield the core, and when a wait has lasted too long or is for a rank that has given up.
///
/// With more ranks than cores every pause yields; else a wait spins for a millisecond first. `pause` throws `PeerFailed`
/// when a rank of the communicator has announced a failure or has ended, and `StalledExchange` as the `StallRule` says;
/// what the loop polls is then still under way, and MPI may write to its memory: see `keep_for_good`.
/// Example: `for (int done = test(); !done; done = test()) patience.pause();`
class Patience {
 public:
  /// Both arguments must outlive it. @param describe what is waited for (`rank 0 waits in ...`); asked only when it stalls
  Patience(Comm const& comm, std::function<std::string()> const& describe)
      : comm_(comm), describe_(describe), oversubscribed_(comm.oversubscribed()) {}
  Patience(Comm const& comm, std::function<std::string()>&& describe) = delete;

  void pause() {
    if (oversubscribed_ || (++num_pauses_ & 255U) == 0) look_at_clock();
  }
  /// Seconds since the first look at the clock.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  void look_at_clock();
  void look_for_failures();
  void look_for_stall();
  /// Asks the other ranks whether they wait; true when they have answered, or do not in time.
  [[nodiscard]] bool has_answers();
  /// What they have answered, in words.
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

/// Asked for what this thread is about when a wait stalls: a text that follows on what is waited for, or nothing.
void set_wait_context(std::string (*text)()) noexcept;

/// Lets every wait of this process call `work` now and then, until it returns true or `owner` forgets it: what peers wait
/// for though this rank does not. Several works of one owner are one.
void work_while_waiting(void const* owner, std::function<bool()> work);
void forget_work(void const* owner) noexcept;

/// Holds memory that MPI may still write to, or a peer may still read, until the process ends.
template <class Memory>
void keep_for_good(Memory memory) {
  static auto& kept = *new std::vector<Memory>;
  kept.push_back(std::move(memory));
}

}  // namespace graticule::detail
