// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/selection.hpp>
#include <graticule/repartition/tuning.hpp>

#include <optional>
#include <span>
#include <vector>

namespace graticule {

/// Options of `RepartitionPlan`.
struct RepartitionOptions {
  /// Axis `a` of the new grid is axis `permutation[a]` of the old one; empty: the order of axes is unchanged.
  Indices permutation = {};
  /// Cells of the old grid that are read, and the corresponding cells of the new grid, in the same order; default: all.
  /// With target boxes and only `from`, the new grid is that of the selected cells, numbered from 0.
  std::optional<Selection> from = {};
  std::optional<Selection> to = {};
  /// Maximum bytes of buffers of this rank, for fields of any size, and as many again on the device for device fields;
  /// 0: a few hundred kilobytes per peer for `apply`, and all outgoing cells for `start`. With a limit, calls in flight
  /// complete one after the other, and only while their ranks are in a call of this plan: between `start` and `wait`,
  /// do not wait for another rank in any other way.
  Index workspace_bytes = 0;
};

/// One field of a call: its source and target memory.
struct RepartitionField {
  FieldView from;  ///< covers `source_box()`
  FieldView to;    ///< covers `target_box()`; batch axes as `from`, any type that `from` converts to
  /// With a list of target boxes, instead of `to`: one view per box of `target_boxes()`, all of one type.
  std::span<FieldView const> targets = {};
  Update update = {};
  std::optional<Packing> from_packing = {};
  std::optional<Packing> to_packing = {};
};

/// Moves fields from one layout to any other: other cuts, other ranks, other axis order, other types, parts of the
/// grid.
///
/// Both layouts use the ranks of one communicator and may leave any of them without cells, so fields may move from M
/// ranks to N others; `shared_layout` expresses layouts of two communicators in the ranks of their parent. All ranks
/// make all calls. Messages are sent in segments that stay in caches; peers on the node read a source in `NodeMemory`
/// in place.
/// Example: rows to columns of a 241 x 480 grid on 4 ranks: `RepartitionPlan(comm, rows, columns)`, where
/// `rows = Layout({4, 1}, {241, 480})` and `columns = Layout({1, 4}, {241, 480})`.
class RepartitionPlan {
 public:
  /// Collective; all options except `workspace_bytes` are the same on all ranks.
  /// @throws `LayoutMismatch` when the permuted extents or the numbers of selected cells differ, or a target box leaves
  ///         the new grid, `AxesMismatch`, `BadSelection`; `ArgumentDisagreement` when arguments that are the same on
  ///         all ranks are not, `BadProcessGrid` for a layout of more ranks than `comm` has, `BudgetTooSmall`, which
  ///         states the minimum of `workspace_bytes`, `OutOfMemory` when the memory for messages cannot be allocated,
  ///         `BadOption` and `BadInput` for invalid environment variables, `CheckFailed` when cells are checked and one
  ///         is wrong; on all ranks alike. Cost: messages to peers, a few small reductions
  RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to, RepartitionOptions const& options = {});
  /// The same for any box of the new grid on each rank: boxes may overlap (replicas, halos) and need not cover the
  /// grid.
  RepartitionPlan(Comm const& comm, Layout const& from, Box const& target, RepartitionOptions const& options = {});
  /// The same for several boxes per rank, in any number on each rank, with one message per peer for all of them.
  /// Example: on a 6 x 4 grid, targets {[0, 1) x [0, 4), [5, 6) x [0, 4)} on rank 0 and {} on the others move the first
  /// and the last row to rank 0: `plan.apply(field, std::array{first, last})`.
  RepartitionPlan(Comm const& comm, Layout const& from, std::vector<Box> const& targets,
                  RepartitionOptions const& options = {});

  [[nodiscard]] Box const& source_box() const noexcept { return source_box_; }
  /// The first of `target_boxes()`.
  [[nodiscard]] Box const& target_box() const noexcept { return target_boxes_.front(); }
  /// The boxes that target views cover, in this order, as passed; one empty box for an empty list.
  [[nodiscard]] std::vector<Box> const& target_boxes() const noexcept { return target_boxes_; }

