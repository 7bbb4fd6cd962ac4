// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/numbers.hpp>
#include <graticule/app/stopping.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace graticule::app {

namespace {

/// What remains for the ends of a job: outputs, the script's last lines.
constexpr double seconds_before_the_job_ends = 60;

volatile std::sig_atomic_t last_received = 0;

void note(int number) { last_received = number; }

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Of `seconds`, `MM:SS` or `HH:MM:SS`.
std::optional<double> seconds_of(std::string_view text) {
  double seconds = 0;
  for (int part = 0; part < 3; ++part) {
    auto const colon = text.find(':');
    auto const value = count_from(text.substr(0, colon));
    if (!value || (part > 0 && *value >= 60)) return std::nullopt;
    seconds = 60 * seconds + double(*value);
    if (colon == std::string_view::npos) return seconds;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

}  // namespace

StopSignals::StopSignals(std::initializer_list<int> signals) {
  last_received = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (int const number : signals) {
    Handled handled{number, {}};
    sigaction(number, nullptr, &handled.before);
    if (number == SIGHUP && handled.before.sa_handler == SIG_IGN) continue;  // by nohup
    sigaction(number, &action, nullptr);
    handled_.push_back(handled);
  }
}

StopSignals::~StopSignals() {
  for (auto const& handled : handled_) sigaction(handled.number, &handled.before, nullptr);
}

int StopSignals::received() const noexcept { return last_received; }

std::string signal_name(int number) {
  switch (number) {
    case SIGHUP: return "HUP";
    case SIGINT: return "INT";
    case SIGTERM: return "TERM";
    case SIGUSR1: return "USR1";
    case SIGUSR2: return "USR2";
    default: return std::to_string(number);
  }
}

TimeLimit::TimeLimit(std::string const& text) {
  if (text == "none") return;
  if (text == "auto") {
    auto const* const job = std::getenv("SLURM_JOB_END_TIME");
    if (job == nullptr) return;
    auto const end = count_from(job);
    if (!end)
      throw Error(Fault::usage, "BadOption",
                  "SLURM_JOB_END_TIME is '" + std::string(job) +
                      "', not a number of seconds since 1970; give --time-limit another value than auto");
    end_ = double(*end) - seconds_before_the_job_ends;
    return;
  }
  auto const seconds = seconds_of(text);
  if (!seconds)
    throw Error(Fault::usage, "BadOption",
                "--time-limit '" + text + "' is neither auto nor none, a number of seconds, MM:SS or HH:MM:SS");
  end_ = now() + *seconds;
}

double TimeLimit::seconds_left() const { return end_ ? *end_ - now() : std::numeric_limits<double>::infinity(); }

std::optional<std::string> reason_to_stop(Comm const& comm, StopSignals const& signals, TimeLimit const& limit,
                                          double seconds_needed) {
  std::array<Index, 2> found{Index(signals.received()), Index(limit.seconds_left() < seconds_needed ? 1 : 0)};
  comm.max(found);
  if (found[0] != 0) return "signal " + signal_name(int(found[0]));
  if (found[1] != 0) return "the time limit";
  return std::nullopt;
}

void end_if_stopped(Comm const& comm, StopSignals const& signals) {
  if (auto const reason = reason_to_stop(comm, signals, TimeLimit("none"), 0))
    throw Error("Interrupted", "stopped by " + *reason + "; no output was written");
}

}  // namespace graticule::app
