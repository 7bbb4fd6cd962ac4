// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <vector>

namespace graticule::detail {

/// A weighted sample of the places of a process grid of `extents`: every place up to `most`; beyond that, those at the
/// ends of each axis, next to the ends, and in the centre, each with the number of places for which it stands.
struct GridSample {
  std::vector<int> places;
  std::vector<double> weights;
};
[[nodiscard]] GridSample sample_of(Indices const& extents, int most = 4096);

}  // namespace graticule::detail
