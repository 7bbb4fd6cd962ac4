// SPDX-License-Identifier: BSD-3-Clause
// Where the cells of a transfer lie in the memory of a view.
#pragma once

#include <graticule/repartition/detail/strided.hpp>

#include "table/pull_table.hpp"

namespace graticule::detail {

/// The cells of `box` in a view that covers the cells from `cover_lo` on; batch axes first, then the axes of the box.
[[nodiscard]] Elements target_cells(FieldView const& view, Indices const& cover_lo, Box const& box);

/// The images of the cells of `transfer.to`, axis by axis of the target; batch axes first.
[[nodiscard]] Elements source_cells(FieldView const& view, Indices const& cover_lo, Transfer const& transfer);

/// Batch extents of `view`, then the extents of `box`: the order in which cells lie in a message.
[[nodiscard]] Indices extents_of(FieldView const& view, Box const& box);

}  // namespace graticule::detail
