// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/pull.hpp>
#include <graticule/repartition/selection.hpp>
#include <graticule/repartition/tuning.hpp>

#include <optional>
#include <span>
#include <vector>

namespace graticule {

struct RepartitionOptions {
  /// Axis `a` of the new grid is axis `permutation[a]` of the old one; empty: axes stay as they are.
  Indices permutation = {};
  /// Cells of the old grid that are read, and cells of the new one that become them, number by number; without: all.
  /// With target boxes and `from` alone, the new grid is that of the selected cells, numbered from 0.
  std::optional<Selection> from = {};
  std::optional<Selection> to = {};
  /// Most bytes of buffers of this rank, whatever is moved, and as many again on the device for fields there; 0: a few
  /// hundred kilobytes a peer for `apply`, and all that leaves this rank for `start`. With a limit, calls in flight end one
  /// after the other, and only while their ranks are in a call of this plan: between `start` and `wait`, do not wait for
  /// another rank in other ways.
  Index workspace_bytes = 0;
};

/// One field of a call: its memory before and after.
struct RepartitionField {
  FieldView from;  ///< covers `source_box()`
  FieldView to;    ///< covers `target_box()`; batch axes as `from`, any type that `from` can become
  /// With a list of target boxes, in place of `to`: one view for each of `target_boxes()`, all of one type.
  std::span<FieldView const> targets = {};
  Update update = {};
  std::optional<IntegerPacking> from_packing = {};
  std::optional<IntegerPacking> to_packing = {};
};

/// Moves fields from one layout to any other: other cuts, other ranks, other axis order, other types, parts of the grid.
///
/// Both layouts are on the ranks of one communicator and may leave any of them without cells, so M ranks may hand over to
/// N others; `shared_layout` brings two communicators' layouts into that of their parent. All ranks make all calls.
/// Messages travel in segments that stay in caches; peers on the node read the source itself where it is `NodeMemory`.
/// Example: rows to columns of a 241 x 480 grid on 4 ranks: `RepartitionPlan(comm, rows, columns)`, where
/// `rows = Layout({4, 1}, {241, 480})` and `columns = Layout({1, 4}, {241, 480})`.
class RepartitionPlan {
 public:
  /// Collective; options but for `workspace_bytes` are the same on all ranks.
  /// @throws `LayoutMismatch` when the permuted extents or the numbers of selected cells differ, or a target box leaves the
  ///         new grid, `BadPermutation`, `BadSelection`, and what `PullPlan` throws, on all ranks alike.
  ///         Cost: messages to peers, a few small reductions
  RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to, RepartitionOptions const& options = {});
  /// The same for any box of the new grid on each rank: boxes may overlap (replicas, halos) and leave cells out.
  RepartitionPlan(Comm const& comm, Layout const& from, Box const& target, RepartitionOptions const& options = {});
  /// The same for several boxes of each rank, another number of them on each, with one message to each peer for all.
  /// Example: on a 6 x 4 grid, targets {[0, 1) x [0, 4), [5, 6) x [0, 4)} on rank 0 and {} on the others bring the first
  /// and the last row to rank 0: `plan.apply(field, std::array{first, last})`.
  RepartitionPlan(Comm const& comm, Layout const& from, std::vector<Box> const& targets,
                  RepartitionOptions const& options = {});

  [[nodiscard]] Box const& source_box() const noexcept { return source_box_; }
  /// The first of `target_boxes()`.
  [[nodiscard]] Box const& target_box() const noexcept { return target_boxes_.front(); }
  /// As given; one without cells where an empty list was given. What target views cover, in this order.
  [[nodiscard]] std::vector<Box> const& target_boxes() const noexcept { return target_boxes_; }

  /// Writes the selected cells of `to`: `to = alpha * op(from) + beta * to`. What a call writes has no element in common
  /// with other memory of the call (`AliasedFields`), except that a cell may stay where it is: an all-gather of parts that
  /// lie in the whole, a plain `apply` to the same layout. Views that interleave are apart. The memory of other calls in
  /// flight is not looked at.
  /// `apply` returns when the peers have taken what they need of this rank; after `start`, `wait` does so without them.
  /// A rank that refuses a call tells those that need its cells; one that only sends to it gets on with its next call.
  /// @throws `FieldMismatch`, `AliasedFields`, `Conversion`, `PeerRefused`: see `PullPlan::start`
  Pending start(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  /// One field to several target boxes.
  Pending start(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  void apply(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  /// Several fields in one message to each peer.
  Pending start(std::span<RepartitionField const> fields) const;
  void apply(std::span<RepartitionField const> fields) const;

  /// The transposed map: `from = conj(alpha) * sum of the images of its cells in to + beta * from`, in a fixed order of
  /// terms; `beta` is 1 unless it is given, and applied and rounded before the terms are added. `to` is only read.
  /// Example: from one whole copy on each rank, with `beta` 0, this is a reduce-scatter.
  Pending start_adjoint(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply_adjoint(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  Pending start_adjoint(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  void apply_adjoint(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  Pending start_adjoint(std::span<RepartitionField const> fields) const;
  void apply_adjoint(std::span<RepartitionField const> fields) const;

  /// Moves back: `from = alpha * op(to) + beta * from` where a cell has an image; of several, that on the highest rank, in
  /// the last of its boxes.
  Pending start_inverse(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply_inverse(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  Pending start_inverse(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  void apply_inverse(FieldView const& from, std::span<FieldView const> to, Update const& update = {}) const;
  Pending start_inverse(std::span<RepartitionField const> fields) const;
  void apply_inverse(std::span<RepartitionField const> fields) const;

  [[nodiscard]] PullCounts counts() const noexcept { return plan_.counts(); }
  [[nodiscard]] PullStats stats() const { return plan_.stats(); }
  [[nodiscard]] std::vector<PeerPath> paths() const { return plan_.paths(); }
  void set_transport(Transport transport) { plan_.set_transport(transport); }
  /// Measures the paths with these fields and takes the fastest; see `graticule::tune`. Collective; no call in flight.
  TuningRecord tune(std::span<RepartitionField const> fields, int num_calls = 20);
  /// For `dump_plan`, and for `tune`.
  [[nodiscard]] PullPlan const& pull_plan() const noexcept { return plan_; }

 private:
  struct Described;
  RepartitionPlan(Comm const& comm, Described const& described);
  template <class Call>
  auto with_fields(std::span<RepartitionField const> fields, Call&& call) const;
  [[nodiscard]] PullField pulled(RepartitionField const& field, std::span<FieldView> targets) const;
  [[nodiscard]] FieldView selected(FieldView const& to, std::size_t target) const;
  /// @throws `FieldMismatch` for a target that does not fit its box
  void name_target(std::span<RepartitionField const> fields) const;

  Box source_box_;
  std::vector<Box> target_boxes_;
  std::vector<Box> numbers_;  ///< of the selected cells in each target box
  int num_targets_;           ///< of the rank that has most
  std::optional<Selection> to_;
  PullPlan plan_;
};

}  // namespace graticule
