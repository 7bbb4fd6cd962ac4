// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/block_grid.hpp>
#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/tuning.hpp>

#include <array>
#include <span>
#include <type_traits>
#include <vector>

namespace graticule {

/// Ghost cells that an exchange fills: only those beyond a face, or also those beyond edges and corners.
enum class Corners : std::uint8_t { skip, fill };

/// Whether all ranks have the same halo widths, or each rank its own.
enum class WidthsOf : std::uint8_t { all_ranks, this_rank };

/// Widths, rules and parts of the halo of one kind of field.
///
/// Example: `{.widths = {{1, 1}, {1, 1}}, .boundary = Boundary::sphere(Edge::pole_row), .directions = {{-1, 0}}}` fills
/// the row north of the owned box, without its corners, of fields with a halo of one cell.
struct HaloKind {
  std::vector<Width> widths;  ///< halo cells to fill, per axis and side
  Boundary boundary;
  Corners corners = Corners::fill;
  /// Parts to fill, -1, 0 or 1 per axis; all zeros stand for owned cells that are copies. Empty: all parts.
  std::vector<Indices> directions = {};
  /// Halo widths of the fields in memory, at least `widths`; the excess is not touched. Empty: the widths.
  std::vector<Width> memory = {};
  WidthsOf widths_of = WidthsOf::all_ranks;  ///< of `widths` and `memory`
  double hole = 0;                           ///< becomes the value of ghost cells whose image no rank owns
  /// On faces that meet with a turn: fields of this kind are the component along this axis (0 or 1) of a vector. Kinds
  /// of components come in pairs, one kind after the other, and so do their fields in a call. -1: no component.
  int component = -1;
};

/// One field of an exchange: memory that covers the local box of its kind, and how it behaves at a fold.
struct HaloField {
  FieldView view;
  Parity parity = Parity::even;
  int kind = 0;
};

/// What a call takes several of as arguments.
template <class T>
concept HaloArgument = std::is_convertible_v<T const&, HaloField const&> || std::is_convertible_v<T const&, FieldView>;

/// Fills the halos of fields from the owned cells of all ranks and from the boundary rules.
///
/// Holds geometry only: one plan serves every field on its layout, any number of batch axes, any dtype and memory
/// space; several exchanges may be in flight. Fields of different kinds (widths, rules, staggering) share one message
/// per peer. Halos may be deeper than a neighbor's box; corners come directly from their owners, so an exchange is one
/// round of messages. A rank that owns nothing has no halo but takes part. A rank that rejects a call (`FieldMismatch`,
/// `AliasedFields`, ...) does not wait; ranks that need its cells get `PeerRefused`, and the next calls match again.
/// The environment variables `GRATICULE_CHECK` and `GRATICULE_STALL_SECONDS` help to find the cause.
///
/// Example: one axis, 8 cells, 2 ranks, width {1, 1}, periodic: rank 0 owns [0, 4), its local box is [-1, 5);
/// cell -1 receives global cell 7 and cell 4 receives global cell 4 from rank 1.
class HaloPlan {
 public:
  /// One kind of field. Collective.
  /// `widths` are halo cells per axis and side, none negative: a field holds all its owned cells. For a box smaller
  /// than the owned box (a crop) use a target box of a `RepartitionPlan`.
  /// @throws `BadHaloWidth`, `AxesMismatch`, what a `Boundary` lists, `ArgumentDisagreement` when ranks differ
  HaloPlan(Comm const& comm, Layout const& layout, std::vector<Width> const& widths, Boundary const& boundary,
           Corners corners = Corners::fill);
  /// Several kinds. Collective. @throws as above, `AxesMismatch`, `BadOption`
  HaloPlan(Comm const& comm, Layout const& layout, std::vector<HaloKind> kinds);
  /// Several blocks per rank, in one plan: blocks of one rank copy from each other, and each peer gets one message.
  ///
  /// Kinds have the axes of the grid; fields, `owned()` and `local()` have the number of the block as one more axis in
  /// front (see `BlockGrid`). Ghost cells of a block that is smaller than the rank's largest follow its own cells.
  /// Where faces meet (cubed spheres), ghost cells are those of the other face; beyond two sides at once they are
  /// filled where both ways round the corner lead to one cell, and keep their values where three faces meet, as they do
  /// beyond sides without joint. Values on all faces along an axis (`Stagger::all_faces`: scalars at corners, both
  /// components of a C grid or of a D grid) lie on the sides themselves, too, in each of the faces that meet there:
  /// those of the lowest face are owned cells, those of the other ones become copies of them.
  /// @throws as above, `BadBoundary` on faces that meet for rules other than `Edge::untouched`, for values on low or
  ///         high faces only, for scalars on all faces along one axis and components on all faces along both,
  ///         `BadHaloWidth` for more halo cells than such a face has, `BadOption` for a component without the other one
  HaloPlan(Comm const& comm, BlockGrid const& blocks, std::vector<HaloKind> kinds);

