// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <vector>

namespace graticule::training::detail {

/// The ranks of one group, one on each node.
struct NodeGroup {
  Comm exchange;
  std::vector<double> weights;  ///< by rank of the group: its node's part of all ranks
};

}  // namespace graticule::training::detail
