// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts.hpp>

#include <cmath>
#include <numbers>
#include <numeric>

namespace graticule {

Cuts::Cuts(std::span<Index const> sizes) {
  if (sizes.empty()) throw Error("BadCuts", "cuts need at least one part");
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
    throw Error("BadCuts",
                "cannot cut " + std::to_string(extent) + " cells into " + std::to_string(num_parts) + " parts");
  std::vector<Index> sizes(std::size_t(num_parts), extent / num_parts);
  for (Index p = 0; p < extent % num_parts; ++p) ++sizes[std::size_t(p)];
  return Cuts(sizes);
}

namespace {

/// Running sums of weights: cells `[i, j)` weigh `prefix[j] - prefix[i]`.
using Prefix = std::span<double const>;

/// Greedy parts of weight at most `limit`, each with a cell while cells last; empty result when more parts are needed.
std::vector<Index> greedy_parts(Prefix prefix, int num_parts, double limit) {
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

/// The same with at least `min_cells` per part, where the greedy choice may leave two heavy cells to one part: searches
/// back from the end for the places that a cut may have, then takes the longest parts from the front.
std::vector<Index> parts_of_least_size(Prefix prefix, int num_parts, double limit, Index min_cells) {
  Index const n = Index(prefix.size()) - 1;
  auto const end_of = [&](Index begin) {
    auto const* const first = prefix.data() + begin;
    return begin + (std::upper_bound(first, prefix.data() + n + 1, *first + limit) - first) - 1;
  };
  // next[p][i]: the last possible end of part p when it begins at i, -1 when the rest cannot be cut.
  std::vector<std::vector<Index>> next(std::size_t(num_parts), std::vector<Index>(std::size_t(n) + 1, -1));
  std::vector<Index> last_good(std::size_t(n) + 1, -1);  // highest j' <= j from which the later parts can go on
  last_good[std::size_t(n)] = n;
  for (int p = num_parts - 1; p >= 0; --p) {
    auto& ends = next[std::size_t(p)];
    for (Index i = 0; i + min_cells <= n; ++i) {
      Index const end = last_good[std::size_t(end_of(i))];
      if (end >= i + min_cells) ends[std::size_t(i)] = end;
    }
    Index good = -1;
    for (Index i = 0; i <= n; ++i) {
      if (ends[std::size_t(i)] >= 0) good = i;
      last_good[std::size_t(i)] = good;
    }
  }
  std::vector<Index> sizes;
  Index begin = 0;
  for (auto const& ends : next) {
    Index const end = ends[std::size_t(begin)];
    if (end < 0) return {};
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

}  // namespace

Cuts weighted_cuts(std::span<double const> weights, int num_parts, Index min_cells) {
  if (num_parts < 1) throw Error("BadCuts", "num_parts must be at least 1, got " + std::to_string(num_parts));
  if (min_cells < 0) throw Error("BadCuts", "min_cells must be at least 0, got " + std::to_string(min_cells));
  if (min_cells > 1 && Index(weights.size()) / num_parts < min_cells)
    throw Error("BadCuts", "cannot cut " + std::to_string(weights.size()) + " cells into " + std::to_string(num_parts) +
                               " parts of at least " + std::to_string(min_cells));
  std::vector<double> prefix(weights.size() + 1, 0.0);
  double heaviest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw Error("BadCuts", "cell " + std::to_string(i) + " has weight " + std::to_string(weights[i]));
    heaviest = std::max(heaviest, weights[i]);
  }
  // Relative to the heaviest, so that no sum overflows.
  double const unit = heaviest > 0 ? heaviest : 1;
  for (std::size_t i = 0; i < weights.size(); ++i) prefix[i + 1] = prefix[i] + weights[i] / unit;
  heaviest /= unit;
  auto const parts_within = [&](double limit) {
    return min_cells > 1 ? parts_of_least_size(prefix, num_parts, limit, min_cells)
                         : greedy_parts(prefix, num_parts, limit);
  };
  double const total = prefix.back();
  double high = total;
  double low = std::max(heaviest, total / num_parts) * (1 - 1e-12);
  auto best = parts_within(high * (1 + 1e-12) + 1e-300);
  for (int step = 0; step < 60 && high - low > 1e-12 * total; ++step) {
    double const middle = 0.5 * (low + high);
    auto const sizes = parts_within(middle);
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

Cuts rebalanced_cuts(Cuts const& old, std::span<double const> seconds, Index min_cells) {
  if (Index(seconds.size()) != old.num_parts())
    throw Error("BadCuts", "one time per part is needed: " + std::to_string(old.num_parts()) + " parts, got " +
                               std::to_string(seconds.size()) + " times");
  std::vector<double> weights;
  weights.reserve(std::size_t(old.extent()));
  for (int p = 0; p < old.num_parts(); ++p) {
    double const time = seconds[std::size_t(p)];
    if (!(time >= 0) || !std::isfinite(time) || (time == 0 && old.size(p) > 0))
      throw Error("BadCuts", "part " + std::to_string(p) + " of " + std::to_string(old.size(p)) + " cells took " +
                                 std::to_string(time) + " seconds");
    weights.insert(weights.end(), std::size_t(old.size(p)), old.size(p) > 0 ? time / double(old.size(p)) : 0);
  }
  return weighted_cuts(weights, old.num_parts(), min_cells);
}

Cuts masked_cuts(Cuts const& parts, std::vector<bool> const& active) {
  auto const num_active = std::count(active.begin(), active.end(), true);
  if (num_active != parts.num_parts())
    throw Error("BadCuts", "one part per active place is needed: " + std::to_string(num_active) + " places, got " +
                               std::to_string(parts.num_parts()) + " parts");
  std::vector<Index> sizes;
  int part = 0;
  for (bool const is_active : active) sizes.push_back(is_active ? parts.size(part++) : 0);
  return Cuts(sizes);
}

std::vector<double> area_weights(std::span<double const> latitudes) {
  auto const n = latitudes.size();
  double const direction = n > 1 && latitudes.front() > latitudes.back() ? -1 : 1;
  // Poles of files in f32 may lie a rounding beyond 90.
  for (std::size_t row = 0; row < n; ++row)
    if (!(std::abs(latitudes[row]) <= 90 + 1e-6) ||
        (row > 0 && !(direction * (latitudes[row] - latitudes[row - 1]) > 0)))
      throw Error("BadCoordinates", "row " + std::to_string(row) + " lies at " + std::to_string(latitudes[row]) +
                                        " degrees" + (row > 0 ? " after " + std::to_string(latitudes[row - 1]) : ""));
  // Midway between two rows; half a spacing beyond the outer rows; a row alone reaches from pole to pole.
  auto const edge_below = [&](std::size_t row) {
    if (n == 1) return row == 0 ? -90.0 : 90.0;
    auto const upper = std::clamp<std::size_t>(row, 1, n - 1);
    auto const middle = (latitudes[upper - 1] + latitudes[upper]) / 2;
    auto const spacing = latitudes[upper] - latitudes[upper - 1];
    return middle + (double(row) - double(upper)) * spacing;
  };
  auto const sine_below = [&](std::size_t row) {
    return std::sin(std::clamp(edge_below(row), -90.0, 90.0) * (std::numbers::pi / 180));
  };
  std::vector<double> areas(n);
  for (std::size_t row = 0; row < n; ++row) areas[row] = std::abs(sine_below(row + 1) - sine_below(row)) / 2;
  return areas;
}

std::vector<double> area_weights(Index num_rows, PoleRows poles) {
  if (num_rows < 0) throw Error("BadCuts", "num_rows must be at least 0, got " + std::to_string(num_rows));
  std::vector<double> latitudes;
  double const step = poles == PoleRows::half_way ? 180.0 / double(std::max<Index>(num_rows, 1))
                                                  : 180.0 / double(std::max<Index>(num_rows - 1, 1));
  double const first = poles == PoleRows::half_way ? -90 + step / 2 : -90;
  for (Index row = 0; row < num_rows; ++row) latitudes.push_back(std::min(first + double(row) * step, 90.0));
  return area_weights(latitudes);
}

}  // namespace graticule
