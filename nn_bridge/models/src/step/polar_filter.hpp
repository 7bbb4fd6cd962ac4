// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/grid.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>

#include <torch/torch.h>

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

}  // namespace graticule::models
