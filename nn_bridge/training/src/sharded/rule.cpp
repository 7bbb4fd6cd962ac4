// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/shard_rule.hpp>

#include <algorithm>

namespace graticule::training::detail {

std::int64_t num_rows_of(torch::Tensor const& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }

ShardRows shard_rows(std::int64_t num_rows, int num_ranks, int rank) {
  auto const each = (num_rows + num_ranks - 1) / num_ranks;
  return {std::min(rank * each, num_rows), std::min((rank + 1) * each, num_rows)};
}

}  // namespace graticule::training::detail
