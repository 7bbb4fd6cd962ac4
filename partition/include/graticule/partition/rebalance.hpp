// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

namespace graticule {

/// The layout whose parts of `axis` take equal time, from the duration of a step on each rank: measure the computation
/// alone, without waiting times. The other axes, the process grid and the order of ranks do not change.
///
/// Collective. The slowest rank of a part determines its time; see `rebalanced_cuts`. A `RepartitionPlan` from the old
/// layout to the new one then moves the fields:
/// ```
/// Layout const better = rebalanced(comm, layout, 0, seconds);
/// RepartitionPlan(comm, layout, better).apply(field, moved);
/// ```
/// @param comm the layout's ranks @param layout the current one @param axis the axis to cut again @param seconds of
///        this rank; not read on a rank that owns nothing
/// @param min_cells minimum number of cells of a part; with the widths, for example, halos never reach a second
///         neighbor
/// @throws `BadLayout` for a layout of boxes, `BadCuts` on all ranks for a time that is negative, zero or not
///         finite, and for too many `min_cells`. Cost: one all-reduce of one number per part
[[nodiscard]] Layout rebalanced(Comm const& comm, Layout const& layout, int axis, double seconds, Index min_cells = 1);

}  // namespace graticule
