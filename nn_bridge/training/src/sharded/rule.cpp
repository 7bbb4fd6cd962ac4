// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/sharded/rule.hpp>

#include <algorithm>
#include <vector>

namespace graticule::training {

std::int64_t num_rows_of(torch::Tensor const& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }

ShardRows shard_rows(std::int64_t num_rows, int num_ranks, int rank) {
  auto const each = (num_rows + num_ranks - 1) / num_ranks;
  return {std::min(rank * each, num_rows), std::min((rank + 1) * each, num_rows)};
}

Cuts shard_cuts(std::int64_t num_rows, int num_ranks) {
  std::vector<Index> sizes;
  for (int rank = 0; rank < num_ranks; ++rank) sizes.push_back(shard_rows(num_rows, num_ranks, rank).size());
  return Cuts(sizes);
}

}  // namespace graticule::training
