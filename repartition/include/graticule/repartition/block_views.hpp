// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/block_grid.hpp>
#include <graticule/repartition/field_view.hpp>

#include <vector>

namespace graticule {

/// Views of the single blocks of `rank` in a field on all of them, in the order of `grid.boxes(rank)`: the targets of a
/// repartition to these boxes.
///
/// Example: `RepartitionPlan plan(comm, rows, grid.boxes(rank))` moves a field on the layout `rows` to the blocks by
/// `plan.apply(field, views_of_blocks(grid, rank, on_blocks))`, and from the blocks by `apply_inverse`, which leaves
/// the cells of no block as they are: files, checkpoints and sums then know rows only.
/// `field` covers the box of `rank` in `grid.layout()`, as the owned part of a field with halos does
/// (`FieldView::part`).
/// @return one view without cells for a rank without blocks
/// @throws `FieldMismatch` when the field does not cover it
[[nodiscard]] std::vector<FieldView> views_of_blocks(BlockGrid const& grid, int rank, FieldView const& field);

}  // namespace graticule
