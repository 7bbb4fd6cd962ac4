// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/repartition/plan.hpp>

#include "grid.hpp"

#include <array>
#include <memory>
#include <vector>

namespace graticule::swe {

/// Damps zonal waves that are too short for the time step near the poles: wave k of a row at latitude phi is multiplied
/// by min(1, cos(phi) / cos(60 degrees) / sin(k dlambda / 2)), as in models of Arakawa and Lamb 1977.
///
/// Rows are filtered whole. Where longitude is cut, all ranks take an equal share of the polar rows, and their results
/// move back. The same bits for every layout.
class PolarFilter {
 public:
  /// Collective.
  PolarFilter(Grid const& grid, Comm const& comm, Layout const& layout);

  /// Filters the polar rows of tendencies that cover this rank's owned box. Collective.
  void apply(State& tendencies);

  /// Of the moves of polar rows so far.
  [[nodiscard]] PullStats stats() const { return plan_ ? plan_->stats() : PullStats(); }
  /// Rows of cells on each side, from the pole on, that are filtered.
  [[nodiscard]] static Index num_polar_rows(Grid const& grid);
  /// Weights for cuts of the rows: a filtered row costs more than another one.
  [[nodiscard]] static std::vector<double> row_weights(Grid const& grid);

 private:
  /// Filters rows of h, u and v on a box of whole rows.
  void filter(Box const& rows, std::array<Cells*, 3> const& fields) const;
  /// The even kernel of a row, of `num_columns / 2 + 1` values; none where nothing is damped.
  [[nodiscard]] std::vector<double> kernel(double cosine) const;

  Grid const& grid_;
  Box owned_;
  std::vector<std::vector<double>> centres_;   ///< kernels by row
  std::vector<std::vector<double>> faces_;     ///< by southern face
  std::unique_ptr<RepartitionPlan> plan_;      ///< none where rows are whole
  std::array<std::array<Cells, 3>, 2> moved_;  ///< of the southern and the northern rows
};

}  // namespace graticule::swe