  /// Kinds are numbered from 0; functions that take a kind throw `OutOfRange` for any other number.
  [[nodiscard]] int num_kinds() const noexcept { return int(kinds_.size()); }
  [[nodiscard]] HaloKind const& kind(int kind) const { return kinds_[checked(kind)]; }
  [[nodiscard]] Layout const& layout() const noexcept { return layout_; }
  /// Blocks of fields of `kind` of a plan for blocks; null for other plans. With values on all faces, those at the
  /// upper end of the grid have one cell more.
  [[nodiscard]] BlockGrid const* blocks(int kind = 0) const {
    auto const k = checked(kind);
    return blocks_.empty() ? nullptr : &blocks_[k];
  }
  /// This rank's part of the global box, and the same with the halo of fields of `kind`: the box that they cover.
  [[nodiscard]] Box const& owned() const noexcept { return owned_; }
  /// Who owns which cells of fields of `kind`: the plan's layout, with one cell more along axes with values on all
  /// faces
  /// (`Stagger::all_faces`); for repartitions, sums, files and checkpoints of such fields. And this rank's part of it.
  [[nodiscard]] Layout const& layout(int kind) const { return layouts_[checked(kind)]; }
  [[nodiscard]] Box const& owned(int kind) const { return owned_of_[checked(kind)]; }
  [[nodiscard]] Box const& local(int kind = 0) const { return local_[checked(kind)]; }

  /// Owned cells whose stencil of the given reach reads no cell that an exchange of `kind` fills: compute them between
  /// `start()` and `wait()`. By default the reach is the kind's widths. Possibly empty.
  /// @throws `AxesMismatch`, `BadHaloWidth` for a negative reach
  [[nodiscard]] Box interior(int kind = 0) const { return interior(kinds_[checked(kind)].widths, kind); }
  [[nodiscard]] Box interior(std::span<Width const> reach, int kind = 0) const;
  /// The other owned cells as disjoint boxes: compute them after `wait()`.
  [[nodiscard]] std::vector<Box> border(int kind = 0) const { return border(kinds_[checked(kind)].widths, kind); }
  [[nodiscard]] std::vector<Box> border(std::span<Width const> reach, int kind = 0) const;

  /// Reads owned cells, writes ghost cells, and owned cells that are copies (`MirrorLine::copy`). Owned cells may be
  /// read, not written, until `wait()`; cells to be filled not at all.
  /// Device fields are read and written in order of `queue`.
  /// @throws `FieldMismatch` when a view does not fit the local box of its kind, `OutOfRange`, `AliasedFields` when the
  ///         same cells are filled, or filled and read, through two fields of the call; fields may interleave in memory
  Pending start(std::span<HaloField const> fields, DeviceQueue const& queue = {}) const;
  void exchange(std::span<HaloField const> fields) const;
  /// Adds to each owned cell the values of its images on all ranks, in a fixed order, and zeroes the images.
  Pending start_adjoint(std::span<HaloField const> fields, DeviceQueue const& queue = {}) const;
  void exchange_adjoint(std::span<HaloField const> fields) const { start_adjoint(fields).wait(); }

