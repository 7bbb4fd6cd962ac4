// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <span>
#include <vector>

namespace graticule {

/// How one axis of `extent()` cells is cut into `num_parts()` runs, some of which may be empty.
///
/// Invariant: part `p` is `[lo(p), hi(p))`, `lo(0) = 0`, `hi(p) = lo(p + 1)`, `hi(num_parts() - 1) = extent()`.
/// Example: 10 cells in 3 balanced parts are [0, 4), [4, 7), [7, 10).
class Cuts {
 public:
  /// Parts of the given sizes, in order. @throws `BadCuts` for a negative size or no part at all
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

/// Contiguous parts whose heaviest is as light as possible (exact); `weights[i] >= 0` is the cost of cell `i`.
///
/// Every part has a cell as long as there are enough cells. Example: weights 3 1 1 1 in 2 parts are [0, 1), [1, 4).
/// The result depends on `weights` only, so ranks with equal weights agree. Cost: O(n + parts log n) times 60.
/// @throws `BadCuts` for a negative or non-finite weight or `num_parts < 1`
[[nodiscard]] Cuts weighted_cuts(std::span<double const> weights, int num_parts);

}  // namespace graticule
