// SPDX-License-Identifier: BSD-3-Clause
// Boxes and rules that several sources need.
#pragma once

#include <graticule/halo/detail/edges.hpp>
#include <graticule/halo/plan.hpp>

#include <vector>

namespace graticule::detail {

/// What fields of a kind cover in memory.
[[nodiscard]] inline Box local_box(Box const& owned, HaloKind const& kind) {
  return grown(owned, kind.memory.empty() ? kind.widths : kind.memory);
}

/// The layout of fields of a kind: with one cell more, of the ranks that own the last one, along axes with values on
/// all faces.
[[nodiscard]] Layout layout_of(Layout const& layout, Boundary const& boundary);

[[nodiscard]] BlockGrid grid_of(BlockGrid const& grid, Boundary const& boundary);

/// What a rank owns of such fields; nothing where it owns no cell of the grid.
[[nodiscard]] inline Box owned_of(Layout const& layout, Layout const& of_kind, int rank) {
  auto owned = layout.owned(rank);
  return owned.empty() ? owned : of_kind.owned(rank);
}

/// The cells of `outer` that are not in `inner`, as disjoint boxes.
[[nodiscard]] std::vector<Box> boxes_around(Box const& inner, Box const& outer);

/// The mirror of the rule lies on the edge row, not on its outer face.
[[nodiscard]] constexpr bool mirrors_at_row(Edge edge) noexcept { return enum_row(edge).ghost == Ghost::mirror_at_row; }

}  // namespace graticule::detail
