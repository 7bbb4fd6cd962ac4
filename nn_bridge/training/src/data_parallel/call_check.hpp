// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <memory>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// Compares what the ranks of a team are about to do, without blocking: rank 0 says that it has come, compares, and answers.
///
/// Waits for it are those of the `StallRule`. Ranks that come late find the answer that names them. After an error it is of
/// no use any more. Its end waits until MPI has sent the last answers, unless a rank has failed.
class CallCheck {
 public:
  /// Same calls on all ranks.
  explicit CallCheck(Comm team);

  /// @param described what this rank is about to do; compared letter by letter, the first 400
  void start(std::string const& described);
  [[nodiscard]] bool started() const noexcept { return started_; }
  /// True once all ranks are known to do the same. @throws `CallDisagreement` on all ranks
  bool advance();
  /// The others have not come in time. @param call what this rank does, in fewer words than are compared
  /// @throws `StalledReduction` with the rank that is missing, on ranks that come later too
  [[noreturn]] void give_up(std::string const& call, double waited);
  /// Blocks. @throws as `advance`; `StalledReduction`, `PeerFailed`
  void compare(std::string const& described);

 private:
  struct Messages;

  void answer(std::string const& verdict);

  Comm team_;
  int tag_;
  int come_tag_;
  bool started_ = false;
  std::shared_ptr<Messages> messages_;
  std::vector<std::shared_ptr<Messages>> sent_;  ///< of calls before, while MPI may still send their answers
};

}  // namespace graticule::training::detail
