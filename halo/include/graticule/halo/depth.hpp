// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/plan.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graticule {

/// Whether an operator does the same to a field and to its mirror image (its stencil is symmetric, or made so by metric
/// terms that are mirrored too): then what it computes beyond a mirror, a pole or a seam is what the rule would put there.
enum class AtMirrors : std::uint8_t { differs, commutes };

/// How many layers of a field's halo are valid: exchange once, then apply operators until the halo is used up.
///
/// Counts the same on all ranks, by axis and side, inside the globe and beyond its edges (beyond a periodic edge is
/// inside). An exchange sets both to the widths; a write to owned cells sets both to 0; an operator of reach r needs r
/// and leaves r less. Beyond an edge the result is valid only where operator and rule commute, see `commutes_at`. There
/// `refill` puts the rule's values. Beyond `untouched` edges nothing is counted: cells to compute end at the edge. Where owned cells are
/// copies, an operator that does not commute with their fold leaves nothing valid: only an exchange renews them.
/// Example: widths {3, 3}, reach {1, 1}: rank 1 of 3, cells [8, 16), computes [6, 18), then [7, 17), then [8, 16).
class HaloDepth {
 public:
  /// Nothing is valid yet. @param name of the field, for messages
  /// @throws `DepthNeedsWholeHalo` for kinds that skip corners or parts, or have widths of each rank
  HaloDepth(HaloPlan const& plan, std::string name, int kind = 0, Parity parity = Parity::even);

  /// Valid layers on the two sides of `axis`, inside the globe and beyond its edges.
  [[nodiscard]] Width inside(int axis) const noexcept { return inside_[std::size_t(axis)]; }
  [[nodiscard]] Width beyond(int axis) const noexcept { return beyond_[std::size_t(axis)]; }
  /// The cells of this rank that hold valid values.
  [[nodiscard]] Box valid() const;
  /// True for rules that symmetric operators commute with: periodic edges; mirrors, poles and seams between two cells;
  /// values on a mirror only where the rule makes them equal to their images (`reflect`; poles and seams with
  /// `MirrorLine::copy`, unless a value of odd parity on a seam is its own image). Never `constant` and `replicate`.
  [[nodiscard]] bool commutes_at(int axis, bool upper) const noexcept { return side(axis, upper).commutes; }

  /// The field's halo was exchanged.
  void exchanged();
  /// Owned cells were written otherwise than by an operator on all valid cells.
  void written();

  /// True where an operator of this reach may be applied; the same on all ranks.
  /// @throws `AxesMismatch` unless there is one reach per axis, `BadReach` for a negative one
  [[nodiscard]] bool suffices(std::span<Width const> reach) const { return too_shallow(reach).empty(); }
  /// The field becomes the result of an operator on `input`, which may be this field: returns the cells to compute.
  /// @pre a field of the same layout as this one, whose halo holds what `input` counts: each exchange, write and operator
  ///      was told, on all ranks in the same order; nothing else can be checked
  /// @throws `HaloTooShallow` naming field, side, have and need, on all ranks alike; as `suffices`; `AxesMismatch` for
  ///         fields of other layouts
  [[nodiscard]] Box apply(HaloDepth const& input, std::span<Width const> reach, AtMirrors at_mirrors);
  /// Makes ghosts beyond the edges valid as deep as the rules lead to valid cells of this rank; no messages.
  /// Beyond poles and seams only where every rank owns whole circles of latitude, and no copies (`MirrorLine::copy`).
  /// @throws `FieldMismatch` when the field does not cover the plan's local box
  void refill(FieldView const& field);

 private:
  struct Side {
    Edge edge = Edge::untouched;
    Index mirror = 0;  ///< ghost number k (from 1) reads the cell at distance k + mirror from the edge cell
    bool commutes = false;
    bool refilled = false;  ///< by `refill`
    bool copies = false;    ///< owned cells there are copies
  };

  [[nodiscard]] std::string too_shallow(std::span<Width const> reach) const;
  [[nodiscard]] Side const& side(int axis, bool upper) const noexcept {
    return sides_[std::size_t(2 * axis + (upper ? 1 : 0))];
  }
  [[nodiscard]] Index depth_by_refill(int axis, bool upper) const noexcept;
  void check(FieldView const& field) const;

  std::string name_;
  Indices extents_;
  Boundary boundary_;
  std::vector<Width> widths_;
  Parity parity_;
  Box owned_;
  Box local_;
  std::vector<Side> sides_;  ///< lower and upper of each axis
  std::vector<Width> inside_;
  std::vector<Width> beyond_;
};

}  // namespace graticule
