// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <memory>
#include <string>

namespace graticule::nn::detail {

/// `GRATICULE_CHECK=comm` (or `all`).
[[nodiscard]] bool checks_calls_by_environment();
/// `GRATICULE_STALL_SECONDS`, 300 unless set; 0: never.
[[nodiscard]] double stall_seconds_by_environment();

/// Compares what the ranks of a team are about to do, without blocking: rank 0 compares, and answers.
///
/// Ranks that come late find the answer that names them. After an error it is of no use any more.
class CallCheck {
 public:
  /// Same calls on all ranks.
  explicit CallCheck(Comm team);

  /// @param described what this rank is about to do; compared letter by letter, the first 400
  void start(std::string const& described);
  [[nodiscard]] bool started() const noexcept { return started_; }
  /// True once all ranks are known to do the same. @throws `CallDisagreement` on all ranks
  bool advance();
  /// The others have not come in time. @throws `StalledReduction`, on ranks that come later too; returns where rank 0 has
  ///         still to say who is missing
  void give_up(double waited, double patience);
  /// Blocks. @throws as `advance`, `StalledReduction`
  void compare(std::string const& described, double patience);

 private:
  struct Messages;

  void answer(std::string const& verdict);

  Comm team_;
  int tag_;
  bool started_ = false;
  std::string described_;
  std::shared_ptr<Messages> messages_;
};

}  // namespace graticule::nn::detail
