// SPDX-License-Identifier: BSD-3-Clause
#include "scale_filter.hpp"

#include <utility>

namespace graticule::models {

ScaleFilter::ScaleFilter(std::int64_t order, std::vector<std::int64_t> odd_channels, nn::Domain const& domain)
    : order_(order),
      halo_(nn::HaloExchangeOptions{.latitude = {1, 1}, .longitude = {1, 1}, .odd_channels = std::move(odd_channels)},
            domain) {}

torch::Tensor ScaleFilter::operator()(torch::Tensor const& fields) {
  torch::Tensor result = fields;
  for (std::int64_t const axis : {-2, -1}) {
    // Each time a wave is multiplied by sin(pi / n)^2, which is 1 for n = 2.
    torch::Tensor shortest = result;
    for (std::int64_t k = 0; k < order_ / 2; ++k) {
      torch::Tensor const padded = halo_(shortest);
      if (shortest.size(-2) == 0 || shortest.size(-1) == 0) continue;  // a rank without cells has no halo either
      torch::Tensor const other = padded.narrow(-3 - axis, 1, padded.size(-3 - axis) - 2);
      std::int64_t const n = shortest.size(axis);
      shortest = (2 * other.narrow(axis, 1, n) - other.narrow(axis, 0, n) - other.narrow(axis, 2, n)) / 4;
    }
    result = result - shortest;
  }
  return result;
}

}  // namespace graticule::models
