// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace graticule::messages {

/// Compares what the ranks of a communicator are about to do, without blocking: rank 0 announces its arrival, compares,
/// and answers. With more than 17 ranks, other ranks do the same for those below them, and report to rank 0.
///
/// There are two errors, with the same text on all ranks that can get it. `CallDisagreement`: two ranks and their
/// calls; the comparison can be used again. `StalledExchange`: the ranks that have not arrived in time, also on those
/// that arrive later; then it cannot be used any more. The destructor waits until MPI has sent the last answers, unless
/// a rank has failed. Cost: two messages from a rank to each rank below it, at most 16 or the root of the number of
/// ranks, and one back, of 0.8 and 1.2 kB; three messages of a rank and the one above it.
class CallComparison {
 public:
  /// Takes two tags: same calls on all ranks. @param most_below ranks that report to one; 0: so many that two levels
  ///        are enough, and at least 16
  explicit CallComparison(Comm comm, int most_below = 0);

  /// Announces this rank's call. @param described for messages, up to 400 characters of it
  /// @param fingerprint what is compared
  void start(std::string const& described, std::uint64_t fingerprint);
  void start(std::string const& described);
  [[nodiscard]] bool started() const noexcept { return started_; }
  /// True when all ranks are known to make the same call. @throws `CallDisagreement` on all ranks, and
  /// `StalledExchange`
  ///         when the others have given up
  bool advance();
  /// Ends a call for which others have not arrived. @param call this rank's call, in fewer words than were compared
  /// @throws `StalledExchange` with the ranks that are missing
  [[noreturn]] void give_up(std::string const& call, double waited_seconds);
  /// Blocks. @throws as `advance`; `StalledExchange` according to the `StallRule`, `PeerFailed`
  void compare(std::string const& described, std::uint64_t fingerprint);
  void compare(std::string const& described);

 private:
  struct Messages;

  /// Ranks from `first` to before `end` report to one.
  struct Below {
    int first;
    int end;
  };

  [[nodiscard]] int above() const noexcept;
  [[nodiscard]] Below below(int rank) const noexcept;
  void receive_verdict();
  void send_up(void const* report);
  /// All ranks below have reported.
  void report();
  void answer(std::string const& verdict);
  /// The ranks below that have not reported, as text.
  [[nodiscard]] std::string missing();
  [[nodiscard]] std::string waits(std::string const& call);
  /// On rank 0: asks the ranks that have not reported whom they wait for.
  [[nodiscard]] std::string words_of_waiting();
  [[noreturn]] void end_stalled(Error const& own, double waited_seconds);

  Comm comm_;
  int tag_;
  int arrival_tag_;
  int most_below_;
  bool started_ = false;
  std::shared_ptr<Messages> messages_;
  std::vector<std::shared_ptr<Messages>> sent_;  ///< of earlier calls, while MPI may still send their answers
};

}  // namespace graticule::messages
