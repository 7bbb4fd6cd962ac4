// SPDX-License-Identifier: BSD-3-Clause
#include "spherical_map.hpp"

#include <algorithm>
#include <numbers>
#include <vector>

namespace graticule::nn::detail {

Index num_degrees_of(Index wanted, LatitudeRule const& rule) {
  if (wanted < 0 || wanted > rule.num_rows())
    throw Error("BadOption", "truncation: degrees must be in [0, " + std::to_string(rule.num_rows()) +
                                 "], the number of rows of " + to_string(rule) + ", got " + std::to_string(wanted));
  return wanted > 0 ? wanted : rule.num_degrees;
}

Truncation truncation_of(Truncation const& wanted, LatitudeRule const& rule, Index num_columns) {
  auto const degrees = num_degrees_of(wanted.num_degrees, rule);
  auto const orders = wanted.num_orders > 0 ? wanted.num_orders : std::min(degrees, (num_columns + 1) / 2);
  if (wanted.num_orders < 0 || orders > degrees || orders > num_columns / 2 + 1 || degrees < 1 || num_columns < 1)
    throw Error("BadOption", "truncation: orders must be at most the " + std::to_string(degrees) + " degrees of " +
                                 to_string(rule) + " and the " + std::to_string(num_columns / 2 + 1) + " waves of " +
                                 std::to_string(num_columns) + " columns, got " + std::to_string(orders));
  return {degrees, orders};
}

Cuts cuts_of_orders(Truncation const& truncation, int num_ranks) {
  std::vector<double> weights;
  for (Index m = 0; m < truncation.num_orders; ++m) weights.push_back(double(truncation.num_degrees - m));
  return weighted_cuts(weights, num_ranks);
}

SphericalMap::SphericalMap(Comm const& comm, Layout fields, LatitudeRule const& rule, Truncation const& wanted,
                           torch::TensorOptions const& options)
    : fields_(std::move(fields)) {
  auto const [num_degrees, num_orders] = truncation_of(wanted, rule, fields_.extent(1));
  auto const orders = cuts_of_orders({num_degrees, num_orders}, comm.num_ranks());
  if (fields_.extent(0) != rule.num_rows())
    throw Error("ShapeMismatch", "fields must have as many rows on all ranks as " + to_string(rule) + ", got " +
                                     std::to_string(fields_.extent(0)));
  bool const cut = fields_.grid()->extent(1) > 1;
  auto const lines = cut ? whole_columns(fields_) : fields_;
  to_columns_ = move_to_whole_columns(comm, fields_);
  if (comm.num_ranks() > 1)
    to_orders_ =
        std::make_shared<TensorMove const>(comm, Layout(*lines.grid(), {*lines.cuts(0), Cuts{num_orders}}),
                                           cut_columns(rule.num_rows(), orders), std::vector<std::int64_t>{-2, -3});
  auto const own = lines.owned(comm.rank());
  std::vector<double> weights;
  for (Index i = own.lo(0); i < own.lo(0) + own.extent(0); ++i)
    weights.push_back(2 * std::numbers::pi / double(fields_.extent(1)) * rule.weights[std::size_t(i)]);
  std::vector<double> const ones(weights.size(), 1);
  auto const waves = [&, kept = num_orders](std::vector<double> const& w, RowWaves::Orders counted) {
    return std::make_shared<RowWaves const>(w, fields_.extent(1), kept, counted, options);
  };
  to_waves_ = waves(weights, RowWaves::Orders::once);
  from_waves_ = waves(ones, RowWaves::Orders::twice);
  legendre_ = LegendreTable::find(rule, num_degrees, orders.lo(comm.rank()), orders.size(comm.rank()), options);
}

namespace {

std::int64_t batch_of(torch::Tensor const& x) {
  return c10::multiply_integers(x.sizes().slice(0, std::size_t(x.dim() - 2)));
}

/// The last two axes of `like` replaced.
std::vector<std::int64_t> with_last(torch::Tensor const& like, std::int64_t rows, std::int64_t columns) {
  auto sizes = like.sizes().vec();
  sizes.end()[-2] = rows;
  sizes.end()[-1] = columns;
  return sizes;
}

}  // namespace

torch::Tensor SphericalMap::analyse(torch::Tensor const& x, CallTies const& ties) const {
  auto const lines = ties.apply(to_columns_, Way::forward, x);
  auto const batch = batch_of(x);
  auto const fields = lines.reshape({batch, lines.size(-2), lines.size(-1)});
  auto const waves = ties.apply(to_orders_, Way::forward, apply_linear(to_waves_, Way::forward, fields, ties.anchor));
  auto const c = apply_linear(legendre_, Way::forward, waves, ties.anchor);
  return c.permute({2, 1, 0}).reshape(with_last(x, c.size(1), c.size(0)));
}

torch::Tensor SphericalMap::synthesise(torch::Tensor const& c, CallTies const& ties) const {
  auto const orders_first = c.reshape({batch_of(c), c.size(-2), c.size(-1)}).permute({2, 1, 0});
  auto const waves =
      ties.apply(to_orders_, Way::adjoint, apply_linear(legendre_, Way::adjoint, orders_first, ties.anchor));
  auto const lines = apply_linear(from_waves_, Way::adjoint, waves, ties.anchor);
  return ties.apply(to_columns_, Way::adjoint, lines.reshape(with_last(c, lines.size(1), lines.size(2))));
}

}  // namespace graticule::nn::detail
