// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/rebalance.hpp>

#include <cmath>

namespace graticule {

Layout rebalanced(Comm const& comm, Layout const& layout, int axis, double seconds, Index min_cells) {
  auto const* grid = layout.grid();
  if (grid == nullptr || axis < 0 || axis >= layout.ndim())
    throw Error("BadLayout", "axis " + std::to_string(axis) + " of " + to_string(layout) + " has no cuts");
  std::vector<double> times(std::size_t(grid->extent(axis)), 0);
  bool const owns = !layout.owned(comm.rank()).empty();
  run_agreed(comm, [&] {
    if (owns && (!(seconds > 0) || !std::isfinite(seconds)))
      throw Error("BadCuts",
                  "the time of a step must be positive and finite, got " + std::to_string(seconds) + " seconds");
  });
  if (owns) times[std::size_t(grid->coords(comm.rank())[axis])] = seconds;
  comm.max(times);
  std::vector<Cuts> cuts;
  for (int a = 0; a < layout.ndim(); ++a) cuts.push_back(*layout.cuts(a));
  cuts[std::size_t(axis)] = rebalanced_cuts(*layout.cuts(axis), times, min_cells);
  return {*grid, std::move(cuts)};
}

}  // namespace graticule
