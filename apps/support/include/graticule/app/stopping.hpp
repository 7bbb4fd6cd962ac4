// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace graticule::app {

/// Notes signals for as long as it lives, instead of ending the process; what the program had set comes back afterwards.
/// One at a time in a process.
class StopSignals {
 public:
  StopSignals(std::initializer_list<int> signals);
  StopSignals(StopSignals const&) = delete;
  StopSignals& operator=(StopSignals const&) = delete;
  ~StopSignals();

  /// The last one that this process has got, 0 for none.
  [[nodiscard]] int received() const noexcept;

 private:
  struct Handled {
    int number;
    struct sigaction before;
  };
  std::vector<Handled> handled_;
};

/// `USR1`, or its number where it has no name.
[[nodiscard]] std::string signal_name(int number);

/// The time at which a run has to end.
class TimeLimit {
 public:
  /// @param text `none`, a number of seconds from now, `MM:SS`, `HH:MM:SS`, or `auto`: a minute before the job ends, where SLURM says
  ///             when it does (`SLURM_JOB_END_TIME`)
  /// @throws `BadTimeLimit` (usage)
  explicit TimeLimit(std::string const& text);

  /// Of this process; infinite without a limit.
  [[nodiscard]] double seconds_left() const;

 private:
  std::optional<double> end_;  ///< seconds of the system's clock
};

/// Whether any rank has got a signal or has fewer than `seconds_needed` left. Collective, with the same answer on all ranks:
/// `signal USR1`, `the time limit`, or nothing. Cost: one all-reduce of 2 integers.
[[nodiscard]] std::optional<std::string> reason_to_stop(Comm const& comm, StopSignals const& signals,
                                                        TimeLimit const& limit, double seconds_needed);

}  // namespace graticule::app
