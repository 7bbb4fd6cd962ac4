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

/// The same in coordinates (number of the block, place in the block), for boxes of one block.
[[nodiscard]] IndexMap map_of_blocks(IndexMap const& map, IndexMap const& kept, BlockGrid const& grid, double hole);

/// `box` of the grid, in the coordinates of `block`, which has the number `number`.
[[nodiscard]] Box in_block(Box const& box, int number, Box const& block);

/// What the fields of a rank cover that owns the places `owned` of its blocks.
[[nodiscard]] Box local_box_of_blocks(Box const& owned, HaloKind const& kind);

}  // namespace graticule::detail
