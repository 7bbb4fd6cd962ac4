// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace graticule::messages {

/// Compares what the ranks of a communicator are about to do, without blocking: rank 0 announces its arrival, compares,
/// and answers.
///
/// There are two errors, with the same text on all ranks that can get it. `CallDisagreement`: two ranks and their
/// calls; the comparison can be used again. `StalledExchange`: the ranks that have not arrived in time, also on those
/// that arrive later; then it cannot be used any more. The destructor waits until MPI has sent the last answers, unless
/// a rank has failed. Cost: two messages from rank 0 to each other rank and one back, of 0.4 to 1.2 kB.
class CallComparison {
 public:
  /// Takes two tags: same calls on all ranks.
  explicit CallComparison(Comm comm);

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

  void answer(std::string const& verdict);
  /// The ranks that this one waits for; on others than rank 0 that is rank 0, or none while it collects.
  [[nodiscard]] std::vector<int> missing();
  [[noreturn]] void end_stalled(Error const& own, double waited_seconds);

  Comm comm_;
  int tag_;
  int arrival_tag_;
  bool started_ = false;
  std::shared_ptr<Messages> messages_;
  std::vector<std::shared_ptr<Messages>> sent_;  ///< of earlier calls, while MPI may still send their answers
};

}  // namespace graticule::messages
