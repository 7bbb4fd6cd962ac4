// SPDX-License-Identifier: BSD-3-Clause
// The table of boundary rules.
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/detail/enum_table.hpp>

namespace graticule {

/// A pole or a seam: rules that shift or reverse the longitudes.
[[nodiscard]] bool is_fold(Edge edge) noexcept;

/// Half units from a cell's centre to its value: -1, 0 or 1.
[[nodiscard]] constexpr Index offset_of(Stagger stagger) noexcept {
  return stagger == Stagger::all_faces ? -1 : Index(stagger);
}

namespace detail {

/// What a ghost cell gets: nothing, the axis' constant, a cell at the opposite side, the edge cell, or a cell mirrored
/// at the outer face of the edge row or at that row.
enum class Ghost : std::uint8_t { nothing, constant, opposite_side, edge_cell, mirror_at_face, mirror_at_row };
/// What a rule does to longitudes: nothing, a shift by half of them (a pole), or a reversal (a seam).
enum class FoldKind : std::uint8_t { none, pole, seam };

struct EdgeRow {
  char const* name = nullptr;
  Ghost ghost = Ghost::nothing;
  FoldKind fold = FoldKind::none;
  bool is_negated = false;
};

}  // namespace detail

[[nodiscard]] constexpr detail::EdgeRow enum_row(Edge edge) noexcept {
  using detail::FoldKind;
  using detail::Ghost;
  switch (edge) {
    case Edge::untouched: return {"untouched"};
    case Edge::constant: return {"constant", Ghost::constant};
    case Edge::periodic: return {"periodic", Ghost::opposite_side};
    case Edge::reflect: return {"reflect", Ghost::mirror_at_row};
    case Edge::symmetric: return {"symmetric", Ghost::mirror_at_face};
    case Edge::replicate: return {"replicate", Ghost::edge_cell};
    case Edge::pole_face: return {"pole_face", Ghost::mirror_at_face, FoldKind::pole};
    case Edge::pole_row: return {"pole_row", Ghost::mirror_at_row, FoldKind::pole};
    case Edge::antireflect: return {"antireflect", Ghost::mirror_at_row, FoldKind::none, true};
    case Edge::antisymmetric: return {"antisymmetric", Ghost::mirror_at_face, FoldKind::none, true};
    case Edge::tripolar_face: return {"tripolar_face", Ghost::mirror_at_face, FoldKind::seam};
    case Edge::tripolar_row: return {"tripolar_row", Ghost::mirror_at_row, FoldKind::seam};
  }
  return {};
}

}  // namespace graticule
