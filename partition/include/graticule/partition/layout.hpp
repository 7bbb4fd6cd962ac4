// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/process_grid.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace graticule {

/// Which rank owns which box of the global box `[0, extents)`.
///
/// Invariant: owned boxes are disjoint and cover the global box, except the holes of `with_holes`; a rank may own
/// nothing.
/// A copy shares the description. A layout of cuts needs memory by ranks per axis, not by ranks, unless a list orders
/// them.
/// Example: 241 x 480 cells on a 4 x 1 grid with cuts 61, 60, 60, 60: rank 1 owns [61, 121) x [0, 480).
class Layout {
 public:
  /// Tensor product: rank `grid.rank(c)` owns part `c[a]` of `cuts[a]` on every axis `a`; ranks that are not in the
  /// grid own nothing. @throws `AxesMismatch`, `BadCuts` when grid and cuts differ in axes or parts, `OutOfRange`
  Layout(ProcessGrid grid, std::vector<Cuts> cuts);
  /// Balanced cuts of `extents` over `grid`.
  Layout(ProcessGrid const& grid, Indices const& extents);
  /// One box per rank, in any arrangement. @throws `BadLayout`, `AxesMismatch`
  [[nodiscard]] static Layout from_boxes(Indices const& extents, std::span<Box const> boxes);
  /// One box per rank that need not cover the grid: the other cells are holes, which no rank owns (land that an ocean
  /// code leaves out). A halo plan fills ghost cells there with `HaloKind::hole`; plans that would read them throw
  /// `OutOfRange`. @throws as `from_boxes`
  [[nodiscard]] static Layout with_holes(Indices const& extents, std::span<Box const> boxes);

  [[nodiscard]] int ndim() const noexcept;
  [[nodiscard]] Box const& global() const noexcept;
  [[nodiscard]] Index extent(int axis) const noexcept { return global().hi(axis); }
  /// Number of ranks in the description; higher ranks own nothing.
  [[nodiscard]] int num_ranks() const noexcept;
  /// Box of `rank`; empty for a rank that owns nothing. @throws `OutOfRange` for a negative one
  [[nodiscard]] Box owned(int rank) const;
  /// Calls `visit(rank, part)` for each rank whose owned box intersects `box`, in increasing order of ranks; `part` is
  /// the intersection, never empty. Cost: O(axes log P + hits) for cuts, about
  /// O(log P + hits log hits) for box lists.
  void for_each_owner(Box const& box, std::function<void(int, Box const&)> const& visit) const;

  /// Some cells have no owner.
  [[nodiscard]] bool has_holes() const noexcept;

  /// The grid and the cuts of a tensor-product layout; `nullptr` for a box list.
  [[nodiscard]] ProcessGrid const* grid() const noexcept;
  [[nodiscard]] Cuts const* cuts(int axis) const noexcept;

  /// Equal on all ranks exactly when the descriptions of the layouts are equal.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  struct Description;
  explicit Layout(std::shared_ptr<Description const> description) : description_(std::move(description)) {}
  std::shared_ptr<Description const> description_;
};

/// `4x1 ranks, rows 61,60,60,60`, for messages and reports.
[[nodiscard]] std::string to_string(Layout const& layout);

}  // namespace graticule
