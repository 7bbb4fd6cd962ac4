// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::samples {

/// `agree` over the ranks of a domain, then over those of a data team: a failure of one is thrown on all. Collective.
inline void agree_in_turn(std::span<Comm const> comms, std::exception_ptr failure) {
  for (Comm const& comm : comms) {
    try {
      agree(comm, failure);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// A thread that runs one job at a time in the background. Jobs make no MPI calls.
class Background {
 public:
  Background() : thread_([this] { run(); }) {}
  Background(Background const&) = delete;
  Background& operator=(Background const&) = delete;
  /// Waits for the running job; its failure is discarded.
  ~Background();

  /// Starts `job` immediately. @pre no job is running: `wait` was called after the last `start`
  void start(std::function<void()> job);
  /// Blocks until the job, if any, has ended. @return what it threw, or nothing
  [[nodiscard]] std::exception_ptr wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  ///< under way, or none
  std::exception_ptr failure_;
  bool ending_ = false;
  std::thread thread_;
};

/// Two slots: the caller uses one while a thread fills the other with what is requested next.
///
/// A `Slot` has an equality-comparable member `request`, which specifies its contents. Declare the object after all
/// members that `fill` uses: its destructor waits for the thread.
template <class Slot>
class ReadAhead {
 public:
  using Request = decltype(Slot::request);

  /// @param comms whose ranks (of their product) agree on failures @param fill fills a requested slot, on the thread
  ReadAhead(std::vector<Comm> comms, std::function<void(Slot&)> fill)
      : comms_(std::move(comms)), fill_(std::move(fill)) {}

  /// The slot that holds the request, filled ahead or now; valid until the next call. Collective.
  /// @throws what `fill` threw on any rank, on all ranks. Cost: an all-reduce of 1 integer per communicator
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
    agree_in_turn(comms_, failure);
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
  std::vector<Comm> comms_;
  std::function<void(Slot&)> fill_;
  std::array<Slot, 2> slots_;
  std::size_t reading_ = 0;  ///< the slot that is, or will be, filled
  bool has_begun_ = false;   ///< the thread has, or had, something to do
  double seconds_waited_ = 0;
  Background thread_;
};

}  // namespace graticule::samples
