// SPDX-License-Identifier: BSD-3-Clause
// Index maps of grids with holes, and of several blocks per rank.
#pragma once

#include <graticule/partition/block_grid.hpp>
#include <graticule/repartition/index_map.hpp>

#include "geometry.hpp"

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

/// Cells of a face or beyond its sides, and their images on a face.
struct OnFace {
  int face;
  Box box;        ///< in the coordinates of the first face
  AxisMaps maps;  ///< to those of `face`
  [[nodiscard]] bool turned() const noexcept { return maps[0].source_axis != 0; }
};

/// The parts of `box`, which lies on or around `face`, that have images. Beyond two sides at once these are the cells
/// to which both ways round the corner lead.
[[nodiscard]] std::vector<OnFace> on_faces(BlockGrid const& grid, int face, Box const& box);

/// As `map_of_blocks` on faces that meet, for a kind of scalars (`component` -1), or of components along an axis: the
/// field itself where axes do not turn, and the field of the other component where they do.
[[nodiscard]] IndexMap map_of_faces(BlockGrid const& grid, int component, double hole);

/// The same in coordinates (number of the block, place in the block), for boxes of one block.
[[nodiscard]] IndexMap map_of_blocks(IndexMap const& map, IndexMap const& kept, BlockGrid const& grid, double hole);

/// `box` of the grid, in the coordinates of `block`, which has the number `number`.
[[nodiscard]] Box in_block(Box const& box, int number, Box const& block);

/// What the fields of a rank cover that owns the places `owned` of its blocks.
[[nodiscard]] Box local_box_of_blocks(Box const& owned, HaloKind const& kind);

}  // namespace graticule::detail
