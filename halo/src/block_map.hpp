// SPDX-License-Identifier: BSD-3-Clause
// Index maps of grids with holes, and of several blocks per rank.
#pragma once

#include <graticule/partition/block_grid.hpp>
#include <graticule/repartition/detail/index_map.hpp>

#include "geometry.hpp"

#include <array>
#include <functional>
#include <vector>

namespace graticule::detail {

/// Calls `visit(owner, part)` for each rank or block that has cells of a box.
using Owners = std::function<void(Box const&, std::function<void(int, Box const&)> const&)>;

[[nodiscard]] Owners owners_of(Layout const& layout);
[[nodiscard]] Owners owners_of(BlockGrid const& grid);

/// The parts of `boxes` whose images by `map` have owners.
[[nodiscard]] std::vector<Box> owned_images(std::vector<Box> const& boxes, IndexMap const& map, Owners const& owners);

/// `map`, whose images without owner become `hole`. Before that, `kept` is asked, which is `map` without copies: cells
/// on a mirror line whose originals have no owner keep their values.
[[nodiscard]] IndexMap with_holes(IndexMap map, IndexMap kept, Owners owners, double hole);

/// Values of a kind on faces that meet.
struct FaceValues {
  BlockGrid grid;                 ///< cells, and which sides meet
  std::array<Index, 2> more;      ///< along each axis, 1 for values on all faces: one more than there are cells
  std::vector<BlockGrid> owners;  ///< blocks of fields of such values, and of fields of the other component of a vector
};

[[nodiscard]] FaceValues values_on_faces(BlockGrid const& grid, Boundary const& boundary);

/// Values on a face or beyond its sides, and who holds them: block `owner` of `face`, or none (-1).
struct OnFace {
  int face;
  Box box;        ///< in the coordinates of the first face
  AxisMaps maps;  ///< to those of `face`
  int owner = -1;
  [[nodiscard]] bool turned() const noexcept { return maps[0].source_axis != 0; }
  /// Whether the values lie where they are needed, on the face `first`.
  [[nodiscard]] bool in_place(int first) const noexcept {
    return face == first && maps[0] == AxisMap{0} && maps[1] == AxisMap{1};
  }
};

/// The images of `box`, which lies on or around `face`; parts of it without image are left out. Beyond two sides at
/// once these are the values to which both ways round the corner lead. Values on sides that meet are those of the
/// lowest of the faces that has an owner for them: other faces hold copies.
[[nodiscard]] std::vector<OnFace> images_on_faces(FaceValues const& values, int face, Box const& box);

/// As `map_of_blocks` on faces that meet, for a kind of scalars (`component` -1), or of components along an axis: of
/// their own field where axes do not turn, and of the field of the other component, `other`, where they do. Blocks of
/// that field are counted after all blocks of their own.
[[nodiscard]] IndexMap map_of_faces(FaceValues const& values, FaceValues const& other, int component, double hole);

/// The same in coordinates (number of the block, place in the block), for boxes of one block.
[[nodiscard]] IndexMap map_of_blocks(IndexMap const& map, IndexMap const& kept, BlockGrid const& grid, double hole);

/// `box` of the grid, in the coordinates of `block`, which has the number `number`.
[[nodiscard]] Box in_block(Box const& box, int number, Box const& block);

/// What the fields of a rank cover that owns the places `owned` of its blocks.
[[nodiscard]] Box local_box_of_blocks(Box const& owned, HaloKind const& kind);

}  // namespace graticule::detail
