// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule {

/// Ranks arranged in a Cartesian grid; the last axis varies fastest unless the ranks are placed in another order.
///
/// A **place** is a number in row-major order of the coordinates. Ranks are numbered by places, block by block, or by a
/// list. Copies share a list; the other two need no memory that grows with the number of ranks.
/// Example: a 2 x 3 grid puts rank 4 at coordinates (1, 1), its place 4.
class ProcessGrid {
 public:
  /// @param extents ranks per axis, each at least 1 (`BadProcessGrid`)
  explicit ProcessGrid(Indices extents);
  ProcessGrid(std::initializer_list<Index> extents) : ProcessGrid(Indices(extents)) {}
  /// Consecutive ranks fill blocks of the grid, so that a block's ranks may share a node.
  /// Example: 4 x 4 in blocks of 2 x 2: ranks 0 to 3 are at (0, 0), (0, 1), (1, 0), (1, 1), rank 4 at (0, 2).
  /// @param extents ranks per axis @param block ranks per axis of one block; divides `extents` (`BadProcessGrid`)
  [[nodiscard]] static ProcessGrid in_blocks(Indices const& extents, Indices const& block);
  /// Place `i` has rank `ranks[i]`; ranks that are not in the list are idle.
  /// Example: a 2 x 1 grid on ranks 1 and 3 of 4 leaves ranks 0 and 2 without a place.
  /// @throws `BadProcessGrid` unless there is one rank per place, all different and none negative
  [[nodiscard]] static ProcessGrid on_ranks(Indices const& extents, std::vector<int> ranks);

  [[nodiscard]] int ndim() const noexcept { return extents_.size(); }
  /// Ranks that have a place.
  [[nodiscard]] int num_ranks() const noexcept { return num_ranks_; }
  /// The highest rank that has a place.
  [[nodiscard]] int last_rank() const noexcept;
  [[nodiscard]] Indices const& extents() const noexcept { return extents_; }
  [[nodiscard]] int extent(int axis) const noexcept { return int(extents_[axis]); }
  /// Ranks per axis of one block; all 1 where ranks are numbered by places or by a list.
  [[nodiscard]] Indices const& block() const noexcept { return block_; }
  /// True when ranks are numbered by places.
  [[nodiscard]] bool in_order() const noexcept;

  [[nodiscard]] bool has_place(int rank) const noexcept;
  /// @pre `has_place(rank)` (`OutOfRange`)
  [[nodiscard]] Indices coords(int rank) const;
  [[nodiscard]] int place(int rank) const;
  /// @pre every coordinate lies in the grid (`OutOfRange`)
  [[nodiscard]] int rank(Indices const& coords) const;
  [[nodiscard]] int rank_at(int place) const;

  /// Equal on all ranks exactly when the grids are equal.
  [[nodiscard]] std::uint64_t fingerprint() const;
  friend bool operator==(ProcessGrid const& a, ProcessGrid const& b);

 private:
  struct Order {
    std::vector<int> ranks;   ///< by place
    std::vector<int> places;  ///< by rank; -1 for an idle rank
  };
  [[nodiscard]] bool in_blocks() const noexcept;

  Indices extents_;
  Indices block_;
  int num_ranks_ = 1;
  std::shared_ptr<Order const> order_;
};

/// `4x2`, `4x2 (blocks of 2x2)`, `4x2 (reordered)`
[[nodiscard]] std::string to_string(ProcessGrid const& grid);

}  // namespace graticule
