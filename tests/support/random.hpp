// SPDX-License-Identifier: BSD-3-Clause
// Random numbers that are the same on every rank for one state of the generator, whatever its type.
#pragma once

#include <graticule/partition/cuts.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace graticule::test {

/// A number in `[low, high]`, both included.
template <class Generator>
Index draw(Generator& random, Index low, Index high) {
  return low + Index(random() % std::uint64_t(high - low + 1));
}

/// Cuts at random places; parts may be empty.
template <class Generator>
Cuts random_cuts(Generator& random, Index extent, Index num_parts) {
  std::vector<Index> ends{0, extent};
  for (Index p = 1; p < num_parts; ++p) ends.push_back(draw(random, 0, extent));
  std::sort(ends.begin(), ends.end());
  std::vector<Index> sizes;
  for (std::size_t p = 1; p < ends.size(); ++p) sizes.push_back(ends[p] - ends[p - 1]);
  return Cuts(sizes);
}

}  // namespace graticule::test
