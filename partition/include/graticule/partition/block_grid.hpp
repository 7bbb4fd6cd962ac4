// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace graticule {

/// A box of cells, and the rank that owns it.
struct Block {
  Box box;
  int rank = 0;
};

/// Grids of any number of blocks per rank: tiles of an over-decomposed grid, the ocean blocks of a grid whose land is
/// left out.
///
/// Invariant: blocks are disjoint and not empty; cells of no block are holes. Blocks are numbered by rank, those of one
/// rank in the order of the list. A field is one array per rank, whose first axis counts the rank's blocks; the others
/// have the extents of its largest block. In plans a cell has the coordinates (number of the block, place in the
/// block): `layout()` says which box of these a rank owns, so that all plans of one box per rank serve blocks as well.
/// A copy shares the description.
/// Example: 6 x 8 cells in blocks of 3 x 4, of which [0, 3) x [0, 4) is land, on 2 ranks: rank 0 has the blocks [0, 3)
/// x [4, 8) and [3, 6) x [0, 4), rank 1 [3, 6) x [4, 8). Rank 0 owns [0, 2) x [0, 3) x [0, 4), rank 1 [2, 3) x [0, 3) x
/// [0, 4).
class BlockGrid {
 public:
  /// The same list on all ranks. @throws `BadLayout`, `AxesMismatch`, `OutOfRange`
  BlockGrid(Indices const& extents, std::span<Block const> blocks);

  [[nodiscard]] int ndim() const noexcept;
  [[nodiscard]] Indices const& extents() const noexcept;
  /// By number.
  [[nodiscard]] std::span<Block const> blocks() const noexcept;
  [[nodiscard]] int first_block(int rank) const noexcept;
  [[nodiscard]] int num_blocks(int rank) const noexcept;
  /// Those of a rank, such as the target boxes of a repartition to blocks.
  [[nodiscard]] std::vector<Box> boxes(int rank) const;
  [[nodiscard]] bool has_holes() const noexcept;

  /// Which rank owns which cells (number of the block, place in the block).
  [[nodiscard]] Layout const& layout() const noexcept;
  /// Calls `visit(block, part)` for each block that has cells of `box`, by number. Cost: O(log blocks) for a small box
  void for_each_owner(Box const& box, std::function<void(int, Box const&)> const& visit) const;

  /// Equal on all ranks exactly when the grids are equal.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  struct Description;
  std::shared_ptr<Description const> description_;
};

/// `12 blocks of [0, 6) x [0, 8), with holes`, for messages.
[[nodiscard]] std::string to_string(BlockGrid const& grid);

}  // namespace graticule
