// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/spectral/latitude_rule.hpp>

#include <torch/torch.h>

#include <memory>
#include <span>
#include <vector>

namespace graticule::nn::detail {

/// Associated Legendre functions of neighboring orders, of all degrees below a bound, at all rows of a grid.
///
/// P(l, m, sin latitude) with the phase (-1)^m, normalised so that P exp(i m longitude) has square integral 1 over the
/// sphere. Rows are whole: products over them are local.
class LegendreTable {
 public:
  /// @param first_order, num_orders zonal wavenumbers m of this table
  LegendreTable(LatitudeRule const& rule, Index num_degrees, Index first_order, Index num_orders,
                torch::TensorOptions const& options);

  /// A table with these arguments; one that is in use is shared, because the layers of a network need the same one.
  [[nodiscard]] static std::shared_ptr<LegendreTable const> find(LatitudeRule const& rule, Index num_degrees,
                                                                 Index first_order, Index num_orders,
                                                                 torch::TensorOptions const& options);

  /// sum over rows of P x: complex [..., rows, orders] to [..., degrees, orders], zero where degree < order.
  [[nodiscard]] torch::Tensor analyse(torch::Tensor const& x) const;
  /// sum over degrees of P c, the transposed map: complex [..., degrees, orders] to [..., rows, orders].
  [[nodiscard]] torch::Tensor synthesise(torch::Tensor const& c) const;

 private:
  /// Some orders, padded with zeros to the degrees of the first one.
  struct Block {
    Index num_orders;
    Index num_degrees;
    torch::Tensor values;  ///< [orders, degrees, rows]
  };
  Index num_degrees_;
  std::vector<Block> blocks_;
};

/// The functions of order `m` and degrees [m, num_degrees) at all rows: `values[(l - m) * rows + i]`.
///
/// Stable for any degree: numbers too small for a double carry an exponent of their own, as in Fukushima, "Numerical
/// computation of spherical harmonics of arbitrary degree and order by extending exponent of floating point numbers",
/// J. Geodesy 86 (2012).
[[nodiscard]] std::vector<double> legendre_functions(LatitudeRule const& rule, Index num_degrees, Index m);

}  // namespace graticule::nn::detail
