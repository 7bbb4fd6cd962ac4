// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/pull.hpp>

namespace graticule {

/// Moves fields from one layout to any other layout of the same cells on the same communicator.
///
/// Axis `a` of the new layout is axis `permutation[a]` of the old one. Source fields cover the old owned box, target
/// fields the new one; ranks may own nothing on either side.
/// Example: rows to columns of a 241 x 480 grid on 4 ranks: `RepartitionPlan(comm, rows, columns)`, where
/// `rows = Layout({4, 1}, {241, 480})` and `columns = Layout({1, 4}, {241, 480})`.
class RepartitionPlan {
 public:
  /// Collective. @param permutation empty: axes stay as they are
  /// @throws `LayoutMismatch` when the permuted extents differ, `BadPermutation`, `PlanDisagreement`
  RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to, Indices const& permutation = {});

  [[nodiscard]] Box const& source_box() const noexcept { return source_box_; }
  [[nodiscard]] Box const& target_box() const noexcept { return target_box_; }

  /// @pre `from` covers `source_box()`, `to` covers `target_box()`; they do not overlap in memory
  Pending start(FieldView const& from, FieldView const& to) const;
  void apply(FieldView const& from, FieldView const& to) const { start(from, to).wait(); }
  /// Adds `to` to `from`: the transposed map. `to` is only read.
  Pending start_adjoint(FieldView const& from, FieldView const& to) const;
  void apply_adjoint(FieldView const& from, FieldView const& to) const { start_adjoint(from, to).wait(); }

  [[nodiscard]] PullCounts counts() const noexcept { return plan_.counts(); }
  [[nodiscard]] std::vector<PeerPath> paths() const { return plan_.paths(); }
  void set_transport(Transport transport) { plan_.set_transport(transport); }
  /// For `dump_plan`.
  [[nodiscard]] PullPlan const& pull_plan() const noexcept { return plan_; }

 private:
  Box source_box_;
  Box target_box_;
  PullPlan plan_;
};

}  // namespace graticule
