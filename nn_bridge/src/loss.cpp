// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss.hpp>

#include "collective_maps.hpp"
#include "recorded_calls.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>

namespace graticule::nn {

torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm) {
  return detail::apply_map(detail::loss_sum_map(comm), partial);
}

torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain) {
  return reduce_loss(domain.recorded_calls().tie(domain.comm(), partial), domain.comm());
}

AreaWeightedLossImpl::AreaWeightedLossImpl(LossKind kind, std::vector<double> row_weights, Domain domain)
    : kind_(kind), row_weights_(std::move(row_weights)), domain_(std::move(domain)) {}

torch::Tensor AreaWeightedLossImpl::forward(torch::Tensor const& prediction, torch::Tensor const& target) {
  run_agreed(domain_.comm(), [&] {
    std::ostringstream text;
    if (prediction.sizes() != target.sizes() || prediction.dim() < 2) {
      text << "prediction " << prediction.sizes() << ", target " << target.sizes();
      throw Error("ShapeMismatch", text.str());
    }
    if (std::int64_t(row_weights_.size()) != prediction.size(-2)) {
      text << row_weights_.size() << " row weights for " << prediction.size(-2) << " rows";
      throw Error("WeightLength", text.str());
    }
  });
  // Sums run in f64: the number of cells must not limit what a single-precision run can see.
  auto const weights = torch::tensor(at::ArrayRef<double>(row_weights_.data(), row_weights_.size()), torch::kDouble)
                           .to(target.device())
                           .unsqueeze(-1);
  auto const valid = torch::isfinite(target);
  auto const zero = torch::zeros({}, prediction.options().requires_grad(false));
  auto const difference = torch::where(valid, prediction - torch::where(valid, target, zero), zero);
  auto const error = kind_ == LossKind::squared ? difference.square() : difference.abs();
  auto const partial = (error.to(torch::kDouble) * weights).sum();
  auto const weight_sum = (valid.to(torch::kDouble) * weights).sum();
  auto const totals = reduce_loss(torch::stack({partial, weight_sum}), domain_);
  auto const total_weight = totals[1].detach();
  if (!(total_weight.item<double>() > 0)) throw Error("EmptyLoss", "no cell with a weight and a target on any rank");
  return totals[0] / total_weight;
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
