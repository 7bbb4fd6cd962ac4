// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/partition/detail/watch.hpp>

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

}  // namespace

/// Those of this process, and the thread that looks at them.
class Watches {
 public:
  /// Never destroyed: the thread uses it until the process ends.
  static Watches& get() {
    static auto* const all = new Watches;
    return *all;
  }

  void add(Watch& watch) {
    std::lock_guard const lock(mutex_);
    if (!has_thread_) {
      start();
      has_thread_ = true;
    }
    watches_.push_back(&watch);
    if (rests_) changed_.notify_one();
  }
  void remove(Watch& watch) {
    std::lock_guard const lock(mutex_);
    std::erase(watches_, &watch);
  }
  void enter(Watch& watch, std::string place) {
    std::lock_guard const lock(mutex_);
    watch.place_ = std::move(place);
  }

 private:
  /// Signals are for the threads of the program.
  void start() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { run(); }).detach();
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      rests_ = watches_.empty();
      if (rests_) changed_.wait(lock, [this] { return !watches_.empty(); });
      rests_ = false;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      lock.lock();
      for (auto* watch : watches_) look_at(*watch);
    }
  }

  static void look_at(Watch& watch) {
    auto const& rule = watch.rule_;
    double const now = seconds_of(CLOCK_MONOTONIC);
    if (watch.excuse_ && watch.excuse_()) watch.counted_from_ = now;
    double const waited = now - watch.counted_from_;
    if (rule.error_seconds > 0 && waited >= rule.error_seconds) {
      std::fprintf(stderr, "graticule: %s has waited in %s for %g s and ends\n", watch.subject_.c_str(),
                   watch.place_.c_str(), rule.error_seconds);
      std::_Exit(1);
    }
    if (watch.reported_ || rule.report_seconds <= 0 || waited < rule.report_seconds) return;
    watch.reported_ = true;
    std::fprintf(stderr, "graticule: %s waits in %s for %g s\n", watch.subject_.c_str(), watch.place_.c_str(),
                 rule.report_seconds);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watch*> watches_;
  bool has_thread_ = false;
  bool rests_ = false;
};

Watch::Watch(std::string subject, std::string place, Excuse excuse) noexcept
    : subject_(std::move(subject)),
      place_(std::move(place)),
      excuse_(std::move(excuse)),
      counted_from_(seconds_of(CLOCK_MONOTONIC)) {
  try {
    rule_ = stall_rule();
    if (rule_.report_seconds <= 0 && rule_.error_seconds <= 0) return;
    Watches::get().add(*this);
    is_watched_ = true;
  } catch (std::exception const&) {
    // Nobody watches where there is no thread, or where the environment's rule is none, which calls report.
  }
}

Watch::~Watch() {
  if (is_watched_) Watches::get().remove(*this);
}

void Watch::enter(std::string place) noexcept {
  if (is_watched_) Watches::get().enter(*this, std::move(place));
}

Sleeps::Sleeps() noexcept {
  if (pthread_getcpuclockid(pthread_self(), &clock_) != 0) clock_ = CLOCK_MONOTONIC;
  cpu_begin_ = seconds_of(clock_);
  begin_ = seconds_of(CLOCK_MONOTONIC);
}

bool Sleeps::operator()() noexcept {
  constexpr double window = 0.3;
  // A rank that polls may share its core with many others.
  constexpr double least_part = 0.05;
  double const now = seconds_of(CLOCK_MONOTONIC);
  if (now - begin_ < window) return false;
  double const cpu = seconds_of(clock_);
  bool const slept = cpu - cpu_begin_ < least_part * (now - begin_);
  cpu_begin_ = cpu;
  begin_ = now;
  return slept;
}

}  // namespace graticule::detail
