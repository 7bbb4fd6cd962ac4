// SPDX-License-Identifier: BSD-3-Clause
// Boxes and rules that several sources need.
#pragma once

#include <graticule/halo/plan.hpp>

#include <vector>

namespace graticule::detail {

/// What fields of a kind cover in memory.
[[nodiscard]] inline Box local_box(Box const& owned, HaloKind const& kind) {
  return grown(owned, kind.memory.empty() ? kind.widths : kind.memory);
}

/// The cells of `outer` that are not in `inner`, as disjoint boxes.
[[nodiscard]] std::vector<Box> boxes_around(Box const& inner, Box const& outer);

/// The mirror of the rule lies on the edge row, not on its outer face.
[[nodiscard]] constexpr bool mirrors_at_row(Edge edge) noexcept {
  return edge == Edge::reflect || edge == Edge::antireflect || edge == Edge::pole_row || edge == Edge::tripolar_row;
}

}  // namespace graticule::detail