  /// Writes the selected cells of `to`: `to = alpha * op(from) + beta * to`. Device fields are read and written in
  /// order of the `DeviceQueueScope`, if there is one, in this and all other calls. The elements that a call writes are
  /// not shared with other memory of the call (`AliasedFields`), except that a cell may stay in place: an all-gather of
  /// parts inside the whole, a plain `apply` to the same layout. Interleaved views do not overlap. The memory of other
  /// calls in flight is not checked.
  /// `apply` returns when the peers have received the cells that they need from this rank; after `start`, `wait` does
  /// not depend on them (unless integers are packed or scaled: then all ranks agree at start and end). A rank that
  /// rejects a call notifies the ranks that need its cells; one that only sends to it continues with its next call.
  /// @throws `FieldMismatch` when views do not fit the plan or each other, or written cells of one view share memory
  ///         (strides of 0, or that overlap); `AliasedFields`, compared by address, per element; `Conversion` when the
  ///         type of `to` does not hold the values; `OutOfMemory`; `PeerRefused` when a rank whose cells are needed has
  ///         rejected the call; with `GRATICULE_CHECK=comm` `CallDisagreement` on all ranks when their calls differ.
  ///         Cost of the alias check: none for the fields of an earlier call
  Pending start(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  /// One field, several target boxes.
  Pending start(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  void apply(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  /// Several fields, in one message per peer.
  Pending start(std::span<RepartitionField const> fields) const;
  void apply(std::span<RepartitionField const> fields) const;

  /// The transposed map: `from = conj(alpha) * sum of the images of its cells in to + beta * from`, in a fixed order of
  /// terms; `beta` is 1 by default, and applied and rounded before the terms are added. `to` is only read.
  /// Example: from one whole copy on each rank, with `beta` 0, this is a reduce-scatter.
  Pending start_adjoint(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply_adjoint(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  Pending start_adjoint(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  void apply_adjoint(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  Pending start_adjoint(std::span<RepartitionField const> fields) const;
  void apply_adjoint(std::span<RepartitionField const> fields) const;

  /// The reverse movement: `from = alpha * op(to) + beta * from` where a cell has an image; of several images, the one
  /// on the highest rank, in the last of its boxes.
  Pending start_inverse(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply_inverse(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  Pending start_inverse(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  void apply_inverse(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  Pending start_inverse(std::span<RepartitionField const> fields) const;
  void apply_inverse(std::span<RepartitionField const> fields) const;

  [[nodiscard]] PullCounts counts() const noexcept { return plan_.counts(); }
  [[nodiscard]] PullStats stats() const { return plan_.stats(); }
  /// The path to each peer, by rank, with the reason.
  [[nodiscard]] std::vector<PeerPath> paths() const { return plan_.paths(); }
  /// Sets the path of subsequent calls; `GRATICULE_TRANSPORT` sets it for new plans. Peers without shared memory stay
  /// point-to-point. @pre the same on all ranks, between the same calls
  void set_transport(Transport transport) { plan_.set_transport(transport); }
  /// Measures each path with these fields, alternating, and selects the fastest. Collective.
  ///
  /// The fields are filled as by `apply`. The choice is the same on all ranks: the median call of the slowest rank
  /// counts.
  /// @pre no call of the plan is in flight on any rank
  /// @throws `BadOption` for `num_calls < 1`, `ArgumentDisagreement` when the numbers differ between ranks, and what a
  ///         call throws on any rank: on all ranks alike; the path is then unchanged
  /// Cost: `2 * (num_calls + 2)` calls, as many barriers and three all-reduces each.
  TuningRecord tune(std::span<RepartitionField const> fields, int num_calls = 20);
  /// For `dump_plan`, and for `tune`.
  [[nodiscard]] PullPlan const& pull_plan() const noexcept { return plan_; }

 private:
  struct Described;
  RepartitionPlan(Comm const& comm, Described const& described);
  template <class Call>
  auto with_fields(std::span<RepartitionField const> fields, Call&& call) const;
  /// Fields have one target, which is given as it is.
  [[nodiscard]] bool is_simple() const noexcept;
  /// Calls `repeat` with the fields as a plan that has just had them knows them; false where it cannot be asked.
  template <class Repeat>
  bool repeats(std::span<RepartitionField const> fields, Repeat&& repeat) const;
  [[nodiscard]] PullField pulled(RepartitionField const& field, std::span<FieldView> targets) const;
  [[nodiscard]] FieldView selected(FieldView const& to, std::size_t target) const;
  /// @throws `FieldMismatch` for a target that does not fit its box
  void name_target(std::span<RepartitionField const> fields) const;

  Box source_box_;
  std::vector<Box> target_boxes_;
  std::vector<Box> numbers_;  ///< of the selected cells in each target box
  int num_targets_;           ///< on the rank with the most targets
  std::optional<Selection> to_;
  PullPlan plan_;
};

}  // namespace graticule
