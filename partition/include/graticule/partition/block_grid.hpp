// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace graticule {

/// A box of cells of one face, and the rank that owns it.
struct Block {
  Box box;
  int rank = 0;
  int face = 0;
};

/// One side of a face: before its first or after its last cell along an axis.
enum class AxisEnd : std::uint8_t { lower, upper };

/// Whether the cells along two sides that meet are counted in the same direction.
enum class Along : std::uint8_t { same, reversed };

/// Two sides that meet. Example: `{{0, 0, AxisEnd::upper}, {2, 1, AxisEnd::lower}, Along::reversed}`: beyond the last
/// row of face 0, at column i of n, lies the first column of face 2, at row n - 1 - i.
struct FaceJoint {
  /// One side of a face.
  struct Side {
    int face = 0;
    int axis = 0;
    AxisEnd side = AxisEnd::lower;
    friend bool operator==(Side const&, Side const&) = default;
  };

  Side one;
  Side other;
  Along along = Along::same;
};

/// The 12 joints of a cubed sphere. Faces 0 to 3 follow each other eastward round the equator, with rows northward and
/// columns eastward. Face 4 continues face 0 beyond the north, face 5 beyond the south.
[[nodiscard]] std::vector<FaceJoint> cubed_sphere_joints();

/// Grids of any number of blocks per rank: tiles of an over-decomposed grid, the ocean blocks of a grid whose land is
/// left out, parts of the faces of a cubed sphere.
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
  /// Blocks of one face of `extents`, the same list on all ranks. @throws `BadLayout`, `AxesMismatch`, `OutOfRange`
  BlockGrid(Indices const& extents, std::span<Block const> blocks);
  /// Several faces of the same extents, which meet at `joints`. @throws as above, `BadLayout` for joints of another
  /// number of axes than 2, of sides with different numbers of cells, and of a side that has one already
  BlockGrid(Indices const& extents, int num_faces, std::span<FaceJoint const> joints, std::span<Block const> blocks);

  /// Axes of a face.
  [[nodiscard]] int ndim() const noexcept;
  /// Cells of each face.
  [[nodiscard]] Indices const& extents() const noexcept;
  [[nodiscard]] int num_faces() const noexcept;
  /// By number.
  [[nodiscard]] std::span<Block const> blocks() const noexcept;
  [[nodiscard]] int first_block(int rank) const noexcept;
  [[nodiscard]] int num_blocks(int rank) const noexcept;
  /// Those of a rank, such as the target boxes of a repartition to blocks. Of several faces: (face, row, column).
  [[nodiscard]] std::vector<Box> boxes(int rank) const;
  [[nodiscard]] bool has_holes() const noexcept;

  /// Which rank owns which cells (number of the block, place in the block).
  [[nodiscard]] Layout const& layout() const noexcept;
  /// Calls `visit(block, part)` for each block of `face` that has cells of `box`, with the number of the block; in the
  /// order of numbers. Cost: O(log blocks) for a small box
  void for_each_owner(int face, Box const& box, std::function<void(int, Box const&)> const& visit) const;
  /// What lies beyond a side, as a joint whose `one` is that side; `nullptr` for nothing.
  [[nodiscard]] FaceJoint const* beyond(FaceJoint::Side const& side) const noexcept;
  [[nodiscard]] bool has_joints() const noexcept;

  /// Equal on all ranks exactly when the grids are equal.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  struct Description;
  std::shared_ptr<Description const> description_;
};

/// `12 blocks of [0, 6) x [0, 8), with holes`, for messages.
[[nodiscard]] std::string to_string(BlockGrid const& grid);

}  // namespace graticule
