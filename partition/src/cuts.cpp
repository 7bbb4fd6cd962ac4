// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts.hpp>

#include <cmath>
#include <numeric>

namespace graticule {

Cuts::Cuts(std::span<Index const> sizes) {
  if (sizes.empty()) throw Error("BadCuts", "no parts");
  ends_.reserve(sizes.size() + 1);
  ends_.push_back(0);
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    Index end = 0;
    if (sizes[p] < 0 || __builtin_add_overflow(ends_.back(), sizes[p], &end))
      throw Error("BadCuts", "part " + std::to_string(p) + " has size " + std::to_string(sizes[p]));
    ends_.push_back(end);
  }
}

std::vector<Index> Cuts::sizes() const {
  std::vector<Index> result;
  for (int p = 0; p < num_parts(); ++p) result.push_back(size(p));
  return result;
}

int Cuts::part_of(Index cell) const noexcept {
  return int(std::upper_bound(ends_.begin(), ends_.end(), cell) - ends_.begin()) - 1;
}

Cuts balanced_cuts(Index extent, int num_parts) {
  if (extent < 0 || num_parts < 1)
    throw Error("BadCuts", std::to_string(extent) + " cells in " + std::to_string(num_parts) + " parts");
  std::vector<Index> sizes(std::size_t(num_parts), extent / num_parts);
  for (Index p = 0; p < extent % num_parts; ++p) ++sizes[std::size_t(p)];
  return Cuts(sizes);
}

namespace {

/// Greedy parts of weight at most `limit`, each with a cell while cells last; empty result when more parts are needed.
std::vector<Index> greedy_parts(std::span<double const> prefix, int num_parts, double limit) {
  Index const n = Index(prefix.size()) - 1;
  std::vector<Index> sizes;
  Index begin = 0;
  for (int p = 0; p < num_parts; ++p) {
    Index const reserve = std::min<Index>(num_parts - 1 - p, n - begin);
    Index const last = std::max(begin, n - reserve);
    auto const base = prefix[std::size_t(begin)];
    auto const* const first = prefix.data() + begin;
    Index end = begin + (std::upper_bound(first, prefix.data() + last + 1, base + limit) - first) - 1;
    if (end == begin && begin < n && prefix[std::size_t(begin) + 1] - base <= limit) end = begin + 1;
    if (end == begin && begin < n) return {};
    sizes.push_back(end - begin);
    begin = end;
  }
  return begin == n ? sizes : std::vector<Index>{};
}

}  // namespace

Cuts weighted_cuts(std::span<double const> weights, int num_parts) {
  if (num_parts < 1) throw Error("BadCuts", std::to_string(num_parts) + " parts");
  std::vector<double> prefix(weights.size() + 1, 0.0);
  double heaviest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw Error("BadCuts", "cell " + std::to_string(i) + " has weight " + std::to_string(weights[i]));
    prefix[i + 1] = prefix[i] + weights[i];
    heaviest = std::max(heaviest, weights[i]);
  }
  double const total = prefix.back();
  double high = total;
  double low = std::max(heaviest, total / num_parts) * (1 - 1e-12);
  auto best = greedy_parts(prefix, num_parts, high * (1 + 1e-12) + 1e-300);
  for (int step = 0; step < 60 && high - low > 1e-12 * total; ++step) {
    double const middle = 0.5 * (low + high);
    auto const sizes = greedy_parts(prefix, num_parts, middle);
    if (sizes.empty()) {
      low = middle;
    } else {
      high = middle;
      best = sizes;
    }
  }
  if (best.empty()) return balanced_cuts(Index(weights.size()), num_parts);
  return Cuts(best);
}

}  // namespace graticule
