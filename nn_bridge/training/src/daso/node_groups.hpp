// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/training/daso/averaging.hpp>

#include "data_parallel/pending_mean.hpp"

#include <optional>
#include <vector>

namespace graticule::training::detail {

/// A world divided into nodes, and crosswise into groups.
struct NodeGroups {
  Comm node;
  int num_groups = 1;                            ///< ranks of the largest node
  std::vector<std::optional<NodeGroup>> groups;  ///< of which this rank is a member

  /// The node's rank that is a member of `group`.
  [[nodiscard]] int member(int group) const noexcept { return group % node.num_ranks(); }
};

/// Collective over `world`. @throws `BadProcessGrid`, `BadOption` for a negative node on any rank
[[nodiscard]] NodeGroups node_groups(Comm const& world, std::optional<int> node, UnequalNodes unequal);

}  // namespace graticule::training::detail
