// SPDX-License-Identifier: BSD-3-Clause
#include "patience.hpp"

#include "check_mode.hpp"

#include <cstdio>
#include <thread>

namespace graticule::detail {

namespace {

constexpr double spinning_seconds = 1e-3;

}  // namespace

void Patience::look_at_clock() {
  double const now = MPI_Wtime();
  if (begin_ < 0) begin_ = now;
  seconds_ = now - begin_;
  if (oversubscribed_ || seconds_ > spinning_seconds) std::this_thread::yield();
  double const limit = stall_seconds();
  if (reported_ || limit <= 0 || seconds_ < limit) return;
  reported_ = true;
  auto const text = describe_() + " for " + std::to_string(int(seconds_)) + " s";
  if (checks_calls()) throw Error("StalledExchange", text);
  std::fprintf(stderr, "graticule: %s\n", text.c_str());
}

}  // namespace graticule::detail
