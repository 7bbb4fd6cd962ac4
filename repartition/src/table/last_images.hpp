// SPDX-License-Identifier: BSD-3-Clause
// Which image of an owned cell counts when several ranks hold one.
#pragma once

#include "pull_table.hpp"

#include <vector>

namespace graticule::detail {

/// Of the transfers that leave this rank, the parts whose cells no later rank holds as well.
struct LastImages {
  std::vector<std::vector<std::vector<Box>>> sends;  ///< by peer and transfer: boxes in needed coordinates
  std::vector<std::vector<Box>> local;
  bool are_exact = true;  ///< false when images lie on one another by different maps: then the parts may share cells
};

/// Cost: comparisons of all pairs of transfers.
[[nodiscard]] LastImages last_images(PullTable const& table, int rank);

}  // namespace graticule::detail
