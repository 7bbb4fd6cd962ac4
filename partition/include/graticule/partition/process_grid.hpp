// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule {

/// Ranks arranged in a Cartesian grid; the last axis varies fastest.
///
/// Example: a 2 x 3 grid puts rank 4 at coordinates (1, 1).
class ProcessGrid {
 public:
  /// @param extents ranks per axis, each at least 1 (`BadProcessGrid`)
  explicit ProcessGrid(Indices extents);
  ProcessGrid(std::initializer_list<Index> extents) : ProcessGrid(Indices(extents)) {}

  [[nodiscard]] int ndim() const noexcept { return extents_.size(); }
  [[nodiscard]] int num_ranks() const noexcept { return num_ranks_; }
  [[nodiscard]] Indices const& extents() const noexcept { return extents_; }
  [[nodiscard]] int extent(int axis) const noexcept { return int(extents_[axis]); }
  /// @pre `0 <= rank < num_ranks()` (`BadRank`)
  [[nodiscard]] Indices coords(int rank) const;
  /// @pre every coordinate lies in the grid (`BadRank`)
  [[nodiscard]] int rank(Indices const& coords) const;

  friend bool operator==(ProcessGrid const&, ProcessGrid const&) = default;

 private:
  Indices extents_;
  int num_ranks_ = 1;
};

}  // namespace graticule
