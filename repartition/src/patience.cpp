// SPDX-License-Identifier: BSD-3-Clause
#include "patience.hpp"

#include "check_mode.hpp"

#include <cstdio>
#include <map>
#include <thread>
#include <utility>

namespace graticule::detail {

namespace {

constexpr double spinning_seconds = 1e-3;

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

void work_while_waiting(void const* owner, std::function<bool()> work) { works()[owner] = std::move(work); }

void forget_work(void const* owner) noexcept { works().erase(owner); }

void Patience::look_at_clock() {
  double const now = MPI_Wtime();
  if (begin_ < 0) begin_ = now;
  seconds_ = now - begin_;
  if (oversubscribed_ || seconds_ > spinning_seconds) std::this_thread::yield();
  if (!works().empty()) do_works();
  double const limit = stall_seconds();
  if (reported_ || limit <= 0 || seconds_ < limit) return;
  reported_ = true;
  auto const text = describe_() + " for " + std::to_string(int(seconds_)) + " s";
  if (checks_calls()) throw Error("StalledExchange", text);
  std::fprintf(stderr, "graticule: %s\n", text.c_str());
}

}  // namespace graticule::detail
