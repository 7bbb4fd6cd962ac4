// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cells.hpp>
#include <graticule/partition/layout.hpp>

#include "random.hpp"

#include <random>
#include <utility>
#include <vector>

namespace graticule::test {

/// The same on every rank when seeded alike.
using Random = std::mt19937_64;

inline Indices random_extents(Random& random, int ndim, Index high) {
  auto extents = Indices::filled(ndim, 1);
  for (auto& extent : extents) extent = draw(random, 1, high);
  return extents;
}

inline Indices random_permutation(Random& random, int size) {
  Indices result;
  for (int a = 0; a < size; ++a) result.push_back(a);
  for (int a = size - 1; a > 0; --a) std::swap(result[a], result[int(draw(random, 0, a))]);
  return result;
}

/// Ranks in order, in blocks, or anywhere among `num_ranks`.
inline ProcessGrid random_rank_order(Random& random, Indices const& grid, int num_ranks) {
  Index const kind = draw(random, 0, 2);
  if (kind == 0) return ProcessGrid(grid);
  if (kind == 1) {
    auto block = grid;
    for (int a = 0; a < grid.size(); ++a) do
        block[a] = draw(random, 1, grid[a]);
      while (grid[a] % block[a] != 0);
    return ProcessGrid::in_blocks(grid, block);
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks; ++rank) ranks.push_back(rank);
  for (std::size_t i = ranks.size() - 1; i > 0; --i) std::swap(ranks[i], ranks[std::size_t(draw(random, 0, Index(i)))]);
  ranks.resize(std::size_t(ProcessGrid(grid).num_ranks()));
  return ProcessGrid::on_ranks(grid, ranks);
}

/// Any process grid of at most `num_ranks` ranks in any order, cut at random.
inline Layout random_grid_layout(Random& random, int num_ranks, Indices const& extents) {
  auto grid = Indices::filled(extents.size(), 1);
  Index rest = num_ranks;
  for (Index a : random_permutation(random, extents.size())) {
    grid[int(a)] = draw(random, 1, rest);
    rest /= grid[int(a)];
  }
  std::vector<Cuts> cuts;
  for (int a = 0; a < extents.size(); ++a) cuts.push_back(random_cuts(random, extents[a], grid[a]));
  return {random_rank_order(random, grid, num_ranks), cuts};
}

/// Cuts `box` in two at random until there are `num_parts` parts, some of them empty.
inline void bisect(Random& random, Box const& box, Index num_parts, std::vector<Box>& parts) {
  if (num_parts == 1) {
    parts.push_back(box);
    return;
  }
  int const axis = int(draw(random, 0, box.ndim() - 1));
  Index const at = draw(random, box.lo(axis), box.hi(axis));
  Box low = box;
  Box high = box;
  low.set(axis, box.lo(axis), at);
  high.set(axis, at, box.hi(axis));
  Index const num_low = draw(random, 1, num_parts - 1);
  bisect(random, low, num_low, parts);
  bisect(random, high, num_parts - num_low, parts);
}

/// Boxes in no arrangement.
inline Layout random_box_layout(Random& random, int num_ranks, Indices const& extents) {
  std::vector<Box> boxes;
  bisect(random, Box::from_extents(extents), draw(random, 1, num_ranks), boxes);
  for (std::size_t i = boxes.size() - 1; i > 0; --i) std::swap(boxes[i], boxes[std::size_t(draw(random, 0, Index(i)))]);
  return Layout::from_boxes(extents, boxes);
}

inline Layout random_layout(Random& random, int num_ranks, Indices const& extents) {
  return draw(random, 0, 1) == 0 ? random_grid_layout(random, num_ranks, extents)
                                 : random_box_layout(random, num_ranks, extents);
}

using graticule::for_each_cell;

}  // namespace graticule::test
