// SPDX-License-Identifier: BSD-3-Clause
#include "spherical_map.hpp"

#include "real_fourier.hpp"

#include <algorithm>
#include <numbers>
#include <vector>

namespace graticule::nn::detail {

Index num_degrees_of(Index wanted, LatitudeRule const& rule) {
  if (wanted < 0 || wanted > rule.num_rows())
    throw Error("BadOption", "truncation: " + std::to_string(wanted) + " degrees of " + to_string(rule));
  return wanted > 0 ? wanted : rule.num_degrees;
}

Truncation truncation_of(Truncation const& wanted, LatitudeRule const& rule, Index num_columns) {
  auto const degrees = num_degrees_of(wanted.num_degrees, rule);
  auto const orders = wanted.num_orders > 0 ? wanted.num_orders : std::min(degrees, (num_columns + 1) / 2);
  if (wanted.num_orders < 0 || orders > degrees || orders > num_columns / 2 + 1 || degrees < 1 || num_columns < 1)
    throw Error("BadOption", "truncation: " + std::to_string(orders) + " orders of " + std::to_string(degrees) +
                                 " degrees on " + std::to_string(num_columns) + " columns and " + to_string(rule));
  return {degrees, orders};
}

Cuts cuts_of_orders(Truncation const& truncation, int num_ranks) {
  std::vector<double> weights;
  for (Index m = 0; m < truncation.num_orders; ++m) weights.push_back(double(truncation.num_degrees - m));
  return weighted_cuts(weights, num_ranks);
}

SphericalMap::SphericalMap(Comm const& comm, Layout fields, LatitudeRule const& rule, Truncation const& wanted,
                           torch::TensorOptions const& options)
    : fields_(std::move(fields)),
      truncation_(truncation_of(wanted, rule, fields_.extent(1))),
      orders_(cuts_of_orders(truncation_, comm.num_ranks())) {
  if (fields_.extent(0) != rule.num_rows())
    throw Error("ShapeMismatch",
                "fields of " + std::to_string(fields_.extent(0)) + " rows on all ranks, but " + to_string(rule));
  bool const cut = fields_.grid()->extent(1) > 1;
  auto const lines = cut ? whole_columns(fields_) : fields_;
  to_columns_ = move_to_whole_columns(comm, fields_);
  if (comm.num_ranks() > 1)
    to_orders_ =
        std::make_shared<TensorMove const>(comm, Layout(*lines.grid(), {*lines.cuts(0), Cuts{truncation_.num_orders}}),
                                           cut_columns(rule.num_rows(), orders_), std::vector<std::int64_t>{-2, -1});
  auto const own = lines.owned(comm.rank());
  std::vector<double> weights;
  for (Index i = own.lo(0); i < own.lo(0) + own.extent(0); ++i)
    weights.push_back(2 * std::numbers::pi * rule.weights[std::size_t(i)]);
  weights_ =
      torch::tensor(at::ArrayRef<double>(weights.data(), weights.size()), torch::kDouble).view({-1, 1}).to(options);
  legendre_ =
      LegendreTable::find(rule, truncation_.num_degrees, orders_.lo(comm.rank()), orders_.size(comm.rank()), options);
}

torch::Tensor SphericalMap::analyse(torch::Tensor const& x, CallTies const& ties) const {
  auto const waves = real_fourier(ties.move(to_columns_, x), truncation_.num_orders, "forward");
  return legendre_->analyse(ties.move(to_orders_, waves * weights_));
}

torch::Tensor SphericalMap::synthesise(torch::Tensor const& c, CallTies const& ties) const {
  auto const waves = ties.move_back(to_orders_, legendre_->synthesise(c));
  return ties.move_back(to_columns_, inverse_real_fourier(waves, fields_.extent(1), "forward"));
}

}  // namespace graticule::nn::detail
