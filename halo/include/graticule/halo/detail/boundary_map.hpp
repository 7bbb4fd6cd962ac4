// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/repartition/detail/index_map.hpp>

#include <vector>

namespace graticule::detail {

/// The index map of `boundary` on the global box `[0, extents)`. Owned cells that are copies by `MirrorLine::copy` map
/// to their originals, all others to themselves.
/// @throws `AxesMismatch`, `BadBoundary` (also for poles without a periodic longitude, or with an odd number of
///         longitudes; with `MirrorLine::copy` also for `shift_floor`), `BadHaloWidth` (copies on an axis of 1 cell);
///         when called, `BadHaloWidth` beyond 1000 folds or wraps,
///         for ghosts that a mirror at the only cell never reaches,
///         and for ghosts of a grid without cells
[[nodiscard]] IndexMap boundary_map(Indices const& extents, Boundary const& boundary);

/// The cells of `owned` that are copies of other cells, as disjoint boxes; none with `MirrorLine::keep`.
[[nodiscard]] std::vector<Box> copied_boxes(Indices const& extents, Boundary const& boundary, Box const& owned);

}  // namespace graticule::detail
