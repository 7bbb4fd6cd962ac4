// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/watch.hpp>

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace graticule::detail {

Watch::Watch(std::string subject, std::string place, Excuse excuse) noexcept
    : subject_(std::move(subject)), excuse_(std::move(excuse)), place_(std::move(place)) {
  try {
    rule_ = stall_rule();
    if (rule_.report_seconds > 0 || rule_.error_seconds > 0) thread_ = std::thread([this] { run(); });
  } catch (std::exception const&) {
    // Nobody watches where there is no thread, or where the environment's rule is none, which calls report.
  }
}

Watch::~Watch() {
  {
    std::lock_guard const lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watch::enter(std::string place) noexcept {
  std::lock_guard const lock(mutex_);
  place_ = std::move(place);
}

void Watch::run() {
  using Clock = std::chrono::steady_clock;
  auto const begin = Clock::now();
  auto counted_from = begin;
  bool reported = rule_.report_seconds <= 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return ended_; })) {
    auto const now = Clock::now();
    if (excuse_ && excuse_()) counted_from = now;
    double const waited = std::chrono::duration<double>(now - counted_from).count();
    if (rule_.error_seconds > 0 && waited >= rule_.error_seconds) {
      std::fprintf(stderr, "graticule: %s has waited in %s for %g s and ends\n", subject_.c_str(), place_.c_str(),
                   rule_.error_seconds);
      std::_Exit(1);
    }
    if (reported || waited < rule_.report_seconds) continue;
    reported = true;
    std::fprintf(stderr, "graticule: %s waits in %s for %g s\n", subject_.c_str(), place_.c_str(),
                 rule_.report_seconds);
  }
}

namespace {

double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

}  // namespace

Sleeps::Sleeps() noexcept {
  if (pthread_getcpuclockid(pthread_self(), &clock_) != 0) clock_ = CLOCK_MONOTONIC;
  cpu_begin_ = seconds_of(clock_);
  begin_ = seconds_of(CLOCK_MONOTONIC);
}

bool Sleeps::operator()() const noexcept {
  // A rank that polls may share its core with many others.
  constexpr double least_part = 0.05;
  return seconds_of(clock_) - cpu_begin_ < least_part * (seconds_of(CLOCK_MONOTONIC) - begin_);
}

}  // namespace graticule::detail
