// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

namespace graticule::detail {

/// Ranks sorted by node, with nodes and the ranks within them in increasing order.
/// Example: nodes 0 1 0 1 give ranks 0 2 1 3.
[[nodiscard]] std::vector<int> ranks_by_node(std::span<int const> node_of_rank);

}  // namespace graticule::detail
