// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <functional>
#include <string>

namespace graticule::detail {

/// Says in a polling loop when to yield the core, and when a wait has lasted too long.
///
/// With more ranks than cores every pause yields; else a wait spins for a millisecond first. After
/// `GRATICULE_STALL_SECONDS` (default 300, 0: never) the wait is named on stderr, once; in check mode it ends with the
/// error `StalledExchange`.
class Patience {
 public:
  /// @param describe what is waited for; asked only when it stalls
  Patience(bool oversubscribed, std::function<std::string()> const& describe)
      : describe_(describe), oversubscribed_(oversubscribed) {}

  void pause() {
    if (oversubscribed_ || (++num_pauses_ & 255U) == 0) look_at_clock();
  }
  /// Seconds since the first look at the clock.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  void look_at_clock();

  std::function<std::string()> const& describe_;
  double begin_ = -1;
  double seconds_ = 0;
  unsigned num_pauses_ = 0;
  bool oversubscribed_;
  bool reported_ = false;
};

/// Lets every wait of this process call `work` now and then, until it returns true or `owner` forgets it: what peers wait
/// for though this rank does not. Several works of one owner are one.
void work_while_waiting(void const* owner, std::function<bool()> work);
void forget_work(void const* owner) noexcept;

}  // namespace graticule::detail
