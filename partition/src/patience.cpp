// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/patience.hpp>

#include <cstdio>
#include <map>
#include <thread>

namespace graticule::detail {

namespace {

constexpr double spinning_seconds = 1e-3;
/// What a rank sent before it gave up may still be under way.
constexpr double seconds_of_grace = 0.1;

using Works = std::map<void const*, std::function<bool()>>;

Works& works() {
  // Never destroyed: plans may live longer.
  static auto& all = *new Works;
  return all;
}

void do_works() {
  std::erase_if(works(), [](Works::value_type const& work) {
    try {
      return work.second();
    } catch (...) {
      // The next call of its plan reports.
      return true;
    }
  });
}

}  // namespace

namespace {

std::string (*wait_context)() = nullptr;

}  // namespace

void set_wait_context(std::string (*text)()) noexcept { wait_context = text; }

void work_while_waiting(void const* owner, std::function<bool()> work) { works()[owner] = std::move(work); }

void forget_work(void const* owner) noexcept { works().erase(owner); }

void Patience::look_at_clock() {
  double const now = MPI_Wtime();
  if (begin_ < 0) begin_ = now;
  seconds_ = now - begin_;
  if (oversubscribed_ || seconds_ > spinning_seconds) std::this_thread::yield();
  if (!works().empty()) do_works();
  if (seconds_ < spinning_seconds) return;
  look_for_failures();
  look_for_stall();
}

void Patience::look_for_failures() {
  auto const failure = comm_.failed_peer();
  if (!failure) return;
  if (failed_since_ < 0) failed_since_ = seconds_;
  if (seconds_ - failed_since_ < seconds_of_grace) return;
  throw Error(failure->fault, "PeerFailed", "rank " + std::to_string(failure->rank) + ": " + failure->text);
}

void Patience::look_for_stall() {
  auto const rule = stall_rule();
  bool const is_error = rule.error_seconds > 0 && seconds_ >= rule.error_seconds;
  bool const is_late = !reported_ && rule.report_seconds > 0 && seconds_ >= rule.report_seconds;
  if (!is_error && !is_late) return;
  auto const text =
      describe_() + " for " + std::to_string(int(seconds_)) + " s" + (wait_context ? wait_context() : std::string());
  if (is_error) throw Error("StalledExchange", text);
  reported_ = true;
  std::fprintf(stderr, "graticule: %s\n", text.c_str());
}

}  // namespace graticule::detail
