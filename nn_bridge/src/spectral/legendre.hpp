// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/spectral/latitude_rule.hpp>

#include "move/linear_operator.hpp"

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace graticule::nn::detail {

/// Rows of a grid by symmetry about the equator: `num_pairs` rows from `first_pair` on, each with its mirrored row, and
/// rows without a mirrored row.
///
/// Rows are folded: each pair and each other row has one place, in the order of the rows.
/// Example: 5 rows with both poles have pairs (0, 4) and (1, 3), and row 2 alone at place 2.
struct MirroredRows {
  /// Rows [row, row + size) without partners, at places [place, place + size).
  struct Single {
    Index row;
    Index place;
    Index size;
  };

  explicit MirroredRows(LatitudeRule const& rule);

  Index num_rows = 0;
  Index num_places = 0;
  Index first_pair = 0;  ///< the row, which is also its place
  Index num_pairs = 0;
  Index last_partner = 0;  ///< partners are the rows [last_partner, last_partner + num_pairs), in descending order
  std::vector<Single> singles;
};

/// Associated Legendre functions of neighboring orders, of all degrees below a bound, at all rows of a grid, as an
/// operator: `apply` is the sum over rows of P y, complex [orders, rows, batch] to [orders, degrees, batch],
/// zero where degree < order; `apply_adjoint` is the sum over degrees of P c. Local.
///
/// P(l, m, sin latitude) with the phase (-1)^m, normalised so that P exp(i m longitude) has square integral 1 over the
/// sphere. P(l, m, -x) = (-1)^(l - m) P(l, m, x): even and odd parts of pairs of rows are multiplied separately, which
/// halves the table and the products.
class LegendreTable : public LinearOperator {
 public:
  /// @param first_order, num_orders zonal wavenumbers m of this table
  LegendreTable(LatitudeRule const& rule, Index num_degrees, Index first_order, Index num_orders,
                torch::TensorOptions const& options);

  /// A table with these arguments; one that is in use is shared, because the layers of a network need the same one.
  [[nodiscard]] static std::shared_ptr<LegendreTable const> find(LatitudeRule const& rule, Index num_degrees,
                                                                 Index first_order, Index num_orders,
                                                                 torch::TensorOptions const& options);

  [[nodiscard]] torch::Tensor apply(torch::Tensor const& y) const override;
  [[nodiscard]] torch::Tensor apply_adjoint(torch::Tensor const& c) const override;

 private:
  /// Every other order of a few neighboring ones, padded with zeros to the degrees of the first one.
  struct Block {
    Index first;         ///< order of the table
    Index num_orders;    ///< first, first + 2, ...
    Index degree;        ///< the least one
    torch::Tensor even;  ///< [orders, degrees, places]: degrees `degree`, `degree` + 2, ...
    torch::Tensor odd;   ///< degrees `degree` + 1, `degree` + 3, ...
  };
  [[nodiscard]] Block make_block(LatitudeRule const& rule, Index first, Index num_orders, Index first_order) const;
  void analyse(Block const& block, torch::Tensor const& y, torch::Tensor const& c) const;
  void synthesise(Block const& block, torch::Tensor const& c, torch::Tensor const& y) const;

  MirroredRows rows_;
  Index num_degrees_;
  Index num_orders_;
  std::vector<Block> blocks_;
};

/// The functions of order `m` and degrees [m, num_degrees) at places of folded rows: `values[(l - m) * places + i]`.
///
/// Stable for any degree: numbers too small for a double carry an exponent of their own, as in Fukushima, "Numerical
/// computation of spherical harmonics of arbitrary degree and order by extending exponent of floating point numbers",
/// J. Geodesy 86 (2012).
[[nodiscard]] std::vector<double> legendre_functions(LatitudeRule const& rule, MirroredRows const& rows,
                                                     Index num_degrees, Index m);

}  // namespace graticule::nn::detail
