// SPDX-License-Identifier: BSD-3-Clause
#include "scores.hpp"

#include <algorithm>
#include <cmath>

namespace graticule::forecasting {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Order of the sums of a case.
enum Sum : std::size_t {
  weight,
  squares,
  absolutes,
  errors,
  forecast_truth,
  forecast_forecast,
  truth_truth,
  persistence,
  crps_sum,
  variance_sum,
};

std::vector<double> weights_in(Region const& region, std::span<double const> latitudes,
                               std::span<double const> row_weights) {
  std::vector<double> weights(row_weights.begin(), row_weights.end());
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (latitudes[i] < region.south || latitudes[i] > region.north) weights[i] = 0;
  return weights;
}

}  // namespace

std::vector<Region> const& standard_regions() {
  static std::vector<Region> const regions{
      {"globe", -90, 90}, {"tropics", -20, 20}, {"north", 20, 90}, {"south", -90, -20}};
  return regions;
}

ScoreTable::ScoreTable(Comm const& domain, Layout const& layout, std::span<double const> latitudes,
                       std::span<double const> row_weights, Shape shape)
    : layout_(layout), box_(layout.owned(domain.rank())), shape_(std::move(shape)) {
  for (Region const& region : shape_.regions)
    areas_.emplace_back(domain, layout, 1, 0, weights_in(region, latitudes, row_weights));
  sums_.assign(
      std::size_t(shape_.num_cases * shape_.num_channels * shape_.num_leads) * shape_.regions.size() * num_sums, 0.0);
}

std::size_t ScoreTable::place(Index case_number, Index channel, Index lead, Index region) const {
  auto const index =
      ((case_number * shape_.num_channels + channel) * shape_.num_leads + lead) * Index(shape_.regions.size()) + region;
  return std::size_t(index) * num_sums;
}

void ScoreTable::add(Index case_number, Index lead, std::span<ScoredField const> fields) {
  auto const num_cells = std::size_t(box_.num_cells());
  cells_.assign(fields.size() * num_sums * num_cells, 0.0);
  for (std::size_t c = 0; c < fields.size(); ++c) {
    auto const& field = fields[c];
    double* const out = cells_.data() + c * num_sums * num_cells;
    for (std::size_t i = 0; i < num_cells; ++i) {
      double const truth = field.truth[i];
      double const error = field.forecast[i] - truth;
      double const mean = field.climatology.empty() ? nan : field.climatology[i];
      if (std::isnan(error) || (!field.climatology.empty() && std::isnan(mean))) continue;
      double const persistent = field.persistence.empty() ? nan : std::pow(field.persistence[i] - truth, 2);
      if (!field.persistence.empty() && std::isnan(persistent)) continue;
      double const forecast_anomaly = field.forecast[i] - mean;
      double const truth_anomaly = truth - mean;
      auto const put = [&](Sum sum, double value) { out[sum * num_cells + i] = value; };
      put(weight, 1);
      put(squares, error * error);
      put(absolutes, std::abs(error));
      put(errors, error);
      put(forecast_truth, forecast_anomaly * truth_anomaly);
      put(forecast_forecast, forecast_anomaly * forecast_anomaly);
      put(truth_truth, truth_anomaly * truth_anomaly);
      put(persistence, persistent);
      put(crps_sum, field.crps.empty() ? std::abs(error) : field.crps[i]);
      if (!field.variance.empty()) put(variance_sum, field.variance[i]);
    }
  }
  auto const view =
      field_view(cells_.data(), {Index(fields.size()), Index(num_sums), box_.extent(0), box_.extent(1)}, 2);
  for (Index region = 0; region < Index(areas_.size()); ++region) {
    auto const sums = areas_[std::size_t(region)].apply(view);
    for (std::size_t c = 0; c < fields.size(); ++c)
      std::copy_n(sums.begin() + std::ptrdiff_t(c * num_sums), num_sums,
                  sums_.begin() + std::ptrdiff_t(place(case_number, Index(c), lead, region)));
  }
}

void ScoreTable::join(Comm const& data) { data.sum(std::span(sums_)); }

void ScoreTable::set_values(std::vector<double> values) {
  if (values.size() != sums_.size())
    throw Error(Fault::input, "StateMismatch",
                "the saved scores have another number of cases, channels, leads or regions");
  sums_ = std::move(values);
}

Score ScoreTable::score(Index channel, Index lead, Index region) const {
  return score(std::span(&channel, 1), lead, region);
}

Score ScoreTable::score(std::span<Index const> channels, Index lead, Index region) const {
  Score score;
  std::vector<double> means(num_sums, 0.0);
  double correlation = 0;
  double climatology = 0;
  Index num = 0;
  Index num_correlations = 0;
  for (Index c = 0; c < shape_.num_cases; ++c) {
    bool is_known = false;
    for (Index const channel : channels) {
      double const* const sums = sums_.data() + place(c, channel, lead, region);
      if (!(sums[weight] > 0)) continue;
      is_known = true;
      ++num;
      for (std::size_t i = squares; i < num_sums; ++i) means[i] += sums[i] / sums[weight];
      climatology += sums[truth_truth] / sums[weight];
      double const variances = sums[forecast_forecast] * sums[truth_truth];
      if (!(variances > 0)) continue;
      correlation += sums[forecast_truth] / std::sqrt(variances);
      ++num_correlations;
    }
    if (is_known) ++score.num_cases;
  }
  if (num == 0) return score;
  auto const mean = [&](std::size_t sum) { return means[sum] / double(num); };
  score.rmse = std::sqrt(mean(squares));
  score.mae = mean(absolutes);
  score.bias = mean(errors);
  if (num_correlations > 0) score.acc = correlation / double(num_correlations);
  score.persistence_rmse = std::sqrt(mean(persistence));
  score.climatology_rmse = std::sqrt(climatology / double(num));
  score.crps = mean(crps_sum);
  score.spread = std::sqrt(mean(variance_sum));
  return score;
}

void ensemble_statistics(std::span<double const> members, std::size_t num_members, std::span<double const> truth,
                         std::span<double> crps, std::span<double> mean, std::span<double> variance) {
  std::size_t const num_cells = truth.size();
  auto const m = double(num_members);
  std::vector<double> sorted(num_members);
  for (std::size_t i = 0; i < num_cells; ++i) {
    double sum = 0;
    double distance = 0;
    for (std::size_t k = 0; k < num_members; ++k) {
      sorted[k] = members[k * num_cells + i];
      sum += sorted[k];
      distance += std::abs(sorted[k] - truth[i]);
    }
    if (std::isnan(sum)) {
      crps[i] = mean[i] = variance[i] = nan;
      continue;
    }
    mean[i] = sum / m;
    double squares = 0;
    for (double const value : sorted) squares += (value - mean[i]) * (value - mean[i]);
    variance[i] = num_members > 1 ? squares / (m - 1) : 0;
    std::sort(sorted.begin(), sorted.end());
    // The sum of x_j - x_i over i < j.
    double pairs = 0;
    for (std::size_t k = 0; k < num_members; ++k) pairs += (2 * double(k) - m + 1) * sorted[k];
    crps[i] = distance / m - (num_members > 1 ? pairs / (m * (m - 1)) : 0);
  }
}

}  // namespace graticule::forecasting
