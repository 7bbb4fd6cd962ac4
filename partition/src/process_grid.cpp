// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/process_grid.hpp>

#include <limits>

namespace graticule {

ProcessGrid::ProcessGrid(Indices extents) : extents_(extents) {
  Index total = 1;
  for (int a = 0; a < extents.size(); ++a) {
    if (extents[a] < 1 || __builtin_mul_overflow(total, extents[a], &total) || total > std::numeric_limits<int>::max())
      throw Error("BadProcessGrid", "ranks per axis are " + to_string(extents));
  }
  num_ranks_ = int(total);
}

Indices ProcessGrid::coords(int rank) const {
  if (rank < 0 || rank >= num_ranks_)
    throw Error("BadRank", "rank " + std::to_string(rank) + " in a grid of " + to_string(extents_));
  auto result = Indices::filled(ndim(), 0);
  Index rest = rank;
  for (int a = ndim() - 1; a >= 0; --a) {
    result[a] = rest % extents_[a];
    rest /= extents_[a];
  }
  return result;
}

int ProcessGrid::rank(Indices const& coords) const {
  if (coords.size() != ndim())
    throw Error("BadRank", "coordinates " + to_string(coords) + " in a grid of " + to_string(extents_));
  Index result = 0;
  for (int a = 0; a < ndim(); ++a) {
    if (coords[a] < 0 || coords[a] >= extents_[a])
      throw Error("BadRank", "coordinates " + to_string(coords) + " in a grid of " + to_string(extents_));
    result = result * extents_[a] + coords[a];
  }
  return int(result);
}

}  // namespace graticule
