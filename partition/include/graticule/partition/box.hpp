// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <span>
#include <string>

namespace graticule {

/// Halo cells on the two sides of one axis. Negative values crop.
struct Width {
  Index lower = 0;
  Index upper = 0;
  friend bool operator==(Width const&, Width const&) = default;
};

/// Half-open box `[lo, hi)` of cells in global coordinates, with up to `max_ndim` axes.
///
/// It is empty when any `hi <= lo`. Coordinates may lie outside the global box (ghost cells do).
/// Example: rows 0 to 60 of a 241 x 480 grid are `Box({0, 0}, {61, 480})`.
class Box {
 public:
  Box() = default;
  /// @pre `lo` and `hi` have the same number of axes (`AxesMismatch`)
  Box(Indices lo, Indices hi);
  /// `[0, extents)`.
  [[nodiscard]] static Box from_extents(Indices const& extents);

  [[nodiscard]] int ndim() const noexcept { return lo_.size(); }
  [[nodiscard]] Indices const& lo() const noexcept { return lo_; }
  [[nodiscard]] Indices const& hi() const noexcept { return hi_; }
  [[nodiscard]] Index lo(int axis) const noexcept { return lo_[axis]; }
  [[nodiscard]] Index hi(int axis) const noexcept { return hi_[axis]; }
  /// Cells along `axis`; never negative.
  [[nodiscard]] Index extent(int axis) const noexcept { return hi_[axis] > lo_[axis] ? hi_[axis] - lo_[axis] : 0; }
  [[nodiscard]] Indices extents() const;
  [[nodiscard]] bool empty() const noexcept;
  /// Number of cells; a box without axes holds one cell. @throws `OutOfRange` beyond 2^63
  [[nodiscard]] Index num_cells() const;
  [[nodiscard]] bool contains(Indices const& cell) const noexcept;
  /// True when every cell of `other` lies in this box; an empty box lies in every box.
  [[nodiscard]] bool contains(Box const& other) const noexcept;

  void set(int axis, Index lo, Index hi) noexcept {
    lo_[axis] = lo;
    hi_[axis] = hi;
  }

  friend bool operator==(Box const&, Box const&) = default;

 private:
  Indices lo_;
  Indices hi_;
};

/// The cells in both boxes; possibly empty. @pre same number of axes (`AxesMismatch`)
[[nodiscard]] Box intersection(Box const& a, Box const& b);

/// The box extended by `widths[axis]` on each side. An empty box stays empty: no cells, no halo.
/// @pre one width per axis (`AxesMismatch`)
[[nodiscard]] Box grown(Box const& box, std::span<Width const> widths);

/// `[0, 61) x [0, 480)`
[[nodiscard]] std::string to_string(Box const& box);

}  // namespace graticule
