// SPDX-License-Identifier: BSD-3-Clause
#include "signals.hpp"

#include <array>
#include <csignal>

namespace graticule::archive {

namespace {

constexpr std::array numbers{SIGINT, SIGTERM, SIGUSR1};
std::array<struct sigaction, numbers.size()> before;
volatile std::sig_atomic_t received = 0;

void note(int number) { received = number; }

}  // namespace

StopSignals::StopSignals() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &action, &before[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before[i], nullptr);
}

void StopSignals::check(Comm const& comm) const {
  std::array<Index, 1> number{Index(received)};
  comm.max(number);
  if (number[0] != 0)
    throw Error("Interrupted", "stopped by signal " + std::to_string(number[0]) + "; no output was written");
}

}  // namespace graticule::archive
