// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

namespace graticule {

/// The layout whose parts of `axis` take equal time, from the seconds that a step took on each rank: measure the work
/// alone, without the waiting for others. The other axes, the process grid and the order of ranks stay.
///
/// Collective. The slowest rank of a part speaks for it; see `rebalanced_cuts`. A `RepartitionPlan` from the old layout
/// to the new one then moves the fields:
/// ```
/// Layout const better = rebalanced(comm, layout, 0, seconds);
/// RepartitionPlan(comm, layout, better).apply(field, moved);
/// ```
/// @param seconds of this rank; not read on a rank that owns nothing
/// @param min_cells fewest cells of a part; the widths, say, so that halos reach no second neighbor
/// @throws `NotTensorProduct` for a layout of boxes, `BadCuts` on all ranks for a time that is negative, zero or not
///         finite, and for too many `min_cells`. Cost: one all-reduce of as many numbers as there are parts
[[nodiscard]] Layout rebalanced(Comm const& comm, Layout const& layout, int axis, double seconds, Index min_cells = 1);

}  // namespace graticule
