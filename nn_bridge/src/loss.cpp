// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss.hpp>
#include <graticule/nn_bridge/losses.hpp>

#include "collective_maps.hpp"
#include "recorded_calls.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graticule::nn {

torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm) {
  return detail::apply_map(detail::loss_sum_map(comm), partial);
}

torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain) {
  auto sum = partial;
  for (auto const& token : domain.recorded_calls().unreached(domain.comm(), {partial}))
    sum = sum + token.to(partial.options()) * 0;
  auto loss = reduce_loss(sum, domain.comm());
  // A loss on gradients of this one runs its adjoint again.
  auto& calls = domain.recorded_calls();
  calls.record(loss, {calls.next_call(), 0}, 0, "loss");
  return loss;
}

AreaWeightedLossImpl::AreaWeightedLossImpl(LossKind kind, std::vector<double> row_weights, Domain domain) {
  LossOptions options{.row_weights = std::move(row_weights)};
  if (kind == LossKind::squared)
    loss_ = [loss = MSELoss(domain, std::move(options))](auto const& p, auto const& t) mutable { return loss(p, t); };
  else
    loss_ = [loss = L1Loss(domain, std::move(options))](auto const& p, auto const& t) mutable { return loss(p, t); };
}

torch::Tensor AreaWeightedLossImpl::forward(torch::Tensor const& prediction, torch::Tensor const& target) {
  return loss_(prediction, target);
}

std::vector<double> latitude_weights(std::span<double const> latitudes) {
  auto const n = latitudes.size();
  auto const fail = [&](std::string const& what) { throw Error("BadLatitudes", what); };
  if (n == 0) return {};
  for (std::size_t i = 0; i < n; ++i)
    if (!(std::abs(latitudes[i]) <= 90 + 1e-6))
      fail("row " + std::to_string(i) + " at " + std::to_string(latitudes[i]) + " degrees");
  for (std::size_t i = 2; i < n; ++i)
    if ((latitudes[i] - latitudes[i - 1]) * (latitudes[1] - latitudes[0]) <= 0)
      fail("row " + std::to_string(i) + " does not follow the order of the rows before it");
  if (n > 1 && latitudes[1] == latitudes[0]) fail("rows 0 and 1 are equal");
  std::vector<double> bounds(n + 1);
  for (std::size_t i = 1; i < n; ++i) bounds[i] = 0.5 * (latitudes[i - 1] + latitudes[i]);
  bounds[0] = n > 1 ? latitudes[0] - (bounds[1] - latitudes[0]) : 90.0;
  bounds[n] = n > 1 ? latitudes[n - 1] + (latitudes[n - 1] - bounds[n - 1]) : -90.0;
  std::vector<double> weights(n);
  auto const sine = [](double degrees) { return std::sin(std::clamp(degrees, -90.0, 90.0) * std::numbers::pi / 180); };
  for (std::size_t i = 0; i < n; ++i) weights[i] = 0.5 * std::abs(sine(bounds[i + 1]) - sine(bounds[i]));
  return weights;
}

}  // namespace graticule::nn
