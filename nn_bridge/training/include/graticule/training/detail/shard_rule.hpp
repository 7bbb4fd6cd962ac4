// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

namespace graticule::training::detail {

/// Rows `[lo, hi)` of the first axis of a tensor.
struct ShardRows {
  std::int64_t lo = 0;
  std::int64_t hi = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return hi - lo; }
  friend bool operator==(ShardRows const&, ShardRows const&) = default;
};

/// Rows of a tensor along its first axis; a tensor without axes is one row.
[[nodiscard]] inline std::int64_t num_rows_of(torch::Tensor const& tensor) {
  return tensor.dim() == 0 ? 1 : tensor.size(0);
}

/// The rows that a rank keeps: `ceil(num_rows / num_ranks)` each, so that the last ranks have fewer, then none.
/// Example: 5 rows on 4 ranks are [0, 2), [2, 4), [4, 5), [5, 5).
[[nodiscard]] inline ShardRows shard_rows(std::int64_t num_rows, int num_ranks, int rank) {
  auto const each = (num_rows + num_ranks - 1) / num_ranks;
  return {std::min(rank * each, num_rows), std::min((rank + 1) * each, num_rows)};
}

}  // namespace graticule::training::detail
