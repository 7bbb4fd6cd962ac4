// SPDX-License-Identifier: BSD-3-Clause
#include "forecaster.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>
#include <graticule/training/state/model.hpp>

#include "stepper.hpp"

#include <limits>
#include <numbers>
#include <optional>

namespace graticule::forecast {
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

struct Forecaster::State {
  State(Comm const& comm, ProcessGrid const& grid, train::Cells const& of_cells, Description const& of,
        std::vector<std::vector<double>> const& statics)
      : description(of),
        cells(of_cells),
        domain(comm, grid, of_cells.grid.boundary),
        stepper(of, of_cells, domain, statics, statics),
        network(make_model(stepper.model_options(), domain)),
        forcings(forecast::forcings_of(of.forcings)),
        places{{of_cells.grid.latitudes.begin() + of_cells.box.lo(0),
                of_cells.grid.latitudes.begin() + of_cells.box.hi(0)},
               {of_cells.grid.longitudes.begin() + of_cells.box.lo(1),
                of_cells.grid.longitudes.begin() + of_cells.box.hi(1)}},
        rule(rule_of(of.latitudes)) {
    network->to(stepper.dtype());
    if (rule) spherical = nn::SphericalTransform(nn::SphericalTransformOptions{.rows = *rule}, domain);
    zonal = nn::FourierTransform(nn::FourierTransformOptions{.norm = nn::FourierNorm::forward}, domain);
  }

  Description description;
  train::Cells cells;
  nn::Domain domain;
  Stepper stepper;
  std::shared_ptr<train::Model> network;
  std::vector<Forcing> forcings;
  Places places;
  std::optional<nn::LatitudeRule> rule;
  nn::SphericalTransform spherical{nullptr};
  nn::FourierTransform zonal{nullptr};
  torch::Tensor states;  ///< [member, channel, row, column]
  torch::Tensor mask;
};

Forecaster::Forecaster(Comm const& domain, ProcessGrid const& grid, train::Cells const& cells,
                       Checkpoint const& checkpoint, Comm const& checkpoint_comm, Description const& description,
                       std::vector<std::vector<double>> const& statics)
    : state_(std::make_unique<State>(domain, grid, cells, description, statics)) {
  training::load_model(checkpoint_comm, checkpoint, *state_->network);
}

Forecaster::~Forecaster() = default;

void Forecaster::start(std::span<double const> states, Index num_members) {
  auto const& description = state_->description;
  auto const prognostic = std::int64_t(description.num_prognostic());
  Box const& box = state_->cells.box;
  std::vector<double> means;
  std::vector<double> scales;
  for (std::int64_t c = 0; c < prognostic; ++c) {
    means.push_back(description.values[std::size_t(c)].mean);
    scales.push_back(description.values[std::size_t(c)].scale);
  }
  auto const column = [](std::vector<double> const& values) {
    return torch::tensor(values, torch::kFloat64).reshape({-1, 1, 1});
  };
  torch::Tensor const raw =
      torch::from_blob(const_cast<double*>(states.data()),  // only read
                       {num_members, description.history, prognostic, box.extent(0), box.extent(1)}, torch::kFloat64);
  torch::Tensor const normalised = ((raw - column(means)) / column(scales)).to(state_->stepper.dtype());
  state_->states = state_->stepper.initial(normalised).contiguous();
  state_->mask = state_->stepper.mask(normalised);
}

void Forecaster::step(Seconds time) {
  torch::NoGradGuard const no_grad;
  auto& s = *state_;
  if (s.states.size(0) == 0) return;
  auto const channels = std::int64_t(forcing_channels(s.forcings).size());
  Box const& box = s.cells.box;
  torch::Tensor forcing = torch::empty({1, channels, box.extent(0), box.extent(1)}, s.states.options());
  if (s.states.scalar_type() == torch::kFloat64)
    fill_forcing(s.forcings, s.places, time, s.description.lead_seconds, forcing.data_ptr<double>());
  else
    fill_forcing(s.forcings, s.places, time, s.description.lead_seconds, forcing.data_ptr<float>());
  auto const network = [&](torch::Tensor const& inputs, torch::Tensor const& rows) {
    return s.network->forward(inputs, rows);
  };
  // One member at a time: memory for activations of one.
  for (std::int64_t m = 0; m < s.states.size(0); ++m)
    s.states.slice(0, m, m + 1)
        .copy_(s.stepper.next(network, s.states.slice(0, m, m + 1), forcing, s.mask.slice(0, m, m + 1), {false}));
}

std::vector<double> Forecaster::present(Index member) const {
  auto const& s = *state_;
  torch::Tensor const values =
      s.stepper.present(s.states.slice(0, member, member + 1)).to(torch::kFloat64).contiguous();
  std::vector<double> result(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  torch::Tensor const known = s.mask[member].to(torch::kFloat64).contiguous();
  auto const cells = std::size_t(s.cells.per_sample());
  for (std::size_t c = 0; c < s.description.channels.size(); ++c)
    for (std::size_t i = 0; i < cells; ++i) {
      double& value = result[c * cells + i];
      value = value * s.description.values[c].scale + s.description.values[c].mean;
      bool const is_missing = c < s.description.num_prognostic() && known.const_data_ptr<double>()[c * cells + i] == 0;
      if (is_missing) value = std::numeric_limits<double>::quiet_NaN();
    }
  return result;
}

FieldView Forecaster::states() {
  auto const& t = state_->states;
  Indices const extents{t.size(0), t.size(1), t.size(2), t.size(3)};
  if (t.scalar_type() == torch::kFloat64) return field_view(t.data_ptr<double>(), extents, 2);
  return field_view(t.data_ptr<float>(), extents, 2);
}

Index Forecaster::num_state_channels() const {
  auto const& d = state_->description;
  return d.history * Index(d.num_prognostic()) + Index(d.num_diagnostic());
}

std::vector<std::vector<double>> Forecaster::spectra(std::span<double const> fields, Index num_fields) {
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

std::vector<std::vector<double>> Forecaster::zonal_spectra(std::span<double const> fields, Index num_fields,
                                                           double south, double north) {
  auto& s = *state_;
  torch::NoGradGuard const no_grad;
  torch::Tensor const waves = s.zonal(tensor_of_fields(fields, num_fields, s.cells.box));
  torch::Tensor power = torch::real(waves * torch::conj(waves)) * 2;
  if (power.size(-1) > 0) power.select(-1, 0).mul_(0.5);
  auto const rows = s.zonal->part();
  double all = 0;
  auto const weight = [&](Index row) {
    double const latitude = s.cells.grid.latitudes[std::size_t(row)];
    return latitude < south || latitude > north ? 0.0 : s.cells.row_weights[std::size_t(row)];
  };
  for (Index row = 0; row < s.cells.grid.num_rows(); ++row) all += weight(row);
  std::vector<double> weights;
  for (Index row = rows.lo(); row < rows.lo() + rows.size(); ++row) weights.push_back(weight(row) / all);
  torch::Tensor const column = torch::tensor(weights, torch::kFloat64).reshape({1, -1, 1});
  return summed(s.domain.comm(), (power * column).sum(1));
}

}  // namespace graticule::forecast
