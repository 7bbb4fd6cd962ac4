// SPDX-License-Identifier: BSD-3-Clause
#include "filters.hpp"

#include <graticule/models/detail/grid_functions.hpp>

#include <cmath>
#include <utility>

namespace graticule::models {

torch::Tensor polar_factors(Grid const& grid, double latitude) {
  constexpr double most_at_pole = 2;
  Index const num_waves = grid.num_columns() / 2 + 1;
  torch::Tensor factors = torch::ones({grid.num_rows(), num_waves}, torch::kFloat64);
  bool filters = false;
  if (latitude > 0 && grid.is_periodic())
    for (Index j = 0; j < grid.num_rows(); ++j) {
      double const row = std::abs(grid.latitudes[std::size_t(j)]);
      if (row <= latitude) continue;
      double const narrowing = std::cos(row * radians) / std::cos(latitude * radians);
      double const whole = std::max(most_at_pole, 0.5 * double(grid.num_columns()) * narrowing);
      double* const out = factors.data_ptr<double>() + j * num_waves;
      for (Index k = 0; k < num_waves; ++k) {
        // From the last whole wave to the one half as long again.
        double const beyond = std::clamp(2 * (double(k) - whole) / whole, 0.0, 1.0);
        out[k] = 0.5 * (1 + std::cos(std::numbers::pi * beyond));
        filters = filters || out[k] != 1;
      }
    }
  return filters ? factors : torch::Tensor();
}

PolarFilter::PolarFilter(Grid const& grid, Box const& owned, double latitude, torch::Dtype dtype,
                         nn::Domain const& domain) {
  torch::Tensor const factors = polar_factors(grid, latitude);
  if (!factors.defined()) return;
  factors_ = factors.to(dtype);
  is_polar_ = factors.ne(1).any(1).unsqueeze(1).slice(0, owned.lo(0), owned.hi(0));
  waves_ = nn::FourierTransform(nn::FourierTransformOptions{}, domain);
}

void PolarFilter::to(torch::Device const& device) {
  if (!factors_.defined()) return;
  factors_ = factors_.to(device);
  is_polar_ = is_polar_.to(device);
  waves_->to(device);
}

torch::Tensor PolarFilter::operator()(torch::Tensor const& fields) {
  if (!factors_.defined()) return fields;
  torch::Tensor const waves = waves_(fields);
  auto const rows = waves_->part();
  return torch::where(is_polar_, waves_->inverse(waves * factors_.slice(0, rows.lo(), rows.lo() + rows.size())),
                      fields);
}

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
