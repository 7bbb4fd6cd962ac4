// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/process_grid.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::nn {

/// The axes of a tensor that are cut, and the number of parts of each; not the positions of the cuts.
///
/// Axes count backwards from -1, the last one, so that one sharding serves tensors with and without batch axes. Rank
/// `grid.rank(c)` holds part `c[i]` of axis `axes[i]`, and the whole of all other axes.
/// Example: `{{-2, -1}, {4, 1}}` cuts rows in four; `{{-3}, {4}}` cuts channels in four.
struct Sharding {
  std::vector<std::int64_t> axes;
  ProcessGrid grid;

  friend bool operator==(Sharding const&, Sharding const&) = default;
};

/// `axis -2 in 4, axis -1 in 1`
[[nodiscard]] std::string to_string(Sharding const& sharding);

}  // namespace graticule::nn
