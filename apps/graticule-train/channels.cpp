// SPDX-License-Identifier: BSD-3-Clause
#include "channels.hpp"

#include <graticule/halo/plan.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace graticule::train {
namespace {

constexpr double earth_radius_m = 6.371e6;
constexpr double earth_rotation_per_s = 7.292e-5;
constexpr double radians = std::numbers::pi / 180;

/// Sums over all ranks of weight, and of weight times `term(value, level)`, per level.
struct LevelSums {
  std::vector<double> weight;
  std::vector<double> weighted;
};

template <class Term>
LevelSums sum_levels(Comm const& comm, Cells const& cells, Field const& field, Index num_levels, Index num_training,
                     Term const& term) {
  std::vector<double> sums(std::size_t(2 * num_levels), 0.0);
  Index const columns = cells.box.extent(1);
  for (Index s = 0; s < num_training; ++s) {
    auto const level = std::size_t(s % num_levels);
    for (Index i = 0; i < cells.box.extent(0); ++i) {
      double const* const row = field.values.data() + s * cells.per_sample() + i * columns;
      double sum = 0;
      Index count = 0;
      for (Index j = 0; j < columns; ++j) {
        if (std::isnan(row[j])) continue;
        sum += term(row[j], level);
        ++count;
      }
      double const weight = cells.row_weights[std::size_t(cells.box.lo(0) + i)];
      sums[level] += weight * double(count);
      sums[std::size_t(num_levels) + level] += weight * sum;
    }
  }
  comm.sum(std::span(sums));
  for (std::size_t level = 0; level < std::size_t(num_levels); ++level)
    if (!(sums[level] > 0))
      throw Error(Fault::input, "EmptyField",
                  field.info.name + " has no value in the training samples" +
                      (num_levels > 1 ? " of level number " + std::to_string(level) : std::string()));
  auto const middle = sums.begin() + std::ptrdiff_t(num_levels);
  return {{sums.begin(), middle}, {middle, sums.end()}};
}

/// Field with one ghost cell on every side, all samples.
struct Padded {
  std::vector<double> values;
  Index rows = 0;
  Index columns = 0;

  double const* row(Index sample, Index i) const { return values.data() + (sample * rows + i) * columns; }
};

Padded with_halo(Comm const& comm, Cells const& cells, Field const& field) {
  HaloPlan const plan(comm, cells.layout, {{1, 1}, {1, 1}}, cells.grid.boundary, Corners::skip);
  Box const& local = plan.local();
  Index const owned_rows = cells.box.extent(0);
  Index const owned_columns = cells.box.extent(1);
  Index const num_samples = cells.per_sample() == 0 ? 0 : Index(field.values.size()) / cells.per_sample();
  // A rank that owns nothing still takes part, with as many samples as the others.
  std::array<Index, 1> most{num_samples};
  comm.max(std::span<Index>(most));
  Padded padded{{}, local.extent(0), local.extent(1)};
  padded.values.assign(static_cast<std::size_t>(most[0] * padded.rows * padded.columns),
                       std::numeric_limits<double>::quiet_NaN());
  for (Index s = 0; s < num_samples; ++s)
    for (Index i = 0; i < owned_rows; ++i)
      std::copy_n(field.values.data() + s * cells.per_sample() + i * owned_columns, owned_columns,
                  padded.values.data() + (s * padded.rows + i + 1) * padded.columns + 1);
  std::array<HaloField, 1> const halo{
      HaloField{field_view(padded.values.data(), {most[0], padded.rows, padded.columns}, 2), field.info.parity}};
  plan.exchange(halo);
  return padded;
}

double quotient(double difference, double distance) { return distance == 0 ? 0 : difference / distance; }

}  // namespace

Scaling measure_scaling(Comm const& comm, Cells const& cells, Field const& field, Index num_levels,
                        Index num_training) {
  auto const levels = std::size_t(num_levels);
  Scaling scaling{std::vector<double>(levels, 0.0), std::vector<double>(levels, 1.0)};
  if (field.info.parity == Parity::even) scaling.mean = measure_mean(comm, cells, field, num_levels, num_training);
  LevelSums const squares =
      sum_levels(comm, cells, field, num_levels, num_training, [&](double value, std::size_t level) {
        double const anomaly = value - scaling.mean[level];
        return anomaly * anomaly;
      });
  for (std::size_t level = 0; level < levels; ++level) {
    double const deviation = std::sqrt(squares.weighted[level] / squares.weight[level]);
    // What is left of a constant field is rounding.
    if (deviation > 1e-12 * std::abs(scaling.mean[level])) scaling.scale[level] = deviation;
  }
  return scaling;
}

std::vector<double> measure_mean(Comm const& comm, Cells const& cells, Field const& field, Index num_levels,
                                 Index num_training) {
  LevelSums const sums =
      sum_levels(comm, cells, field, num_levels, num_training, [](double value, std::size_t) { return value; });
  std::vector<double> mean(sums.weight.size());
  for (std::size_t level = 0; level < mean.size(); ++level) mean[level] = sums.weighted[level] / sums.weight[level];
  return mean;
}

