// SPDX-License-Identifier: BSD-3-Clause
// Calls of libraries that may wait for ever, watched from a thread of its own.
#pragma once

#include <graticule/partition/stall.hpp>

#include <time.h>

#include <functional>
#include <string>

namespace graticule::detail {

/// Watches calls in which this thread may wait for other ranks, or for a device, without a `Patience`: in HDF5, MPI-IO,
/// the ends of libraries. By the rule for waits (`stall_rule`) it writes one line to stderr, and later another one and
/// ends the process with status 1, because nobody can be told while the call lasts; the launcher then ends the others.
///
/// Cost: 0.3 us (measured). One thread watches all, which the first of them starts and which lives as long as the
/// process: to wait for the end of a thread costs milliseconds where ranks poll on all cores.
class Watch {
 public:
  /// What has lasted is not counted where it returns true. Called in the other thread, ten times a second.
  using Excuse = std::function<bool()>;

  /// @param subject and `place` make the line: `rank 0` and `H5Fclose of u.nc` give `rank 0 waits in H5Fclose of u.nc`
  Watch(std::string subject, std::string place, Excuse excuse) noexcept;
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;
  ~Watch();

  /// What is called from now on.
  void enter(std::string place) noexcept;

 private:
  friend class Watches;

  StallRule rule_;
  std::string subject_;
  std::string place_;
  Excuse excuse_;
  double counted_from_ = 0;
  bool reported_ = false;
  bool is_watched_ = false;
};

/// Whether the thread that made it has hardly computed lately: it sleeps in the system, as for a disk, and does not
/// poll for messages of other ranks.
class Sleeps {
 public:
  Sleeps() noexcept;
  /// True where it has slept for the last 0.3 s or more; false until that much time has passed since the last answer.
  [[nodiscard]] bool operator()() noexcept;

 private:
  clockid_t clock_{};
  double cpu_begin_ = 0;
  double begin_ = 0;
};

}  // namespace graticule::detail
