// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::models {

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
