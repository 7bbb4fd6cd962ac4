// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace graticule::app {

/// Records signals during its lifetime instead of ending the process, and restores the previous handlers afterwards.
/// A SIGHUP that is ignored, as by `nohup`, stays ignored.
/// One object at a time per process.
class StopSignals {
 public:
  StopSignals(std::initializer_list<int> signals);
  StopSignals(StopSignals const&) = delete;
  StopSignals& operator=(StopSignals const&) = delete;
  ~StopSignals();

  /// The last signal that this process received, 0 for none.
  [[nodiscard]] int received() const noexcept;

 private:
  struct Handled {
    int number;
    struct sigaction before;
  };
  std::vector<Handled> handled_;
};

/// `USR1`, or its number if it has no name.
[[nodiscard]] std::string signal_name(int number);

/// The time at which a run must end.
class TimeLimit {
 public:
  /// @param text `none`, a number of seconds from now, `MM:SS`, `HH:MM:SS`, or `auto`: a minute before the end of the
  ///             job, where SLURM sets it (`SLURM_JOB_END_TIME`)
  /// @throws `BadOption` (usage)
  explicit TimeLimit(std::string const& text);

  /// Of this process; infinite without a limit.
  [[nodiscard]] double seconds_left() const;

 private:
  std::optional<double> end_;  ///< seconds of the system's clock
};

/// Whether any rank has received a signal or has less than `seconds_needed` left. Collective, with the same result on
/// all ranks: `signal USR1`, `the time limit`, or nothing. Cost: one all-reduce of 2 integers.
[[nodiscard]] std::optional<std::string> reason_to_stop(Comm const& comm, StopSignals const& signals,
                                                        TimeLimit const& limit, double seconds_needed);

/// For runs that leave no checkpoint. Collective. @throws `Interrupted` where a rank has received a signal
void end_if_stopped(Comm const& comm, StopSignals const& signals);

}  // namespace graticule::app
