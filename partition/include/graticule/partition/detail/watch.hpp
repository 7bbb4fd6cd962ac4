// SPDX-License-Identifier: BSD-3-Clause
// Calls of libraries that may wait for ever, watched from a thread of its own.
#pragma once

#include <graticule/partition/stall.hpp>

#include <time.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace graticule::detail {

/// Watches calls in which this thread may wait for other ranks, or for a device, without a `Patience`: in HDF5, MPI-IO,
/// the ends of libraries. By the rule for waits (`stall_rule`) it writes one line to stderr, and later another one and
/// ends the process with status 1, because nobody can be told while the call lasts; the launcher then ends the others.
///
/// Cost: a thread, about 50 us.
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
  void run();

  StallRule rule_;
  std::string subject_;
  Excuse excuse_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string place_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses all others
};

/// True where the calling thread has hardly computed since the object was made: it sleeps in the system, as for a disk,
/// and does not poll for messages of other ranks.
class Sleeps {
 public:
  Sleeps() noexcept;
  /// Of the thread that made it; from any other one.
  [[nodiscard]] bool operator()() const noexcept;

 private:
  clockid_t clock_{};
  double cpu_begin_ = 0;
  double begin_ = 0;
};

}  // namespace graticule::detail
