// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/samples/detail/channels.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace graticule::samples {
namespace {

double quotient(double difference, double distance) { return distance == 0 ? 0 : difference / distance; }

}  // namespace

void Moments::add(Moments const& other) noexcept {
  if (!(other.weight > 0)) return;
  double const all = weight + other.weight;
  double const step = other.mean - mean;
  mean += step * (other.weight / all);
  squares += other.squares + step * step * (weight * other.weight / all);
  weight = all;
}

Moments moments_of(Cells const& cells, std::span<double const> values) {
  auto const columns = std::size_t(cells.box.extent(1));
  // Sums over the rows of weight, and of weight times `term(value)`.
  auto const sums = [&](auto const& term) {
    std::array<double, 2> all{};
    for (Index i = 0; i < cells.box.extent(0); ++i) {
      double sum = 0;
      Index count = 0;
      for (double const value : values.subspan(std::size_t(i) * columns, columns)) {
        if (std::isnan(value)) continue;
        sum += term(value);
        ++count;
      }
      double const weight = cells.row_weights[std::size_t(cells.box.lo(0) + i)];
      all[0] += weight * double(count);
      all[1] += weight * sum;
    }
    return all;
  };
  auto const [weight, weighted] = sums([](double value) { return value; });
  if (!(weight > 0)) return {};
  double const mean = weighted / weight;
  return {weight, mean, sums([mean](double value) { return (value - mean) * (value - mean); })[1]};
}

void finish_statistics(Comm const& comm, std::span<LevelStatistics> fields) {
  finish_statistics(std::span(&comm, 1), fields);
}

void finish_statistics(std::span<Comm const> comms, std::span<LevelStatistics> fields) {
  std::vector<double> sums;  // of each field and level: weight, weight * mean
  for (auto const& field : fields)
    for (Moments const& moments : field.levels)
      sums.insert(sums.end(), {moments.weight, moments.weight * moments.mean});
  for (Comm const& comm : comms) comm.sum(std::span(sums));
  std::vector<double> squares;
  std::size_t at = 0;
  for (auto& field : fields) {
    field.means.clear();
    for (std::size_t level = 0; level < field.levels.size(); ++level, at += 2) {
      if (!(sums[at] > 0))
        throw Error(Fault::input, "BadInput",
                    field.channel.name + " has no value in the training samples" +
                        (field.levels.size() > 1 ? " of level number " + std::to_string(level) : std::string()));
      field.means.push_back(sums[at + 1] / sums[at]);
      if (!std::isfinite(field.means.back()))
        throw Error(Fault::input, "BadInput", field.channel.name + " has an infinite value in the training samples");
      double const zero = field.channel.parity == Parity::even ? field.means.back() : 0;
      auto const& own = field.levels[level];
      squares.push_back(own.squares + own.weight * (own.mean - zero) * (own.mean - zero));
    }
  }
  for (Comm const& comm : comms) comm.sum(std::span(squares));
  at = 0;
  for (auto& field : fields) {
    auto const levels = field.levels.size();
    field.scaling = {std::vector<double>(levels, 0.0), std::vector<double>(levels, 1.0)};
    if (field.channel.parity == Parity::even) field.scaling.mean = field.means;
    for (std::size_t level = 0; level < levels; ++level, ++at) {
      double const deviation = std::sqrt(squares[at] / sums[2 * at]);
      // The deviations of a constant field are rounding errors.
      if (deviation > 1e-12 * std::abs(field.scaling.mean[level])) field.scaling.scale[level] = deviation;
    }
  }
}

template <class Value>
void normalise(std::span<double const> values, Scaling const& scaling, std::size_t level, Missing missing, Value* out) {
  double const mean = scaling.mean[level];
  double const scale = scaling.scale[level];
  for (double const value : values) {
    double const number = (value - mean) / scale;
    *out++ = missing == Missing::mean && std::isnan(number) ? Value(0) : Value(number);
  }
}

template void normalise<float>(std::span<double const>, Scaling const&, std::size_t, Missing, float*);
template void normalise<double>(std::span<double const>, Scaling const&, std::size_t, Missing, double*);

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
      throw Error(Fault::usage, "BadOption",
                  "--features takes auto, or a list of value, east and north, not '" + name + "'");
  }
  if (!features.empty()) return features;
  if (info.is_potential) return {Feature::east, Feature::north};
  return {Feature::value, Feature::east, Feature::north};
}

Derivatives::Derivatives(Comm const& comm, Cells const& cells)
    : cells_(cells), plan_(comm, cells.layout, {{1, 1}, {1, 1}}, cells.grid.boundary, Corners::skip) {}

std::size_t Derivatives::padded_size(Index num_samples) const noexcept {
  return std::size_t(num_samples * plan_.local().extent(0) * plan_.local().extent(1));
}

void Derivatives::resize(PaddedField& field, Index num_samples) const {
  field.num_samples = num_samples;
  field.values.resize(padded_size(num_samples));
}

void Derivatives::put(PaddedField& field, Index sample, std::span<double const> values) const {
  Index const rows = plan_.local().extent(0);
  Index const columns = plan_.local().extent(1);
  for (Index i = 0; i < cells_.box.extent(0); ++i)
    std::copy_n(values.data() + i * cells_.box.extent(1), cells_.box.extent(1),
                field.values.data() + (sample * rows + i + 1) * columns + 1);
}

void Derivatives::exchange(std::span<PaddedField> fields) const {
  std::vector<HaloField> halos;
  for (PaddedField& field : fields)
    halos.push_back(
        {field_view(field.values.data(), {field.num_samples, plan_.local().extent(0), plan_.local().extent(1)}, 2),
         field.parity});
  plan_.exchange(halos);
}

void Derivatives::get(PaddedField const& field, Index sample, Feature which, std::span<double> values) const {
  Grid const& grid = cells_.grid;
  Index const num_columns = plan_.local().extent(1);
  double const* const first = field.values.data() + padded_size(sample);
  auto* out = values.data();
  for (Index i = 0; i < cells_.box.extent(0); ++i) {
    Index const row = cells_.box.lo(0) + i;
    double const* const above = first + i * num_columns + 1;
    double const* const here = above + num_columns;
    double const* const below = here + num_columns;
    double const cosine = bounded_cosine(grid, row);
    double const north = metres_between_rows(grid, row);
    for (Index j = 0; j < cells_.box.extent(1); ++j) {
      if (which == Feature::north) {
        *out++ = quotient(below[j] - above[j], north);
        continue;
      }
      *out++ = quotient(here[j + 1] - here[j - 1], metres_on_row(grid, cosine, cells_.box.lo(1) + j));
    }
  }
}

Channel static_channel(std::string const& name, Cells const& cells) {
  auto const rows = normalised_rows(name, cells.grid, cells.row_weights);
  Channel channel{name, Parity::even, {}};
  channel.values.reserve(std::size_t(cells.per_sample()));
  for (Index i = cells.box.lo(0); i < cells.box.hi(0); ++i)
    channel.values.insert(channel.values.end(), std::size_t(cells.box.extent(1)), rows[std::size_t(i)]);
  return channel;
}

}  // namespace graticule::samples
