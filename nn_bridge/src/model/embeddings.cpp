// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/model/embeddings.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include <cmath>
#include <numbers>

namespace graticule::nn {

namespace {

constexpr double initial_deviation = 0.02;

torch::Tensor initial(std::vector<std::int64_t> const& sizes) { return torch::randn(sizes) * initial_deviation; }

void check_field(std::string const& layer, torch::Tensor const& x, std::int64_t least_axes, std::int64_t channels) {
  auto const given = layer + (channels > 0 ? " of " + std::to_string(channels) + " channels" : "") + " was given ";
  if (!x.defined() || x.layout() != torch::kStrided || !torch::isFloatingType(x.scalar_type()))
    throw Error("UnsupportedTensor", given + "no dense tensor of a real floating-point dtype");
  if (x.dim() < least_axes || (channels > 0 && x.size(1) != channels))
    throw Error("ShapeMismatch", c10::str(given, x.sizes()));
}

/// `values` as [channels, 1, ..., 1, rows, columns] for all axes of `x` but the batch.
torch::Tensor with_axes_between(torch::Tensor values, torch::Tensor const& x) {
  while (values.dim() < x.dim() - 1) values = values.unsqueeze(1);
  return values;
}

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

/// [features, rows, columns] of the cells of this rank.
torch::Tensor features_of(CoordinateFeaturesOptions const& o, Box const& owned) {
  auto const waves = o.num_waves;
  auto result = torch::empty({4 * waves, owned.extent(0), owned.extent(1)}, torch::kDouble);
  auto values = result.accessor<double, 3>();
  for (std::int64_t k = 1; k <= waves; ++k)
    for (Index i = 0; i < owned.extent(0); ++i)
      for (Index j = 0; j < owned.extent(1); ++j) {
        double const latitude = radians(o.latitudes[std::size_t(owned.lo(0) + i)]);
        double const longitude = radians(o.longitudes[std::size_t(owned.lo(1) + j)]);
        auto const at = 4 * (k - 1);
        values[at][i][j] = std::sin(double(k) * latitude);
        values[at + 1][i][j] = std::cos(double(k) * latitude);
        values[at + 2][i][j] = std::cos(latitude) * std::sin(double(k) * longitude);
        values[at + 3][i][j] = std::cos(latitude) * std::cos(double(k) * longitude);
      }
  return result;
}

}  // namespace

PositionEmbeddingImpl::PositionEmbeddingImpl(PositionEmbeddingOptions given, Domain const& domain)
    : CommunicatingModule(domain, "PositionEmbedding"), options(given) {
  if (options.channels < 1 || options.rows < 1 || options.columns < 1)
    throw Error("ShapeMismatch", "PositionEmbedding needs at least 1 channel, row and column, got " +
                                     std::to_string(options.channels) + ", " + std::to_string(options.rows) + " and " +
                                     std::to_string(options.columns));
  reset();
}

void PositionEmbeddingImpl::reset() {
  weight = register_parameter("weight", initial({options.channels, options.rows, options.columns}));
}

torch::Tensor PositionEmbeddingImpl::forward(torch::Tensor const& x) {
  std::array<std::int64_t, 2> const extents{options.rows, options.columns};
  auto const check = [&] { check_field("PositionEmbedding", x, 4, options.channels); };
  auto const make = [&](Layout const& layout) {
    for (int a = 0; a < 2; ++a)
      if (extents[std::size_t(a)] != 1 && extents[std::size_t(a)] != layout.extent(a))
        throw Error("ShapeMismatch",
                    c10::str("PositionEmbedding has ", options.rows, " x ", options.columns, " cells, got ",
                             layout.extent(0), " x ", layout.extent(1), " on all ranks"));
    return std::make_shared<Box const>(layout.owned(domain().comm().rank()));
  };
  auto const call = enter(x, check, make, weight.requires_grad());
  auto const& owned = *call.set_up;
  auto slice = weight;
  for (int a = 0; a < 2; ++a)
    if (extents[std::size_t(a)] != 1) slice = slice.narrow(a + 1, owned.lo(a), owned.extent(a));
  return x + with_axes_between(slice, x).to(x.scalar_type());
}

CoordinateFeaturesImpl::CoordinateFeaturesImpl(CoordinateFeaturesOptions options, Domain const& domain)
    : CommunicatingModule(domain, "CoordinateFeatures"), options_(std::move(options)) {
  Hash hash;
  hash.add(options_.latitudes).add(options_.longitudes).add(options_.num_waves);
  require_same(domain.comm(), "StructureDisagreement", hash.value(),
               std::to_string(options_.num_waves) + " waves of " + std::to_string(options_.latitudes.size()) + " x " +
                   std::to_string(options_.longitudes.size()) + " coordinates");
  bool good = options_.num_waves > 0;
  for (double const latitude : options_.latitudes) good = good && std::abs(latitude) <= 90 + 1e-6;
  for (double const longitude : options_.longitudes) good = good && std::isfinite(longitude);
  if (!good)
    throw Error("BadCoordinates",
                std::to_string(options_.num_waves) + " waves; coordinates must be finite, latitudes from -90 to 90");
}

torch::Tensor CoordinateFeaturesImpl::forward(torch::Tensor const& x) {
  auto const make = [&](Layout const& layout) {
    if (layout.extent(0) != Index(options_.latitudes.size()) || layout.extent(1) != Index(options_.longitudes.size()))
      throw Error("ShapeMismatch", c10::str("CoordinateFeatures has ", options_.latitudes.size(), " latitudes and ",
                                            options_.longitudes.size(), " longitudes, got ", layout.extent(0), " x ",
                                            layout.extent(1), " cells"));
    return std::make_shared<detail::Constant const>(
        features_of(options_, layout.owned(domain().comm().rank())).to(x.scalar_type()));
  };
  auto const check = [&] { check_field("CoordinateFeatures", x, 4, 0); };
  auto const call = enter(x, check, make);
  auto const features = call.set_up->on(x.device());
  auto sizes = x.sizes().vec();
  sizes[1] = features.size(0);
  return torch::cat({x, with_axes_between(features, x).unsqueeze(0).expand(sizes)}, 1);
}

LevelEmbeddingImpl::LevelEmbeddingImpl(std::int64_t channels, std::int64_t levels)
    : channels_(channels), levels_(levels) {
  if (channels < 1 || levels < 1)
    throw Error("ShapeMismatch", "LevelEmbedding needs at least 1 channel and 1 level, got " +
                                     std::to_string(channels) + " and " + std::to_string(levels));
  reset();
}

void LevelEmbeddingImpl::reset() { weight = register_parameter("weight", initial({channels_, levels_})); }

torch::Tensor LevelEmbeddingImpl::forward(torch::Tensor const& x) {
  check_field("LevelEmbedding", x, 5, channels_);
  if (x.dim() != 5 || x.size(2) != levels_)
    throw Error("ShapeMismatch", "LevelEmbedding has " + std::to_string(levels_) + " levels, got " +
                                     std::to_string(x.size(2)) + " along axis 2 of " + std::to_string(x.dim()));
  return x + weight.to(x.scalar_type()).unsqueeze(-1).unsqueeze(-1);
}

TimeEmbeddingImpl::TimeEmbeddingImpl(TimeEmbeddingOptions given) : options(std::move(given)) {
  bool good = !options.periods.empty();
  for (double const period : options.periods) good = good && period > 0 && std::isfinite(period);
  if (!good)
    throw Error("BadOption",
                "TimeEmbedding of " + std::to_string(options.periods.size()) + " periods, which must be positive");
  reset();
}

void TimeEmbeddingImpl::reset() {
  periods_ = std::make_shared<detail::Constant const>(torch::tensor(options.periods, torch::kDouble));
  hidden = register_module("hidden", torch::nn::Linear(2 * std::int64_t(options.periods.size()), options.hidden));
  out = register_module("out", torch::nn::Linear(options.hidden, options.channels));
}

torch::Tensor TimeEmbeddingImpl::forward(torch::Tensor const& x, torch::Tensor const& times) {
  check_field("TimeEmbedding", x, 4, options.channels);
  if (!times.defined() || times.dim() != 1 || times.size(0) != x.size(0))
    throw Error("ShapeMismatch", "TimeEmbedding takes one time for each of " + std::to_string(x.size(0)) + " samples");
  // Phases in f64: hours since 1900 leave f32 no minutes.
  auto const periods = periods_->on(times.device());
  auto const phases = (times.to(torch::kDouble).unsqueeze(-1) / periods).frac() * (2 * std::numbers::pi);
  auto const features = torch::cat({phases.sin(), phases.cos()}, -1).to(x.device(), hidden->weight.scalar_type());
  auto values = out(torch::silu(hidden(features))).to(x.scalar_type());
  while (values.dim() < x.dim()) values = values.unsqueeze(-1);
  return x + values;
}

}  // namespace graticule::nn
