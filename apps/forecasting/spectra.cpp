// SPDX-License-Identifier: BSD-3-Clause
#include "spectra.hpp"

#include <graticule/models/detail/cells.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>

#include <torch/torch.h>

#include <numbers>
#include <optional>

namespace graticule::forecasting {
namespace {

/// The degrees of the transform, or none where there is no quadrature rule.
std::optional<nn::LatitudeRule> rule_of(std::vector<double> const& latitudes) {
  try {
    return nn::latitude_rule(latitudes);
  } catch (Error const&) {
    return {};
  }
}

torch::Tensor tensor_of_fields(std::span<double const> fields, Index num_fields, Box const& box) {
  return torch::from_blob(const_cast<double*>(fields.data()),  // only read
                          {num_fields, box.extent(0), box.extent(1)}, torch::kFloat64);
}

/// [field][number] over all ranks. Collective.
std::vector<std::vector<double>> summed(Comm const& comm, torch::Tensor const& parts) {
  torch::Tensor const sums = parts.contiguous().clone();
  comm.sum(std::span(sums.data_ptr<double>(), std::size_t(sums.numel())));
  std::vector<std::vector<double>> result;
  for (std::int64_t f = 0; f < sums.size(0); ++f) {
    double const* const begin = sums.data_ptr<double>() + f * sums.size(1);
    result.emplace_back(begin, begin + sums.size(1));
  }
  return result;
}

}  // namespace

struct Spectra::State {
  State(Comm const& comm, models::Cells const& of)
      : cells(of), domain(comm, *of.layout.grid(), of.grid.boundary), rule(rule_of(of.grid.latitudes)) {
    if (rule) spherical = nn::SphericalTransform(nn::SphericalTransformOptions{.rows = *rule}, domain);
    zonal = nn::FourierTransform(nn::FourierTransformOptions{.norm = nn::FourierNorm::forward}, domain);
  }

  models::Cells cells;
  nn::Domain domain;
  std::optional<nn::LatitudeRule> rule;
  nn::SphericalTransform spherical{nullptr};
  nn::FourierTransform zonal{nullptr};
};

Spectra::Spectra(Comm const& domain, models::Cells const& cells) : state_(std::make_unique<State>(domain, cells)) {}

Spectra::~Spectra() = default;

std::vector<std::vector<double>> Spectra::spherical(std::span<double const> fields, Index num_fields) {
  auto& s = *state_;
  if (!s.rule) return {};
  torch::NoGradGuard const no_grad;
  torch::Tensor const coefficients = s.spherical(tensor_of_fields(fields, num_fields, s.cells.box));
  torch::Tensor power = torch::real(coefficients * torch::conj(coefficients));
  auto const orders = s.spherical->orders();
  torch::Tensor factors = torch::full({power.size(-1)}, 2.0, torch::kFloat64);
  if (orders.lo() == 0 && factors.numel() > 0) factors[0] = 1.0;
  return summed(s.domain.comm(), (power * factors).sum(-1) / (4 * std::numbers::pi));
}

std::vector<std::vector<double>> Spectra::zonal(std::span<double const> fields, Index num_fields, double south,
                                                double north) {
  return zonal(fields, num_fields, {{"", south, north}})[0];
}

std::vector<std::vector<std::vector<double>>> Spectra::zonal(std::span<double const> fields, Index num_fields,
                                                             std::vector<Region> const& regions) {
  auto& s = *state_;
  torch::NoGradGuard const no_grad;
  torch::Tensor const waves = s.zonal(tensor_of_fields(fields, num_fields, s.cells.box));
  // Each wave stands for two, but for the mean and, with an even number of columns, the wave of two cells.
  torch::Tensor power = torch::real(waves * torch::conj(waves)) * 2;
  Index const num_columns = s.cells.grid.num_columns();
  if (power.size(-1) > 0) power.select(-1, 0).mul_(0.5);
  if (power.size(-1) > 1 && num_columns % 2 == 0) power.select(-1, num_columns / 2).mul_(0.5);
  auto const rows = s.zonal->part();
  std::vector<std::vector<std::vector<double>>> result;
  for (Region const& region : regions) {
    auto const weight = [&](Index row) {
      double const latitude = s.cells.grid.latitudes[std::size_t(row)];
      return latitude < region.south || latitude > region.north ? 0.0 : s.cells.row_weights[std::size_t(row)];
    };
    double all = 0;
    for (Index row = 0; row < s.cells.grid.num_rows(); ++row) all += weight(row);
    std::vector<double> weights;
    for (Index row = rows.lo(); row < rows.lo() + rows.size(); ++row)
      weights.push_back(all > 0 ? weight(row) / all : 0.0);
    torch::Tensor const column = torch::tensor(weights, torch::kFloat64).reshape({1, -1, 1});
    result.push_back(summed(s.domain.comm(), (power * column).sum(1)));
  }
  return result;
}

}  // namespace graticule::forecasting
