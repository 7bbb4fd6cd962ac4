// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

namespace graticule::bench {

/// Bytes of the tensors of this thread: those that are alive, and the most that were.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*total*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    alive_ += bytes;
    most_ = std::max(most_, alive_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] std::int64_t most() const { return most_; }

 private:
  std::int64_t alive_ = 0;
  std::int64_t most_ = 0;
};

/// Bytes, beyond those that were there before a call.
struct Peak {
  double tensors = 0;
  double resident = 0;  ///< pages other than those of files, such as programs; 0 where the system resets no peak
};

/// A line of /proc/self/status in bytes.
[[nodiscard]] inline double process_bytes(std::string const& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kilobytes = 0;
  while (status >> word)
    if (word == name) status >> kilobytes;
  return 1024 * kilobytes;
}

template <class Call>
[[nodiscard]] Peak peak_of(Call&& call) {
  auto const live = std::make_shared<LiveBytes>();
  std::ofstream reset("/proc/self/clear_refs");
  bool const is_reset = bool(reset << "5" << std::flush);
  auto const before = process_bytes("VmRSS:");
  auto const of_files = process_bytes("RssFile:");
  {
    c10::DebugInfoGuard const guard(c10::DebugInfoKind::PROFILER_STATE, live);
    call();
  }
  // Pages of files only grow meanwhile.
  auto const resident = process_bytes("VmHWM:") - before - (process_bytes("RssFile:") - of_files);
  return {double(live->most()), is_reset ? resident : 0};
}

/// Of the fullest rank. Collective.
[[nodiscard]] inline Peak fullest(Comm const& comm, Peak const& peak) {
  std::array<double, 2> most{peak.tensors, peak.resident};
  comm.max(most);
  return {most[0], most[1]};
}

}  // namespace graticule::bench
