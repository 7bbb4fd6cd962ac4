// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/sharded/parameters.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// One rank's part of a parameter or buffer.
struct ShardEntry {
  std::string name;
  torch::Tensor local;              ///< rows `[first_row, first_row + local.size(0))`; shares memory with the model
  std::vector<std::int64_t> sizes;  ///< of the whole
  std::int64_t first_row = 0;
  bool whole = false;  ///< whole on every rank: buffers, and parameters of ignored modules
};
/// The tensors of this rank, in the order of `full_state`. Local.
[[nodiscard]] std::vector<ShardEntry> sharded_state(ShardedParameters const& sharded);

}  // namespace graticule::training::detail
