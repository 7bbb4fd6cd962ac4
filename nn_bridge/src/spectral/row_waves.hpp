// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cuts.hpp>

#include "move/linear_operator.hpp"

#include <torch/torch.h>

#include <vector>

namespace graticule::nn::detail {

/// Fourier transforms along whole parallels, with a weight per row and zonal wavenumbers (orders) first.
///
/// `apply`: y(m, i, b) = n(m) w(i) sum over j of x(b, i, j) exp(-2 pi i m j / columns), for m < num_orders.
/// `apply_adjoint`: x(b, i, j) = w(i) Re sum over m of n(m) y(m, i, b) exp(2 pi i m j / columns).
/// n is 1 or, with `Orders::twice`, the number of waves that an order of real fields stands for: 1 for m = 0 and
/// m = columns / 2, else 2. Fields are real [batch, rows, columns], waves complex [orders, rows, batch]: batch last,
/// because sums over rows multiply a table by it. Local.
class RowWaves : public LinearOperator {
 public:
  enum class Orders { once, twice };

  /// @param weights w of this rank's rows @param options a real dtype and the device
  RowWaves(std::vector<double> const& weights, Index num_columns, Index num_orders, Orders counted,
           torch::TensorOptions const& options);

  [[nodiscard]] torch::Tensor apply(torch::Tensor const& x) const override;
  [[nodiscard]] torch::Tensor apply_adjoint(torch::Tensor const& y) const override;

 private:
  /// Multiplies the orders that stand for one wave; of [batch, rows, orders].
  void scale_single(torch::Tensor const& waves, double factor) const;
  /// Calls `work(first row, number of rows)` for parts that fit in a cache.
  template <class Work>
  void for_rows(torch::Tensor const& tensor, Index batch, Work const& work) const;

  Index num_columns_;
  Index num_orders_;
  Orders counted_;
  torch::Tensor forward_;  ///< [rows, 1]: weights, times 2 where orders count twice
  torch::Tensor adjoint_;  ///< weights, times 1/2 where orders count once
};

}  // namespace graticule::nn::detail
