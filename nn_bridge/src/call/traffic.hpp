// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/repartition/pull.hpp>

namespace graticule::nn::detail {

enum class Way : std::uint8_t { forward, adjoint };

/// Counts one call of a plan. @param cell_bytes of one cell with all its batch axes
void count_traffic(PullCounts const& counts, Way way, Index cell_bytes) noexcept;

}  // namespace graticule::nn::detail
