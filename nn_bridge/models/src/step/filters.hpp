// SPDX-License-Identifier: BSD-3-Clause
// Filters of waves that a network's layers would let grow.
#pragma once

#include <graticule/models/grid.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::models {

/// Factors of the zonal waves of each row, [row, wave]: 1 for those that a row equatorward of `latitude` resolves, 0
/// for shorter ones, with half a cosine between. A row at latitude phi has n cos(phi) / (2 cos(latitude)) such waves of
/// its n cells, and waves 0, 1 and 2 always: what crosses a pole consists of these. Empty where no row is filtered.
[[nodiscard]] torch::Tensor polar_factors(Grid const& grid, double latitude);

/// Removes waves along polar rows that are shorter than those that other rows resolve: near a pole the columns lie many
/// times closer than the rows, and what a network adds to such waves in each step grows without bound.
///
/// Rows equatorward of the latitude keep their bits. Differentiable, across ranks too. Nothing on a grid without such
/// rows, or whose longitude is not periodic.
class PolarFilter {
 public:
  /// Collective. @param latitude in degrees, 0: no filter
  PolarFilter(Grid const& grid, Box const& owned, double latitude, torch::Dtype dtype, nn::Domain const& domain);

  /// Collective. @param fields [..., rows, columns] of this rank
  [[nodiscard]] torch::Tensor operator()(torch::Tensor const& fields);

  /// Moves its tables.
  void to(torch::Device const& device);

 private:
  torch::Tensor factors_;   ///< of all rows; undefined: no filter
  torch::Tensor is_polar_;  ///< [row, 1] of this rank
  nn::FourierTransform waves_{nullptr};
};

/// Removes waves of two cells and leaves long ones, along columns and then along rows (Shapiro 1970, Rev. Geophys. 8,
/// 359): a wave of n cells is multiplied by 1 - sin(pi / n)^order.
///
/// Networks see little of such waves: centred differences of two cells are 0, and transforms on the sphere end before
/// them. What its pointwise layers add to them in each step grows without bound.
/// Example, order 8: waves of 2, 3, 4 and 8 cells keep 0, 0.68, 0.94 and 0.9995 of their amplitudes.
class ScaleFilter {
 public:
  /// Collective. @param order even, 2 or more @param odd_channels components of horizontal vectors
  ScaleFilter(std::int64_t order, std::vector<std::int64_t> odd_channels, nn::Domain const& domain);

  /// Collective, by way of `order` halos of width 1. @param fields [..., channel, row, column] of this rank
  [[nodiscard]] torch::Tensor operator()(torch::Tensor const& fields);

 private:
  std::int64_t order_;
  nn::HaloExchange halo_;
};

}  // namespace graticule::models
