// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/spectral/latitude_rule.hpp>
#include <graticule/partition/comm.hpp>

#include "legendre.hpp"
#include "move/whole_columns.hpp"
#include "row_waves.hpp"

#include <torch/torch.h>

#include <memory>

namespace graticule::nn::detail {

/// Degrees l and orders m of coefficients: l < num_degrees, m < num_orders.
struct Truncation {
  Index num_degrees = 0;
  Index num_orders = 0;
};

/// Zeros in `wanted` select all that the transform and its inverse recover exactly.
/// @throws `BadOption` for more degrees than rows, more orders than degrees or more than num_columns / 2 + 1
[[nodiscard]] Truncation truncation_of(Truncation const& wanted, LatitudeRule const& rule, Index num_columns);
/// The same before the columns are known.
[[nodiscard]] Index num_degrees_of(Index wanted, LatitudeRule const& rule);

/// Orders over ranks, so that each has about as many coefficients; empty parts last where ranks are more than orders.
[[nodiscard]] Cuts cuts_of_orders(Truncation const& truncation, int num_ranks);

/// Spherical harmonic transforms of fields of one layout, and back. Immutable, so that a graph may outlive its layer.
class SphericalMap {
 public:
  /// Collective. @param fields rows and columns over a grid of all ranks @param options a real dtype and the device
  /// @throws `ShapeMismatch` when the layout has other rows than the rule, `BadOption`, on all ranks alike
  SphericalMap(Comm const& comm, Layout fields, LatitudeRule const& rule, Truncation const& wanted,
               torch::TensorOptions const& options);

  [[nodiscard]] Layout const& fields() const noexcept { return fields_; }

  /// This rank's field [..., rows, columns] to complex [..., degrees, its orders], which lie in memory with orders
  /// first and batch last; collective.
  [[nodiscard]] torch::Tensor analyse(torch::Tensor const& x, CallTies const& ties) const;
  /// And coefficients to a field, without a copy where they lie like that; collective.
  [[nodiscard]] torch::Tensor synthesise(torch::Tensor const& c, CallTies const& ties) const;

 private:
  Layout fields_;
  std::shared_ptr<TensorMove const> to_columns_;  ///< null where longitude is not cut
  std::shared_ptr<TensorMove const> to_orders_;   ///< null on one rank
  std::shared_ptr<RowWaves const> to_waves_;      ///< with the weights of the rows that this rank transforms
  std::shared_ptr<RowWaves const> from_waves_;    ///< of which the adjoint is taken
  std::shared_ptr<LegendreTable const> legendre_;
};

}  // namespace graticule::nn::detail
