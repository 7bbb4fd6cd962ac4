// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/spectral/latitude_rule.hpp>

#include <torch/torch.h>

#include <optional>

namespace graticule::nn {

namespace detail {
class SphericalTransformState;
}

/// Options of `SphericalTransform`.
struct SphericalTransformOptions {
  LatitudeRule rows;  ///< of the whole field
  /// Degrees l < num_degrees; 0: `rows.num_degrees`. More, up to one per row, are allowed, but are not recovered
  /// exactly.
  Index num_degrees = 0;
  /// Zonal wavenumbers m < num_orders; 0: the smaller of num_degrees and (columns + 1) / 2.
  Index num_orders = 0;
  /// Cuts of the fields, for an inverse before any forward. Default: those of the latest forward.
  std::optional<FieldCuts> field = {};
};

/// Real spherical harmonic transform of sharded fields: coefficients of orthonormal spherical harmonics, and back.
///
/// f(latitude, longitude) = sum over l and |m| <= l of c(l, m) Y(l, m), with Y(l, m) = P(l, m, sin latitude) exp(i m
/// longitude), the integral of |Y|^2 over the unit sphere 1, and the phase (-1)^m of Condon and Shortley in P. Fields
/// are real, so only m >= 0 is kept: c(l, -m) = (-1)^m conj c(l, m). Column j of W lies at longitude 2 pi j / W. The
/// integral of f^2 is sum over l of |c(l, 0)|^2 + 2 sum over m > 0 of |c(l, m)|^2.
/// Example: a field of ones has c(0, 0) = sqrt(4 pi) and no other coefficient.
///
/// Rows and columns may be cut anywhere. Coefficients are complex [..., degrees, orders], zero where l < m, and sharded
/// along the last axis: rank r holds part r of `orders()`, which may be empty. Degrees are whole. In memory orders are
/// outermost and batches innermost, as the sums over rows leave them: `contiguous()` copies. Between the Fourier
/// transforms, which need whole parallels, and the sums over rows, which need whole meridians, the field is
/// redistributed from rows to orders. Differentiable to any order; gradients of complex tensors as in LibTorch. Results
/// equal those of the serial transform to rounding: in f64, fields of these degrees are recovered to a relative error
/// of 1e-12.
/// Cost: one small all-reduce; the field's orders are moved once, and the field where longitude is cut; per field, H
/// rows and D coefficients H D multiply-adds, distributed evenly, because pairs of rows on both sides of the equator
/// share the polynomials; tables of H D / 2 numbers over all ranks, shared by all layers with the same grid. Rows
/// without a partner (a pole row of `one_pole`) cost as much as a pair.
class SphericalTransformImpl : public detail::StatefulModule<SphericalTransformImpl, detail::SphericalTransformState> {
 public:
  /// The same options on all ranks. @throws `BadOption` for more degrees than rows
  SphericalTransformImpl(SphericalTransformOptions options, Domain domain);

  /// Collective. @param x [..., rows, columns] of f32 or f64, this rank's shard
  /// @throws `UnsupportedTensor`, `ShapeMismatch` for other rows than the options', `BadOption` for more orders
  ///         than degrees or than columns / 2 + 1, `BadCuts` for other cuts than the options', and what all layers
  ///         throw (docs/layers.md), on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Collective. @param c [..., degrees, this rank's orders], complex; values where l < m and imaginary parts of m = 0
  /// and m = columns / 2 are ignored
  /// @throws `WrongState` before any forward without `field`, `UnsupportedTensor`, `ShapeMismatch`, on all ranks alike
  torch::Tensor inverse(torch::Tensor const& c);

  /// The orders that this rank holds. @throws `WrongState` before any forward without `field`
  [[nodiscard]] AxisPart orders() const;

 private:
  SphericalTransformOptions options_;
};
TORCH_MODULE(SphericalTransform);

}  // namespace graticule::nn
