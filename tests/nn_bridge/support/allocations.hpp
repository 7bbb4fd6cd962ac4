// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace graticule::test {

/// Allocations of LibTorch on this thread.
struct Allocations : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* /*ptr*/, std::int64_t bytes, std::size_t /*total*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    if (bytes > 0) sizes.push_back(bytes);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] Index num_of_at_least(Index bytes) const {
    return std::count_if(sizes.begin(), sizes.end(), [&](Index size) { return size >= bytes; });
  }
  std::vector<Index> sizes;
};

/// How often `work` takes memory of at least nine tenths of `bytes`.
inline Index num_large_allocations(Index bytes, std::function<void()> const& work) {
  auto const allocations = std::make_shared<Allocations>();
  c10::DebugInfoGuard const guard(c10::DebugInfoKind::PROFILER_STATE, allocations);
  work();
  EXPECT_FALSE(allocations->sizes.empty());
  return allocations->num_of_at_least(bytes * 9 / 10);
}

}  // namespace graticule::test
