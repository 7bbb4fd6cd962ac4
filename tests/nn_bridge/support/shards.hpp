// SPDX-License-Identifier: BSD-3-Clause
// Serial counterparts: every rank holds the whole field and compares its own part with the serial result.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <vector>

namespace graticule::test {

/// Random sizes, zero allowed, that sum to `extent`; the same on all ranks for one generator state.
inline Cuts random_cuts(std::mt19937& random, Index extent, int parts) {
  std::vector<Index> ends{0, extent};
  for (int p = 1; p < parts; ++p) ends.push_back(Index(random() % std::uint32_t(extent + 1)));
  std::sort(ends.begin(), ends.end());
  std::vector<Index> sizes;
  for (std::size_t i = 1; i < ends.size(); ++i) sizes.push_back(ends[i] - ends[i - 1]);
  return Cuts(sizes);
}

/// Rows and columns of this rank.
struct Part {
  Index row = 0;
  Index num_rows = 0;
  Index column = 0;
  Index num_columns = 0;

  Part(nn::Domain const& domain, Cuts const& rows, Cuts const& columns)
      : row(rows.lo(domain.latitude_part())),
        num_rows(rows.size(domain.latitude_part())),
        column(columns.lo(domain.longitude_part())),
        num_columns(columns.size(domain.longitude_part())) {}

  [[nodiscard]] torch::Tensor of(torch::Tensor const& whole) const {
    return whole.narrow(-2, row, num_rows).narrow(-1, column, num_columns);
  }
};

/// A random tensor that is the same on all ranks.
inline torch::Tensor random_tensor(std::mt19937& random, std::vector<std::int64_t> const& sizes,
                                   torch::ScalarType type = torch::kDouble) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(random());
  return torch::randn(sizes, generator, torch::dtype(torch::kDouble)).to(type);
}

/// All process grids of two axes for `num_ranks`.
inline std::vector<ProcessGrid> grids_of(int num_ranks) {
  std::vector<ProcessGrid> grids;
  for (int rows = 1; rows <= num_ranks; ++rows)
    if (num_ranks % rows == 0) grids.push_back(ProcessGrid{rows, num_ranks / rows});
  return grids;
}

/// Serial padding of the sphere: periodic columns, rows across the poles from half way round, channels in
/// `odd_channels` with changed sign there. Written from the formulas, cell by cell, not from the engine.
inline torch::Tensor pad_sphere(torch::Tensor const& x, Width rows, Width columns, bool pole_on_row,
                                std::vector<std::int64_t> const& odd_channels) {
  auto const n = x.size(-2);
  auto const m = x.size(-1);
  auto sign = torch::ones({x.size(-3), 1, 1}, x.options().requires_grad(false));
  for (auto const channel : odd_channels) sign[channel].fill_(-1);
  std::vector<torch::Tensor> lines;
  for (Index e = -rows.lower; e < n + rows.upper; ++e) {
    Index at = e;
    int folds = 0;
    while (at < 0 || at >= n) {
      if (at < 0)
        at = pole_on_row ? -at : -1 - at;
      else
        at = pole_on_row ? 2 * (n - 1) - at : 2 * n - 1 - at;
      ++folds;
    }
    auto line = x.narrow(-2, at, 1);
    if (folds % 2) line = line.roll(m / 2, -1) * sign;
    lines.push_back(line);
  }
  auto const tall = torch::cat(lines, -2);
  std::vector<std::int64_t> index;
  for (Index e = -columns.lower; e < m + columns.upper; ++e) index.push_back(((e % m) + m) % m);
  return tall.index_select(-1, torch::tensor(index));
}

/// Largest difference relative to the largest magnitude of `expected`, 0 for empty tensors.
inline double difference(torch::Tensor const& found, torch::Tensor const& expected) {
  if (found.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  if (found.numel() == 0) return 0;
  auto const scale = std::max(1.0, expected.abs().max().item<double>());
  return (found - expected).abs().max().item<double>() / scale;
}

}  // namespace graticule::test
