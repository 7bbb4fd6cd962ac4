// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/field_view.hpp>
#include <graticule/repartition/pending.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace graticule {

/// How the cells of a ring are added. A ring consists of the cells along the sum axis at one position on all other
/// axes: a circle of latitude in sums along longitudes.
enum class AxisSumMethod : std::uint8_t {
  exact,  ///< without rounding, rounded once at the end: the same bits for every split and order of the cells
  fast,   ///< in double precision, rank by rank: not reproducible, the last bits depend on the split
};

/// Divisor of a ring's sum: 1, or the number of its cells.
enum class AxisSumScale : std::uint8_t { sum, mean };

/// Ownership of the cotangents passed to an adjoint.
enum class Cotangents : std::uint8_t {
  of_each_rank,  ///< each rank uses its own copy of a sum: the cotangents of all ranks of a ring are added
  replicated,    ///< the sum is used as one value, and all ranks of a ring hold its whole cotangent: no messages
};

/// Options of `AxisSumPlan`.
struct AxisSumOptions {
  AxisSumMethod how = AxisSumMethod::exact;
  AxisSumScale scale = AxisSumScale::sum;
  std::optional<Box> region = std::nullopt;  ///< cells that are added; unset: all
};

/// One field of a call: `cells` covers `AxisSumPlan::cells()`, `sums` covers `AxisSumPlan::sums()`; same batch axes and
/// type, but that cells of f32 in host memory may have sums of f64.
struct AxisSumField {
  FieldView cells;
  FieldView sums;
};

/// Adds all cells along one axis, "all columns of row j", for every row, and gives each rank the sums of its rows.
///
/// Zonal sums and means, values at the poles, input of polar filters. Fields are f32 or f64, in host or device memory
/// (in order of the `DeviceQueueScope`), with any batch axes. The ranks that own cells of a ring add it, in two rounds
/// of messages for all rings and fields together. NaN and infinities propagate as in arithmetic; exact sums overflow
/// only if the result does. A mean is the rounded sum divided by the number of cells. A sum of -0 alone is -0 (exact)
/// or 0 (fast). Example: 4 x 6 cells on a 2 x 3 grid of ranks, `sum_axis` 1: rank 0 owns [0, 2) x [0, 2) and receives
/// the sums of rows 0 and 1, each over 6 cells, in a field that covers `sums()`, [0, 2) x [0, 1). Cost of exact sums:
/// about 2 ns per cell, twice a plain sum; 368 bytes per ring, batch element and rank for f64, 72 for f32.
class AxisSumPlan {
 public:
  class Running;

  /// Collective. @throws `BadAxis`, `OutOfRange` (not in the global box), `ArgumentDisagreement`
  AxisSumPlan(Comm const& comm, Layout const& layout, int sum_axis, AxisSumOptions const& options = {});

  /// Box that fields of cells cover: this rank's owned box.
  [[nodiscard]] Box const& cells() const noexcept;
  /// Box that fields of sums cover: this rank's owned cells of the region, with [0, 1) along the sum axis.
  [[nodiscard]] Box const& sums() const noexcept;

  /// Writes `sums`; collective. @throws `FieldMismatch`, `AliasedFields` when sums have elements in common with other
  ///         sums or cells of the call, `WrongType` for other types, `WrongState` between `start()` and its `wait()`,
  ///         `PeerRefused` where a rank of a ring has thrown one of these
  void apply(std::span<AxisSumField const> fields) const;
  void apply(FieldView const& cells, FieldView const& sums) const;
  /// Adds this rank's cells and sends the partial sums. Afterwards cells may be written; `sums` are valid after
  /// `wait()`.
  [[nodiscard]] Running start(std::span<AxisSumField const> fields) const;
  [[nodiscard]] Running start(FieldView const& cells, FieldView const& sums) const;
  /// Adds to each cell the cotangent of its ring's sum (divided by the number of cells for means); reads `sums`.
  /// @throws as `apply`; `AliasedFields` when cells have elements in common with other cells or sums of the call
  void apply_adjoint(std::span<AxisSumField const> fields, Cotangents cotangents) const;
  void apply_adjoint(FieldView const& cells, FieldView const& sums, Cotangents cotangents) const;

 private:
  friend class AreaSum;
  struct State;
  std::shared_ptr<State> state_;
};

/// Ring sums in flight, from `AxisSumPlan::start()`. Move-only; `wait()` completes them, and so does the destructor.
class AxisSumPlan::Running {
 public:
  Running(Running&& other) noexcept = default;
  Running& operator=(Running&&) = delete;
  ~Running();

  /// Blocks until the sums are complete: receives the partial sums of the other ranks, rounds, and sends the results. A
  /// second call does nothing.
  void wait();

 private:
  friend class AxisSumPlan;
  Running(std::shared_ptr<State> state, std::vector<FieldView> sums, Pending pending);

  std::shared_ptr<State> state_;
  std::vector<FieldView> sums_;
  Pending pending_;
};

/// Sum of all cells times a weight of their row (for example their area), with the same bits for every split.
///
/// Two levels: exact ring sums, rounded; times the weight of their row, rounded; their sum, exact and rounded once.
/// Errors are agreed on: all ranks throw. Cost: the first round of an `AxisSumPlan`, and two integer all-reduces.
class AreaSum {
 public:
  /// Collective. `weights` holds one weight per index of `row_axis`. @throws as `AxisSumPlan`, `ShapeMismatch` if their
  /// number differs from the extent of the axis
  AreaSum(Comm const& comm, Layout const& layout, int sum_axis, int row_axis, std::span<double const> weights,
          AxisSumScale scale = AxisSumScale::sum);

  /// One value per batch element (in row-major order), the same on all ranks. Collective. For means, divided by the sum
  /// of the weights of all cells. @throws `FieldMismatch`, `WrongType`
  [[nodiscard]] std::vector<double> apply(FieldView const& cells) const;
  /// Adds weight times cotangent to each cell; `cotangents` are the same on all ranks. No messages.
  /// @throws `FieldMismatch`, also unless there is one cotangent per batch element, `WrongType`
  void apply_adjoint(FieldView const& cells, std::span<double const> cotangents) const;

 private:
  AxisSumPlan rings_;
  int row_axis_;
  std::vector<double> weights_;
  double total_weight_ = 1;
};

}  // namespace graticule
