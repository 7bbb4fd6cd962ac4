// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/detail/stepper.hpp>

#include "filters.hpp"

#include <algorithm>
#include <cmath>

namespace graticule::models {
namespace {

using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

nn::HaloExchangeOptions halo_options(Description const& description) {
  nn::HaloExchangeOptions options{.latitude = {1, 1}, .longitude = {1, 1}};
  for (std::size_t c = 0; c < description.num_prognostic(); ++c)
    if (description.channels[c].info.parity == Parity::odd) options.odd_channels.push_back(std::int64_t(c));
  return options;
}

bool has(std::vector<Feature> const& features, Feature feature) {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

/// [field, row, column], normalised; 0 where missing.
torch::Tensor field_tensor(std::vector<std::vector<double>> const& fields,
                           std::vector<Description::StaticScale> const& scales, Box const& box, torch::Dtype dtype) {
  torch::Tensor result = torch::zeros({std::int64_t(fields.size()), box.extent(0), box.extent(1)}, torch::kFloat64);
  double* out = result.data_ptr<double>();
  for (std::size_t i = 0; i < fields.size(); ++i)
    for (double const value : fields[i])
      *out++ = std::isnan(value) ? 0 : (value - scales[i].scale.mean) / scales[i].scale.scale;
  return result.to(dtype);
}

torch::Tensor row_tensor(std::vector<std::string> const& names, Cells const& cells, torch::Dtype dtype) {
  torch::Tensor rows = torch::zeros({cells.box.extent(0), std::int64_t(names.size())}, torch::kFloat64);
  for (std::size_t c = 0; c < names.size(); ++c) {
    auto const values = normalised_rows(names[c], cells.grid, cells.row_weights);
    for (Index i = 0; i < cells.box.extent(0); ++i)
      rows.index_put_({i, std::int64_t(c)}, values[std::size_t(cells.box.lo(0) + i)]);
  }
  return rows.to(dtype);
}

double inverse(double distance) { return distance == 0 ? 0 : 1 / distance; }

/// Metres that differences along a row are divided by at least. Near a pole columns lie 100 times closer than rows: the
/// quotient would magnify the errors of a step in the next one, and the forecast would grow without bound there.
double least_distance(Grid const& grid, Index row) { return std::abs(metres_between_rows(grid, row)) / 4; }

}  // namespace

Stepper::Stepper(Description const& description, Cells const& cells, nn::Domain const& domain,
                 std::vector<std::vector<double>> const& statics, std::vector<std::vector<double>> const& mirrored)
    : description_(description),
      dtype_(description.dtype == DType::f64 ? torch::kFloat64 : torch::kFloat32),
      halo_(halo_options(description), domain),
      filter_(std::make_unique<PolarFilter>(cells.grid, cells.box, description.polar_filter, dtype_, domain)),
      rows_(row_tensor(description.row_functions, cells, dtype_)),
      statics_(field_tensor(statics, description.statics, cells.box, dtype_)),
      mirrored_(field_tensor(mirrored, description.statics, cells.box, dtype_)),
      error_factors_(column(description.error_factors())) {
  std::vector<double> change;
  std::vector<double> factor;
  std::vector<double> mean;
  for (std::size_t c = 0; c < description.num_prognostic(); ++c) {
    auto const& tendency = description.tendencies[c];
    change.push_back(description.values[c].scale / tendency.scale);
    factor.push_back(tendency.scale / description.values[c].scale);
    mean.push_back(tendency.mean / description.values[c].scale);
  }
  change_factors_ = column(change);
  tendency_factors_ = column(factor);
  tendency_means_ = column(mean);
  make_derivative_factors(cells);
}

Stepper::~Stepper() = default;

torch::Tensor Stepper::column(std::vector<double> const& values) const {
  return torch::tensor(values, torch::kFloat64).reshape({-1, 1, 1}).to(dtype_);
}

void Stepper::to(torch::Device const& device) {
  for (auto* const tensor : {&rows_, &statics_, &mirrored_, &east_factors_, &north_factors_, &change_factors_,
                             &tendency_factors_, &tendency_means_, &error_factors_})
    *tensor = tensor->to(device);
  filter_->to(device);
}

void Stepper::make_derivative_factors(Cells const& cells) {
  auto const channels = std::int64_t(description_.num_prognostic());
  Index const num_rows = cells.box.extent(0);
  Index const num_columns = cells.box.extent(1);
  torch::Tensor east = torch::zeros({channels, num_rows, num_columns}, torch::kFloat64);
  torch::Tensor north = torch::zeros({channels, num_rows, 1}, torch::kFloat64);
  double* east_out = east.data_ptr<double>();
  double* north_out = north.data_ptr<double>();
  for (std::size_t c = 0; c < std::size_t(channels); ++c) {
    double const to_east = description_.values[c].scale / description_.east_scales[c];
    double const to_north = description_.values[c].scale / description_.north_scales[c];
    for (Index i = cells.box.lo(0); i < cells.box.hi(0); ++i) {
      *north_out++ = to_north * inverse(metres_between_rows(cells.grid, i));
      double const cosine = bounded_cosine(cells.grid, i);
      for (Index j = cells.box.lo(1); j < cells.box.hi(1); ++j) {
        double const distance = metres_on_row(cells.grid, cosine, j);
        *east_out++ =
            to_east * inverse(std::copysign(std::max(std::abs(distance), least_distance(cells.grid, i)), distance));
      }
    }
  }
  east_factors_ = east.to(dtype_);
  north_factors_ = north.to(dtype_);
}

ModelOptions Stepper::model_options() const {
  ModelOptions options;
  auto const inputs = description_.inputs();
  options.kind = description_.model;
  options.num_inputs = std::int64_t(inputs.size());
  options.num_statics = std::int64_t(description_.row_functions.size());
  options.num_outputs = std::int64_t(description_.channels.size());
  options.channels = description_.width;
  options.blocks = description_.blocks;
  options.kernel = description_.kernel;
  options.latitudes = description_.latitudes;
  options.num_columns = std::int64_t(description_.longitudes.size());
  options.program = description_.program;
  for (auto const& input : inputs) options.input_names.push_back(input.name);
  options.static_names = description_.row_functions;
  for (auto const& channel : description_.channels) options.output_names.push_back(channel.label);
  for (std::size_t c = 0; c < inputs.size(); ++c)
    if (inputs[c].parity == Parity::odd) options.odd_channels.push_back(std::int64_t(c));
  return options;
}

torch::Tensor Stepper::initial(torch::Tensor const& states) const {
  auto const prognostic = std::int64_t(description_.num_prognostic());
  auto const history = states.index({Slice(), Slice(0, description_.history), Slice(0, prognostic)});
  auto const shape = history.sizes();
  auto const flat = torch::nan_to_num(history).reshape({shape[0], shape[1] * shape[2], shape[3], shape[4]});
  auto const diagnostic =
      torch::zeros({shape[0], std::int64_t(description_.num_diagnostic()), shape[3], shape[4]}, flat.options());
  return torch::cat({flat, diagnostic}, 1);
}

torch::Tensor Stepper::mask(torch::Tensor const& states) const {
  auto const first = states.index({Slice(), 0, Slice(0, std::int64_t(description_.num_prognostic()))});
  return torch::isnan(first).logical_not().to(states.dtype());
}

torch::Tensor Stepper::inputs(torch::Tensor const& state, torch::Tensor const& forcings,
                              std::vector<bool> const& images) {
  auto const channels = std::int64_t(description_.num_prognostic());
  torch::Tensor const now = state.index({Slice(), Slice(0, channels)});
  auto const& features = description_.features;
  std::vector<torch::Tensor> parts;
  torch::Tensor padded;
  if (has(features, Feature::east) || has(features, Feature::north)) padded = halo_(now);
  // A rank without cells has no halo either; its derivatives stay connected with those of the others.
  bool const has_halo = now.size(2) > 0 && now.size(3) > 0;
  auto const difference = [&](Slice const& above, Slice const& below, Slice const& after, Slice const& before,
                              torch::Tensor const& factors) {
    if (!has_halo) return now + padded.sum();
    return (padded.index({Ellipsis, above, after}) - padded.index({Ellipsis, below, before})) * factors;
  };
  Slice const inner(1, -1);
  Slice const later(2, None);
  Slice const earlier(None, -2);
  for (Feature const feature : features) {
    if (feature == Feature::value) parts.push_back(now);
    if (feature == Feature::east) parts.push_back(difference(inner, inner, later, earlier, east_factors_));
    if (feature == Feature::north) parts.push_back(difference(later, earlier, inner, inner, north_factors_));
  }
  for (Index t = 1; t < description_.history; ++t)
    parts.push_back((state.index({Slice(), Slice((t - 1) * channels, t * channels)}) -
                     state.index({Slice(), Slice(t * channels, (t + 1) * channels)})) *
                    change_factors_);
  if (forcings.size(1) > 0) parts.push_back(forcings);
  if (statics_.size(0) > 0) {
    std::vector<torch::Tensor> fields;
    for (bool const image : images) fields.push_back(image ? mirrored_ : statics_);
    parts.push_back(fields.empty() ? statics_.unsqueeze(0).slice(0, 0, 0) : torch::stack(fields));
  }
  return torch::cat(parts, 1);
}

torch::Tensor Stepper::next(Network const& network, torch::Tensor const& state, torch::Tensor const& forcings,
                            torch::Tensor const& mask, std::vector<bool> const& images) {
  auto const channels = std::int64_t(description_.num_prognostic());
  torch::Tensor const output = network(inputs(state, forcings, images), rows_).to(dtype_);
  torch::Tensor now = (*filter_)(output.index({Slice(), Slice(0, channels)}));
  if (description_.predict == Predict::tendency)
    now = state.index({Slice(), Slice(0, channels)}) + now * tendency_factors_ + tendency_means_;
  return torch::cat({now * mask, state.index({Slice(), Slice(0, (description_.history - 1) * channels)}),
                     output.index({Slice(), Slice(channels, None)})},
                    1);
}

torch::Tensor Stepper::present(torch::Tensor const& state) const {
  auto const channels = std::int64_t(description_.num_prognostic());
  return torch::cat({state.index({Slice(), Slice(0, channels)}),
                     state.index({Slice(), Slice(description_.history * channels, None)})},
                    1);
}

}  // namespace graticule::models
