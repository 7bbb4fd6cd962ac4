// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>

#include "comm_state.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <thread>
#include <utility>

#ifdef GRATICULE_SIMULATED
#include <smpi/smpi_helpers_internal.h>
#endif

namespace graticule::detail {

namespace {

constexpr double spinning_seconds = 1e-3;
/// After this the core is left, too: an accident or slow work of another rank, beside which a late return is small.
[[maybe_unused]] constexpr double yielding_seconds = 2e-2;
/// The rank that failed may have left an exchange to which others come late; ranks that wait in vain say so one after
/// another, and the first notice to arrive need not be that of the cause; what a rank sent before its end may still be
/// under way.
constexpr double seconds_of_grace = 0.1;
/// How long a wait that stalls waits for answers of the other ranks, and of how many ranks at most.
constexpr double seconds_for_answers = 0.2;
constexpr int most_asked = 64;
/// Answers that a report repeats.
constexpr int most_repeated = 4;

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

/// More about the wait that stalls.
std::string (*wait_context)() = nullptr;

}  // namespace

// By sched_yield() of Linux 6.6 and later a process goes on until its slice has ended.
#ifdef GRATICULE_SIMULATED
void leave_core() { smpi_usleep(1); }
#else
void leave_core() { std::this_thread::sleep_for(std::chrono::microseconds(10)); }
#endif

namespace {

/// Lets others proceed after a wait of as many seconds.
void yield(double seconds, [[maybe_unused]] bool oversubscribed) {
#ifdef GRATICULE_SIMULATED
  // Simulated time passes; longer pauses in longer waits keep the number of calls small.
  timespec pause{};
  pause.tv_nsec = long(std::clamp(seconds / 8, 2e-7, 1e-2) * 1e9);
  smpi_nanosleep(&pause, nullptr);
#else
  if (oversubscribed || seconds > yielding_seconds)
    leave_core();
  else if (seconds > spinning_seconds)
    std::this_thread::yield();
#endif
}

}  // namespace

void set_wait_context(std::string (*text)()) noexcept { wait_context = text; }

void work_while_waiting(void const* owner, std::function<bool()> work) { works()[owner] = std::move(work); }

void forget_work(void const* owner) noexcept { works().erase(owner); }

void Patience::look_at_clock() {
  double const now = MPI_Wtime();
  if (begin_ < 0) begin_ = now;
  seconds_ = now - begin_;
  yield(seconds_, oversubscribed_);
  if (!works().empty()) do_works();
  if (seconds_ < spinning_seconds) return;
  look_for_failures();
  if (auto* const channel = CommState::of(comm_).channel) channel->answer(describe_);
  look_for_stall();
}

void Patience::look_for_failures() {
  auto const found = find_failure(comm_);
  if (!found) return;
  if (failed_since_ < 0) failed_since_ = seconds_;
  // Of calls of the communicator it is known whether that rank has left them.
  bool const may_end = CommState::of(comm_).call_under_way == 0;
  if ((found->may_follow || may_end) && seconds_ - failed_since_ < seconds_of_grace) return;
  CommState::of(comm_).given_up = true;
  auto const& failure = found->failure;
  throw Error(failure.fault, "PeerFailed", "rank " + std::to_string(failure.rank) + ": " + failure.text);
}

void Patience::look_for_stall() {
  auto const rule = stall_rule();
  bool const is_error = rule.error_seconds > 0 && seconds_ >= rule.error_seconds;
  bool const is_late = !reported_ && rule.report_seconds > 0 && seconds_ >= rule.report_seconds;
  if (!is_error && !is_late) return;
  if (!has_answers()) return;
  auto const text = describe_() + " for " + std::to_string(int(seconds_)) + " s" +
                    (wait_context ? wait_context() : std::string()) + others();
  if (is_error) {
    CommState::of(comm_).given_up = true;
    throw Error("StalledExchange", text);
  }
  reported_ = true;
  std::fprintf(stderr, "graticule: %s\n", text.c_str());
}

bool Patience::has_answers() {
  auto const& s = CommState::of(comm_);
  if (!s.channel || s.num_ranks > most_asked) return true;
  if (question_ == 0) {
    question_ = s.channel->ask(s.places);
    asked_since_ = seconds_;
  }
  auto const answers = s.channel->answers(s.places, question_);
  auto const missing = std::count(answers.begin(), answers.end(), std::string());
  return missing == 1 || seconds_ - asked_since_ >= seconds_for_answers;  // this rank does not answer itself
}

std::string Patience::others() {
  auto const& s = CommState::of(comm_);
  if (question_ == 0) return "";
  auto const answers = s.channel->answers(s.places, std::exchange(question_, 0));
  std::string missing;
  std::string waiting;
  int num_repeated = 0;
  for (int r = 0; r < s.num_ranks; ++r) {
    auto const& answer = answers[std::size_t(r)];
    if (r == s.rank) continue;
    if (answer.empty()) missing += " " + std::to_string(r);
    if (answer.empty() || ++num_repeated > most_repeated) continue;
    waiting += "; " + (answer.rfind("rank ", 0) == 0 ? "" : "rank " + std::to_string(r) + " ") + answer;
  }
  return (missing.empty() ? " (all ranks wait" : " (no answer of rank" + missing) + waiting + ")";
}

}  // namespace graticule::detail
