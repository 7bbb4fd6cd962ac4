// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/plan.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graticule {

/// Whether an operator commutes with the mirror image (its stencil is symmetric, or made symmetric by metric terms that
/// are mirrored too). Its results beyond a mirror, a pole or a seam then equal the values of the rule.
enum class AtMirrors : std::uint8_t { differs, commutes };

/// Number of valid layers of a field's halo: exchange once, then apply operators until the halo is exhausted.
///
/// The counts are the same on all ranks. They are kept per axis and side, inside the globe and beyond its edges (beyond
/// a periodic edge counts as inside). An exchange sets both to the widths; a write to owned cells sets both to 0; an
/// operator of reach r needs r and leaves r less. Beyond an edge the result is valid only where operator and rule
/// commute, see `commutes_at`. There `refill` writes the rule's values. Beyond `untouched` edges nothing is counted:
/// the cells to compute end at the edge. Where owned cells are copies, no layer is valid after an operator that does
/// not commute with their fold: only an exchange updates them.
/// Example: widths {3, 3}, reach {1, 1}: rank 1 of 3, cells [8, 16), computes [6, 18), then [7, 17), then [8, 16).
class HaloDepth {
 public:
  /// Starts without valid layers. `name` identifies the field in messages.
  /// @throws `Unsupported` for kinds that skip corners or parts, or whose widths differ between ranks
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
  /// Owned cells were written by other means than an operator on all valid cells.
  void written();

  /// True if an operator of this reach may be applied; the same on all ranks.
  /// @throws `AxesMismatch` unless there is one reach per axis, `BadHaloWidth` for a negative one
  [[nodiscard]] bool suffices(std::span<Width const> reach) const { return too_shallow(reach).empty(); }
  /// The field becomes the result of an operator on `input`, which may be this field: returns the cells to compute.
  /// @pre a field on the layout of this one, whose halo has the valid layers that `input` counts: each exchange, write
  ///      and operator was reported to it, on all ranks in the same order; only the layout can be checked
  /// @throws `HaloTooShallow` with field, side, available and required layers, on all ranks alike; as `suffices`;
  ///         `AxesMismatch` for fields of other layouts
  [[nodiscard]] Box apply(HaloDepth const& input, std::span<Width const> reach, AtMirrors at_mirrors);
  /// Makes ghost cells beyond the edges valid to the depth to which the rules read valid cells of this rank; sends no
  /// messages. Beyond poles and seams only where every rank owns whole circles of latitude, and no copies
  /// (`MirrorLine::copy`).
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
