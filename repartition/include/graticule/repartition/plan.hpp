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
  /// @throws `LayoutMismatch` when the permuted extents differ, `BadPermutation`, `BadSelection`, `BudgetTooSmall`,
  ///         `PlanDisagreement`, on all ranks alike. Cost: messages to peers, a few small reductions
  RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to, RepartitionOptions const& options = {});
  /// The same for any box of the new grid on each rank: boxes may overlap (replicas, halos) and leave cells out.
  RepartitionPlan(Comm const& comm, Layout const& from, Box const& target, RepartitionOptions const& options = {});

  [[nodiscard]] Box const& source_box() const noexcept { return source_box_; }
  [[nodiscard]] Box const& target_box() const noexcept { return target_box_; }

  /// Writes the selected cells of `to`: `to = alpha * op(from) + beta * to`. The fields must not overlap in memory.
  /// `apply` returns when the peers have taken what they need of this rank; after `start`, `wait` does so without them.
  /// A rank that refuses a call tells those that need its cells; one that only sends to it gets on with its next call.
  /// @throws `FieldMismatch`, `Conversion`, `PeerRefused`: see `PullPlan::start`
  Pending start(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  /// Several fields in one message to each peer.
  Pending start(std::span<RepartitionField const> fields) const;
  void apply(std::span<RepartitionField const> fields) const;

  /// The transposed map: `from = conj(alpha) * sum of the images of its cells in to + beta * from`, in a fixed order of
  /// terms; `beta` is 1 unless it is given, and applied and rounded before the terms are added. `to` is only read.
  /// Example: from one whole copy on each rank, with `beta` 0, this is a reduce-scatter.
  Pending start_adjoint(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply_adjoint(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  Pending start_adjoint(std::span<RepartitionField const> fields) const;
  void apply_adjoint(std::span<RepartitionField const> fields) const;

  /// Moves back: `from = alpha * op(to) + beta * from` where a cell has an image; of several, that on the highest rank.
  Pending start_inverse(FieldView const& from, FieldView const& to, Update const& update = {}) const;
  void apply_inverse(FieldView const& from, FieldView const& to, Update const& update = {}) const;
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
  [[nodiscard]] PullField pulled(RepartitionField const& field, FieldView& target) const;
  [[nodiscard]] FieldView selected(FieldView const& to) const;

  Box source_box_;
  Box target_box_;
  Box numbers_;  ///< of the selected cells in the target box
  std::optional<Selection> to_;
  PullPlan plan_;
};

}  // namespace graticule
