// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "background.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

namespace graticule::samples {

/// Two slots: the caller uses one while a thread fills the other with what is requested next.
///
/// A `Slot` has an equality-comparable member `request`, which specifies its contents. Declare the object after all
/// members that `fill` uses: its destructor waits for the thread.
template <class Slot>
class ReadAhead {
 public:
  using Request = decltype(Slot::request);

  /// @param world all ranks, which agree on failures  @param fill fills a slot as its request says, on the thread
  ReadAhead(Comm const& world, std::function<void(Slot&)> fill) : world_(world), fill_(std::move(fill)) {}

  /// The slot that holds the request, filled ahead or now; valid until the next call. Collective.
  /// @throws what `fill` threw on any rank, on all ranks  Cost: one all-reduce of 1 integer
  [[nodiscard]] Slot& take(Request const& request) {
    using Clock = std::chrono::steady_clock;
    auto const begin_of_wait = Clock::now();
    if (!has_begun_ || slots_[reading_].request != request) {
      wait();  // Nobody needs what the thread reads, nor its failure.
      begin(request);
    }
    auto const failure = thread_.wait();
    seconds_waited_ += std::chrono::duration<double>(Clock::now() - begin_of_wait).count();
    has_begun_ = false;
    agree(world_, failure);
    return slots_[std::exchange(reading_, 1 - reading_)];
  }
  /// Begins to fill the slot that was not taken last. @pre the thread is idle, as after `take`
  void begin(Request request) {
    Slot& slot = slots_[reading_];
    slot.request = std::move(request);
    has_begun_ = true;
    thread_.start([this, &slot] { fill_(slot); });
  }
  /// Blocks until the thread is idle. A failure is discarded, and the next `take` fills the slot again.
  void wait() {
    if (thread_.wait()) has_begun_ = false;
  }

  /// Seconds that `take` has waited for the thread.
  [[nodiscard]] double seconds_waited() const noexcept { return seconds_waited_; }
  [[nodiscard]] std::array<Slot, 2>& slots() noexcept { return slots_; }

 private:
  Comm const& world_;
  std::function<void(Slot&)> fill_;
  std::array<Slot, 2> slots_;
  std::size_t reading_ = 0;  ///< the slot that is, or will be, filled
  bool has_begun_ = false;   ///< the thread has, or had, something to do
  double seconds_waited_ = 0;
  Background thread_;
};

}  // namespace graticule::samples
