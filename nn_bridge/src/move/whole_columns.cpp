// SPDX-License-Identifier: BSD-3-Clause
#include "whole_columns.hpp"

#include <vector>

namespace graticule::nn::detail {

Layout whole_columns(Layout const& fields) {
  auto const& grid = *fields.grid();
  auto const num_columns = fields.extent(1);
  std::vector<Index> sizes;
  std::vector<int> ranks;
  for (int r = 0; r < grid.extent(0); ++r) {
    auto const shares = balanced_cuts(fields.cuts(0)->size(r), grid.extent(1));
    for (int c = 0; c < grid.extent(1); ++c) {
      sizes.push_back(shares.size(c));
      ranks.push_back(grid.rank({r, c}));
    }
  }
  auto const num_ranks = Index(ranks.size());
  return Layout(ProcessGrid::on_ranks({num_ranks, 1}, std::move(ranks)), {Cuts(sizes), Cuts{num_columns}});
}

std::shared_ptr<TensorMove const> move_to_whole_columns(Comm const& comm, Layout const& fields) {
  if (fields.grid()->extent(1) == 1) return nullptr;
  return std::make_shared<TensorMove const>(comm, fields, whole_columns(fields), std::vector<std::int64_t>{-2, -1});
}

Layout cut_columns(Index num_rows, Cuts const& columns) {
  return Layout(ProcessGrid{1, columns.num_parts()}, {Cuts{num_rows}, columns});
}

Cuts scaled_cuts(Cuts const& cuts, Index extent) {
  if (cuts.extent() == 0) return balanced_cuts(extent, cuts.num_parts());
  std::vector<Index> sizes;
  Index lo = 0;
  for (int p = 0; p < cuts.num_parts(); ++p) {
    auto const hi = (2 * cuts.hi(p) * extent + cuts.extent()) / (2 * cuts.extent());
    sizes.push_back(hi - lo);
    lo = hi;
  }
  return Cuts(sizes);
}

}  // namespace graticule::nn::detail