  /// The same for a single field of kind 0 and even parity.
  Pending start(FieldView const& field, DeviceQueue const& queue = {}) const { return start(as_fields(field), queue); }
  void exchange(FieldView const& field) const { exchange(as_fields(field)); }
  Pending start_adjoint(FieldView const& field, DeviceQueue const& queue = {}) const {
    return start_adjoint(as_fields(field), queue);
  }
  void exchange_adjoint(FieldView const& field) const { start_adjoint(field).wait(); }

  /// The same for several fields given as arguments: views, or `HaloField`s where kind or parity matter.
  template <class... Fields>
  requires(sizeof...(Fields) > 1 && (HaloArgument<Fields> && ...)) Pending start(Fields const&... fields)
  const { return start(as_fields(fields...)); }
  template <class... Fields>
  requires(sizeof...(Fields) > 1 && (HaloArgument<Fields> && ...)) void exchange(Fields const&... fields) const {
    exchange(as_fields(fields...));
  }
  template <class... Fields>
  requires(sizeof...(Fields) > 1 && (HaloArgument<Fields> && ...)) Pending start_adjoint(Fields const&... fields)
  const { return start_adjoint(as_fields(fields...)); }
  template <class... Fields>
  requires(sizeof...(Fields) > 1 &&
           (HaloArgument<Fields> && ...)) void exchange_adjoint(Fields const&... fields) const {
    start_adjoint(as_fields(fields...)).wait();
  }

  [[nodiscard]] PullCounts counts() const noexcept { return plan_.counts(); }
  /// The path to each peer, and the choice of paths, as those of `RepartitionPlan`.
  [[nodiscard]] std::vector<PeerPath> paths() const { return plan_.paths(); }
  void set_transport(Transport transport) { plan_.set_transport(transport); }
  [[nodiscard]] PullStats stats() const { return plan_.stats(); }
  /// Measures the paths with these fields and selects the fastest, as `RepartitionPlan::tune`. Collective; no call in
  /// flight.
  TuningRecord tune(std::span<HaloField const> fields, int num_calls = 20);
  [[nodiscard]] int num_workspaces() const noexcept { return plan_.num_workspaces(); }
  /// For `dump_plan`.
  [[nodiscard]] PullPlan const& pull_plan() const noexcept { return plan_; }

 private:
  static HaloField as_field(FieldView const& view) { return {view}; }
  static HaloField const& as_field(HaloField const& field) { return field; }
  template <class... Fields>
  static std::array<HaloField, sizeof...(Fields)> as_fields(Fields const&... fields) {
    return {as_field(fields)...};
  }

  [[nodiscard]] std::size_t checked(int kind) const {
    if (kind < 0 || kind >= num_kinds())
      throw Error("OutOfRange", "kind must be in [0, " + std::to_string(num_kinds()) +
                                    "), the kinds of this plan, got " + std::to_string(kind));
    return std::size_t(kind);
  }

  [[nodiscard]] std::span<HaloKind const> components() const noexcept {
    return has_components_ ? std::span<HaloKind const>(kinds_) : std::span<HaloKind const>();
  }
  [[nodiscard]] Box interior_of_blocks(std::span<Width const> reach, int kind) const;

  Layout layout_;
  Indices grid_extents_;
  std::vector<BlockGrid> blocks_;  ///< by kind; none for one box per rank
  bool has_components_ = false;
  bool faces_meet_ = false;
  std::vector<HaloKind> kinds_;
  Box owned_;
  std::vector<Layout> layouts_;  ///< by kind
  std::vector<Box> owned_of_;    ///< by kind
  std::vector<Box> local_;       ///< by kind
  PullPlan plan_;
};

}  // namespace graticule
