// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/repartition/detail/pull.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn::detail {

enum class Way : std::uint8_t { forward, adjoint };

/// Counts one call of a plan. @param cell_bytes of one cell with all its batch axes
void count_traffic(PullCounts const& counts, Way way, Index cell_bytes) noexcept;
/// The same for a tensor whose `axes`, counted from the last, are those of the plan.
void count_traffic(PullCounts const& counts, Way way, torch::Tensor const& tensor,
                   std::vector<std::int64_t> const& axes);

}  // namespace graticule::nn::detail
