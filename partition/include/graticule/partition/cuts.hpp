// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace graticule {

/// How one axis of `extent()` cells is cut into `num_parts()` runs, some of which may be empty.
///
/// Invariant: part `p` is `[lo(p), hi(p))`, `lo(0) = 0`, `hi(p) = lo(p + 1)`, `hi(num_parts() - 1) = extent()`.
/// Example: 10 cells in 3 balanced parts are [0, 4), [4, 7), [7, 10).
class Cuts {
 public:
  /// Parts of the given sizes, in order. @throws `BadCuts` for a negative size or an empty list
  explicit Cuts(std::span<Index const> sizes);
  Cuts(std::initializer_list<Index> sizes) : Cuts(std::span(sizes.begin(), sizes.size())) {}

  [[nodiscard]] Index extent() const noexcept { return ends_.back(); }
  [[nodiscard]] int num_parts() const noexcept { return int(ends_.size()) - 1; }
  [[nodiscard]] Index lo(int part) const noexcept { return ends_[std::size_t(part)]; }
  [[nodiscard]] Index hi(int part) const noexcept { return ends_[std::size_t(part) + 1]; }
  [[nodiscard]] Index size(int part) const noexcept { return hi(part) - lo(part); }
  [[nodiscard]] std::vector<Index> sizes() const;
  /// The part that holds `cell`. @pre `0 <= cell < extent()`. Cost: O(log parts)
  [[nodiscard]] int part_of(Index cell) const noexcept;

  friend bool operator==(Cuts const&, Cuts const&) = default;

 private:
  std::vector<Index> ends_;
};

/// Parts that differ by at most one cell; the larger ones come first: `lo(p) = p * (n / parts) + min(p, n % parts)`.
/// With more parts than cells the last ones are empty. @throws `BadCuts` for `extent < 0` or `num_parts < 1`
[[nodiscard]] Cuts balanced_cuts(Index extent, int num_parts);

/// Contiguous parts that minimise the weight of the heaviest part (exact); `weights[i] >= 0` is the cost of cell `i`.
///
/// Every part has `min_cells` cells or more; with `min_cells` 0 or 1, parts may be empty when there are fewer cells
/// than parts. Example: weights 3 1 1 1 in 2 parts are [0, 1), [1, 4).
/// The result depends only on the arguments, so ranks with equal weights agree.
/// Cost: O(n + parts log n) times 60; O(n parts) times 60 for `min_cells > 1`
/// @throws `BadCuts` for a negative or non-finite weight, `num_parts < 1`, `min_cells < 0`, or too few cells for it
[[nodiscard]] Cuts weighted_cuts(std::span<double const> weights, int num_parts, Index min_cells = 1);

/// Parts of equal cost from measured times: part `p` took `seconds[p]` with the cuts `old`, so each of its cells has
/// the weight `seconds[p] / old.size(p)`.
/// Example: 10 rows in halves that take 3 and 1 seconds become 3 and 7 rows, of 1.8 and 2.2 seconds.
/// @throws `BadCuts` for a time that is negative, not finite, or 0 for a part with cells; what `weighted_cuts` throws
[[nodiscard]] Cuts rebalanced_cuts(Cuts const& old, std::span<double const> seconds, Index min_cells = 1);

/// The given parts in order at the `active` places, and empty parts at the others: some ranks own nothing.
/// Example: 10 cells in parts 4 3 3, active 1 0 1 1, are the parts 4 0 3 3.
/// @throws `BadCuts` unless there is one part per active place
[[nodiscard]] Cuts masked_cuts(Cuts const& parts, std::vector<bool> const& active);

/// Position of the first and last of equally spaced rows: half a row from the poles, or on them.
enum class PoleRows : std::uint8_t { half_way, on_pole };

/// Fraction of the sphere that each row represents: weights for cuts of equal area, and for global means. The band of a
/// row extends half-way to its neighbors; the bands of the outer rows extend equally far beyond the row, or to the pole
/// if that is nearer. So the weights sum to 1 if the rows come within half a spacing of both poles, and to less for a
/// region.
/// Example: 3 rows at latitudes -90, 0, 90 represent 0.146, 0.707, 0.146 of the sphere.
[[nodiscard]] std::vector<double> area_weights(Index num_rows, PoleRows poles);
/// The same for any latitudes in degrees, in either order; a single row is the whole sphere.
/// @throws `BadCoordinates` unless they are monotonic within 90
[[nodiscard]] std::vector<double> area_weights(std::span<double const> latitudes);

}  // namespace graticule
