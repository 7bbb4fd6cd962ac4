// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/axis_sum.hpp>

#include <span>
#include <vector>

namespace graticule {

/// Sum of all cells times a weight of each cell, such as the areas of a tripolar or a rotated grid, with the same bits
/// for every split.
///
/// Weight times value is rounded to f64; the sum of these is exact and rounded once. A weight of 0 leaves a cell out,
/// whatever its value: land may hold NaN. Fields are f32 or f64 in host memory. Errors are agreed on: all ranks throw.
/// Cost: an integer all-reduce of 46 words per batch element; memory of one f64 per owned cell for the weights.
class CellSum {
 public:
  /// Collective. `weights` covers the owned box, with no batch axes. @throws `FieldMismatch`, `WrongType`, `NotFinite`
  /// for a weight that is not finite, `TooFewValues` for a mean with weights that sum to 0
  CellSum(Comm const& comm, Layout const& layout, FieldView const& weights, AxisSumScale scale = AxisSumScale::sum);

  /// One value per batch element (in row-major order), the same on all ranks. Collective. For means, divided by the sum
  /// of the weights. `cells` covers the owned box. @throws `FieldMismatch`, `WrongType`
  [[nodiscard]] std::vector<double> apply(FieldView const& cells) const;
  /// Adds weight times cotangent to each cell; `cotangents` are the same on all ranks. No messages.
  /// @throws `FieldMismatch`, also unless there is one cotangent per batch element, `WrongType`
  void apply_adjoint(FieldView const& cells, std::span<double const> cotangents) const;

 private:
  Comm comm_;
  Box owned_;
  std::vector<double> weights_;  ///< of the owned box, in row-major order
  double total_weight_ = 1;
};

}  // namespace graticule