Channel normalised(Field const& field, Scaling const& scaling, Index cells_per_sample, Missing missing) {
  Channel channel{field.info.name, field.info.parity, field.values};
  for (std::size_t i = 0; i < channel.values.size(); ++i) {
    auto const level = (i / std::size_t(cells_per_sample)) % scaling.mean.size();
    double& value = channel.values[i];
    value = (value - scaling.mean[level]) / scaling.scale[level];
    if (missing == Missing::mean && std::isnan(value)) value = 0;
  }
  return channel;
}

std::vector<Feature> features_of(std::vector<std::string> const& names, FieldInfo const& info) {
  std::vector<Feature> features;
  for (std::string const& name : names) {
    if (name == "value")
      features.push_back(Feature::value);
    else if (name == "east")
      features.push_back(Feature::east);
    else if (name == "north")
      features.push_back(Feature::north);
    else if (name != "auto" || names.size() > 1)
      throw Error(Fault::usage, "UnknownFeature",
                  "--features takes auto, or a list of value, east and north, not '" + name + "'");
  }
  if (!features.empty()) return features;
  if (info.is_potential) return {Feature::east, Feature::north};
  return {Feature::value, Feature::east, Feature::north};
}

Field derivative(Comm const& comm, Cells const& cells, Field const& field, Feature which) {
  Padded const padded = with_halo(comm, cells, field);
  Grid const& grid = cells.grid;
  Field result{field.info, std::vector<double>(field.values.size())};
  result.info.name = (which == Feature::east ? "d/dx " : "d/dy ") + field.info.name;
  result.info.parity = field.info.parity == Parity::even ? Parity::odd : Parity::even;
  result.info.units = field.info.units + " m**-1";

  double const row_spacing =
      grid.num_rows() > 1 ? std::abs(grid.latitudes[1] - grid.latitudes[0]) * radians : std::numbers::pi;
  double const smallest_cosine = std::sin(std::min(row_spacing, std::numbers::pi) / 2);
  std::size_t out = 0;
  Index const num_samples = cells.per_sample() == 0 ? 0 : Index(field.values.size()) / cells.per_sample();
  for (Index s = 0; s < num_samples; ++s)
    for (Index i = 0; i < cells.box.extent(0); ++i) {
      Index const row = cells.box.lo(0) + i;
      double const* const above = padded.row(s, i) + 1;
      double const* const here = padded.row(s, i + 1) + 1;
      double const* const below = padded.row(s, i + 2) + 1;
      double const cosine = std::max(std::cos(grid.latitudes[std::size_t(row)] * radians), smallest_cosine);
      double const north =
          (extended_latitude(grid, row + 1) - extended_latitude(grid, row - 1)) * radians * earth_radius_m;
      for (Index j = 0; j < cells.box.extent(1); ++j) {
        if (which == Feature::north) {
          result.values[out++] = quotient(below[j] - above[j], north);
          continue;
        }
        Index const column = cells.box.lo(1) + j;
        double const east = (extended_longitude(grid, column + 1) - extended_longitude(grid, column - 1)) * radians *
                            cosine * earth_radius_m;
        result.values[out++] = quotient(here[j + 1] - here[j - 1], east);
      }
    }
  return result;
}

std::vector<double> static_rows(std::string const& name, Grid const& grid) {
  double (*function)(double) = nullptr;
  if (name == "coriolis")
    function = [](double latitude) { return 2 * earth_rotation_per_s * std::sin(latitude * radians); };
  if (name == "sin_latitude") function = [](double latitude) { return std::sin(latitude * radians); };
  if (name == "cos_latitude") function = [](double latitude) { return std::cos(latitude * radians); };
  if (function == nullptr)
    throw Error(Fault::usage, "UnknownStatic",
                "--static knows coriolis, sin_latitude, cos_latitude and none, not '" + name + "'");
  std::vector<double> rows(grid.latitudes.size());
  std::transform(grid.latitudes.begin(), grid.latitudes.end(), rows.begin(), function);
  return rows;
}

Channel static_channel(std::string const& name, Cells const& cells) {
  std::vector<double> rows = static_rows(name, cells.grid);
  double const area = std::accumulate(cells.row_weights.begin(), cells.row_weights.end(), 0.0);
  double const mean = std::inner_product(rows.begin(), rows.end(), cells.row_weights.begin(), 0.0) / area;
  double squares = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) squares += cells.row_weights[i] * (rows[i] - mean) * (rows[i] - mean);
  double const deviation = std::sqrt(squares / area);
  Channel channel{name, Parity::even, {}};
  channel.values.reserve(std::size_t(cells.per_sample()));
  for (Index i = cells.box.lo(0); i < cells.box.hi(0); ++i) {
    double const value = deviation > 0 ? (rows[std::size_t(i)] - mean) / deviation : 0;
    channel.values.insert(channel.values.end(), std::size_t(cells.box.extent(1)), value);
  }
  return channel;
}

}  // namespace graticule::train
