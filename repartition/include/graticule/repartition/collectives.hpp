// SPDX-License-Identifier: BSD-3-Clause
// Repartitions with their own names: broadcast, sum-reduce, all-sum-reduce, all-gather, reduce-scatter, gather, scatter
// and all-to-all. Collective and blocking; all checks and errors are those of `RepartitionPlan`.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/plan.hpp>

#include <memory>

namespace graticule {

/// Moves a field between its parts, one per rank, and whole copies, either on all ranks or on one rank, the root.
///
/// Parts cover the owned boxes of a layout, which may be uneven or empty; wholes cover its global box. Where a rank has
/// no whole (`gather` and `scatter` except on the root), that argument is ignored: pass `{}`.
/// Example: 5 cells on 2 ranks, parts [0, 3) and [3, 5): all-gather gives both ranks [0, 5), reduce-scatter of two such
/// copies gives rank 0 the sums of cells 0 to 2 and rank 1 those of cells 3 and 4.
/// n: bytes of the whole, p: of this rank's part, P ranks.
class ShardsPlan {
 public:
  /// Collective. @throws `OutOfRange` for a root outside `comm`, and what `RepartitionPlan` throws
  ShardsPlan(Comm const& comm, Layout const& layout, int root = 0);

  [[nodiscard]] Box const& part_box() const noexcept { return all_gather_.source_box(); }
  [[nodiscard]] Box const& whole_box() const noexcept { return all_gather_.target_box(); }
  [[nodiscard]] int root() const noexcept { return root_; }

  /// Every rank gets all parts. Adjoint: `reduce_scatter`. Cost: P - 1 messages out and in; p (P - 1) bytes out, n - p
  /// in
  void all_gather(FieldView const& part, FieldView const& whole) const;
  /// Every rank gets its part of the sum of all wholes, added in order of ranks: the same bits for every layout.
  /// Adjoint: `all_gather`. Cost: that of `all_gather` in reverse
  void reduce_scatter(FieldView const& whole, FieldView const& part) const;
  /// The root gets all parts. Adjoint: `scatter`. Cost: one message of p bytes from every rank except the root
  void gather(FieldView const& part, FieldView const& whole) const;
  /// Every rank gets its part from the root. Adjoint: `gather`. Cost: that of `gather` in reverse
  void scatter(FieldView const& whole, FieldView const& part) const;

  /// The underlying plans, for several fields in a call, for calls in flight, and for paths and counts: `apply(part,
  /// whole)` gathers, `apply_adjoint` with `{.beta = 0}` sums, `apply_inverse` scatters.
  [[nodiscard]] RepartitionPlan const& all_gather_plan() const noexcept { return all_gather_; }
  [[nodiscard]] RepartitionPlan const& gather_plan() const noexcept { return gather_; }

 private:
  bool is_root_;
  int root_;
  RepartitionPlan all_gather_;
  RepartitionPlan gather_;
};

/// Copies of one field on all ranks: broadcast or summed, in place.
///
/// Large fields are cut into one shard per rank, so that every rank sends and adds its share (a scatter and an
/// all-gather, or a reduce-scatter and an all-gather). Sums are added in order of ranks, shard by shard: the same bits
/// on all ranks, for any order of arrival and every number of cells.
/// n: bytes of the field, P ranks. Fields of few cells are one shard, on the root.
class ReplicatedFieldPlan {
 public:
  /// Copies of a grid of `extents`. Collective. @throws `OutOfRange` for a root outside `comm`
  ReplicatedFieldPlan(Comm const& comm, Indices const& extents, int root = 0);

  /// Every rank's field becomes that of the root. Adjoint: `sum_reduce`.
  /// Cost: up to 2 (P - 1) messages and 2 n (P - 1) / P bytes out of the root and in on each other rank; n with 2 ranks
  void broadcast(FieldView const& field) const;
  /// The root's field becomes the sum of all; the others are only read. Adjoint: `broadcast`.
  /// Cost: that of `broadcast` in reverse; a buffer of n / P bytes
  void sum_reduce(FieldView const& field) const;
  /// Every rank's field becomes the sum of all. It is its own adjoint.
  /// Cost: 2 (P - 1) messages and 2 n (P - 1) / P bytes out and in on each rank; a buffer of n / P bytes
  void all_sum_reduce(FieldView const& field) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// All-to-all, or transpose: from a grid cut along one axis into parts for all ranks to the same grid cut along
/// another. Balanced cuts; the plan's inverse and its adjoint move back.
/// Example: 6 x 4 cells on 2 ranks, from axis 0 to axis 1: rank 1 passes [3, 6) x [0, 4) and gets [0, 6) x [2, 4).
/// @throws `BadAxis` for an axis that the grid does not have
/// Cost: P - 1 messages out and in, of n / P bytes in total on each rank
[[nodiscard]] RepartitionPlan all_to_all(Comm const& comm, Indices const& extents, int from_axis, int to_axis);

}  // namespace graticule
