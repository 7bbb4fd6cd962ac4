// SPDX-License-Identifier: BSD-3-Clause
// One step by the stepper against the formulas, cell by cell.
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/detail/stepper.hpp>
#include <graticule/partition/cuts.hpp>

#include "fields_on.hpp"
#include "globe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

namespace graticule::models {
namespace test_stepper {

using torch::Tensor;

constexpr Index num_rows = 8;
constexpr Index num_columns = 16;
constexpr Index num_samples = 2;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// u, of a vector, and t; z is diagnostic.
Description description() {
  Description d;
  for (char const* const name : {"u", "t", "z"}) {
    StateChannel channel;
    channel.label = channel.variable = channel.info.name = name;
    d.channels.push_back(channel);
  }
  d.channels[0].info.component = Component::eastward;
  d.channels[0].info.parity = Parity::odd;
  d.channels[2].role = Role::diagnostic;
  d.values = {{0, 10}, {280, 20}, {0, 1}};
  d.tendencies = {{0.5, 2}, {-1, 4}};
  d.east_scales = {1e-5, 2e-5};
  d.north_scales = {3e-5, 4e-5};
  d.features = {Feature::value, Feature::east, Feature::north};
  d.history = 2;
  d.forcings = {"time_of_year"};
  d.row_functions = {"sin_latitude"};
  d.statics = {{"orography", {400, 800}}};
  d.width = 6;
  d.blocks = 1;
  d.dtype = DType::f64;
  auto const grid = test::globe(num_rows, num_columns);
  d.latitudes = grid.latitudes;
  d.longitudes = grid.longitudes;
  return d;
}

/// A normalised state at the present (0) or a lead before; missing in one cell.
double state_at(Index sample, Index time, Index channel, Index row, Index column) {
  if (channel == 1 && row == 2 && column == 3) return nan;
  return std::sin(double(sample) + 2.0 * double(time) + double(channel) + 0.3 * double(row * row) +
                  0.2 * double(column * (row + 1)));
}

/// The present one where missing values are 0, also beyond the edges: there half a turn on, u with the other sign.
double present_at(Index sample, Index channel, Index row, Index column) {
  double sign = 1;
  if (row < 0 || row >= num_rows) {
    row = row < 0 ? -1 - row : 2 * num_rows - 1 - row;
    column += num_columns / 2;
    sign = channel == 0 ? -1 : 1;
  }
  double const value = state_at(sample, 0, channel, row, (column + num_columns) % num_columns);
  return std::isnan(value) ? 0 : sign * value;
}

double static_at(Index row, Index column) { return row == 7 && column == 0 ? nan : double(100 * row + column); }
double forcing_at(Index sample, Index channel, Index row) { return double(sample + 3 * channel) + 0.1 * double(row); }
double output_at(Index sample, Index channel, Index row, Index column) {
  return std::cos(double(sample + channel) + 0.1 * double(row * column));
}

/// The third rank has no rows.
Cuts row_cuts(int num_ranks) {
  std::vector<Index> rows(std::size_t(num_ranks), 0);
  rows[0] = num_ranks == 1 ? num_rows : 3;
  if (num_ranks > 1) rows[1] = num_rows - 3;
  return Cuts(rows);
}

class StepperOnRanks : public testing::Test {
 protected:
  [[nodiscard]] Stepper stepper(Description const& d) const {
    return {d, cells_, domain_, {statics(1)}, {statics(-1)}};
  }
  /// Of this rank, in units; the mirror image's are those with the other sign.
  [[nodiscard]] std::vector<double> statics(double sign) const {
    std::vector<double> values;
    for_each_cell([&](Index i, Index j) { values.push_back(sign * static_at(i, j)); });
    return values;
  }
  template <class Visit>
  void for_each_cell(Visit const& visit) const {
    for (Index i = box_.lo(0); i < box_.hi(0); ++i)
      for (Index j = box_.lo(1); j < box_.hi(1); ++j) visit(i, j);
  }
  /// [sample][channel][row][column] of this rank: value(sample, channel, row, column).
  template <class Value>
  [[nodiscard]] Tensor fields(Index num_channels, Value const& value) const {
    std::vector<Tensor> samples;
    for (Index s = 0; s < num_samples; ++s)
      samples.push_back(
          test::fields_on(box_, num_channels, [&](Index c, Index i, Index j) { return value(s, c, i, j); }));
    return torch::cat(samples);
  }
  /// [sample][time][channel][row][column].
  [[nodiscard]] Tensor states() const {
    auto const at = [&](Index time) {
      return fields(3, [&](Index s, Index c, Index i, Index j) { return state_at(s, time, c, i, j); });
    };
    return torch::stack({at(0), at(1)}, 1);
  }
  [[nodiscard]] Tensor forcings() const {
    return fields(2, [](Index s, Index c, Index i, Index) { return forcing_at(s, c, i); });
  }
  [[nodiscard]] Tensor output() const { return fields(3, output_at); }

  Comm comm_ = Comm::world();
  Grid grid_ = test::globe(num_rows, num_columns);
  Layout layout_{ProcessGrid{comm_.num_ranks(), 1}, {row_cuts(comm_.num_ranks()), balanced_cuts(num_columns, 1)}};
  Box box_ = layout_.owned(comm_.rank());
  std::vector<double> weights_ = area_weights(grid_.latitudes);
  Cells cells_{grid_, layout_, box_, weights_};
  nn::Domain domain_{comm_, ProcessGrid{comm_.num_ranks(), 1}, grid_.boundary};
};

/// Derivative in units of its scale: differences of two cells by their distance in metres.
double east_of(Index s, Index c, Index i, Index j, Description const& d) {
  double const degree_m = std::numbers::pi * 6371e3 / 180;
  double const cosine = std::cos(d.latitudes[std::size_t(i)] * std::numbers::pi / 180);
  // Not less than a quarter of the distance of two rows.
  double const metres = std::max(2 * 22.5 * cosine, 2 * 22.5 / 4) * degree_m;
  return (present_at(s, c, i, j + 1) - present_at(s, c, i, j - 1)) * d.values[std::size_t(c)].scale / metres /
         d.east_scales[std::size_t(c)];
}
double north_of(Index s, Index c, Index i, Index j, Description const& d) {
  double const degree_m = std::numbers::pi * 6371e3 / 180;
  return (present_at(s, c, i + 1, j) - present_at(s, c, i - 1, j)) * d.values[std::size_t(c)].scale /
         (-2 * 22.5 * degree_m) / d.north_scales[std::size_t(c)];
}

TEST_F(StepperOnRanks, states_hold_the_present_then_earlier_times_then_what_is_diagnostic) {
  auto const d = description();
  auto const steps = stepper(d);

  auto const state = steps.initial(states());
  auto const mask = steps.mask(states());

  ASSERT_EQ(state.sizes(), (std::vector<std::int64_t>{num_samples, 5, box_.extent(0), num_columns}));
  ASSERT_EQ(mask.sizes(), (std::vector<std::int64_t>{num_samples, 2, box_.extent(0), num_columns}));
  auto const expected = fields(5, [](Index s, Index c, Index i, Index j) {
    double const value = c < 4 ? state_at(s, c / 2, c % 2, i, j) : 0;
    return std::isnan(value) ? 0 : value;
  });
  auto const has_value =
      fields(2, [](Index s, Index c, Index i, Index j) { return std::isnan(state_at(s, 0, c, i, j)) ? 0.0 : 1.0; });
  EXPECT_TRUE(torch::equal(state, expected));
  EXPECT_TRUE(torch::equal(mask, has_value));
  EXPECT_TRUE(torch::equal(steps.present(state), torch::cat({expected.narrow(1, 0, 2), expected.narrow(1, 4, 1)}, 1)));
}

TEST_F(StepperOnRanks, shows_the_network_features_changes_forcings_and_static_fields) {
  auto const d = description();
  auto steps = stepper(d);
  auto const state = steps.initial(states());
  Tensor inputs;
  Tensor rows;
  auto const network = [&](Tensor const& in, Tensor const& functions) {
    inputs = in;
    rows = functions;
    return output();
  };

  (void)steps.next(network, state, forcings(), steps.mask(states()), {false, true});

  auto const expected = fields(11, [&](Index s, Index c, Index i, Index j) {
    Index const of = c % 2;
    auto const scale = d.values[std::size_t(of)].scale / d.tendencies[std::size_t(of)].scale;
    double const before = state_at(s, 1, of, i, j);
    double const terrain = static_at(i, j);
    if (c < 2) return present_at(s, of, i, j);
    if (c < 4) return east_of(s, of, i, j, d);
    if (c < 6) return north_of(s, of, i, j, d);
    if (c < 8) return (present_at(s, of, i, j) - (std::isnan(before) ? 0 : before)) * scale;
    if (c < 10) return forcing_at(s, of, i);
    // The second sample is a mirror image.
    return std::isnan(terrain) ? 0 : ((s == 1 ? -terrain : terrain) - 400) / 800;
  });
  EXPECT_TRUE(torch::allclose(inputs, expected, 1e-12, 1e-12));
  auto const sine = normalised_rows("sin_latitude", grid_, weights_);
  ASSERT_EQ(rows.sizes(), (std::vector<std::int64_t>{box_.extent(0), 1}));
  for (Index i = box_.lo(0); i < box_.hi(0); ++i)
    EXPECT_EQ(rows[i - box_.lo(0)][0].item<double>(), sine[std::size_t(i)]);
}

TEST_F(StepperOnRanks, adds_tendencies_or_takes_states_and_keeps_missing_cells_at_0) {
  for (auto const predict : {Predict::tendency, Predict::state}) {
    auto d = description();
    d.predict = predict;
    auto steps = stepper(d);
    auto const state = steps.initial(states());

    auto const next = steps.next([&](Tensor const&, Tensor const&) { return output(); }, state, forcings(),
                                 steps.mask(states()), {false, false});

    auto const expected = fields(5, [&](Index s, Index c, Index i, Index j) {
      if (c == 4) return output_at(s, 2, i, j);
      auto const of = std::size_t(c % 2);
      double const now = present_at(s, c % 2, i, j);
      if (c >= 2) return now;
      if (std::isnan(state_at(s, 0, c, i, j))) return 0.0;
      double const out = output_at(s, c, i, j);
      if (predict == Predict::state) return out;
      // In units: value + tendency, of which the network gives (tendency - mean) / scale.
      return now + (out * d.tendencies[of].scale + d.tendencies[of].mean) / d.values[of].scale;
    });
    EXPECT_TRUE(torch::allclose(next, expected, 1e-13, 1e-13)) << int(predict);
  }
}

TEST_F(StepperOnRanks, has_derivatives_that_cross_ranks_and_poles) {
  auto steps = stepper(description());
  auto const mask = steps.mask(states());
  // Derivatives of u and t, and u itself, of the inputs.
  auto const network = [](Tensor const& in, Tensor const&) {
    return torch::stack({in.select(1, 2), in.select(1, 5), in.select(1, 0)}, 1);
  };
  auto const after = [&](Tensor const& state) { return steps.next(network, state, forcings(), mask, {false, false}); };
  auto const some = [&](double phase) {
    return fields(5, [&](Index s, Index c, Index i, Index j) {
      return std::sin(phase + double(s + 2 * c) + 0.7 * double(i * j));
    });
  };
  auto const state = some(1).requires_grad_();
  auto const direction = some(2);
  auto const cotangent = some(3);

  (after(state) * cotangent).sum().backward();

  torch::NoGradGuard const no_grad;
  // A step is linear in the state but for a constant.
  auto const change = after(state + direction) - after(state);
  std::vector<double> products{(change * cotangent).sum().item<double>(),
                               (direction * state.grad()).sum().item<double>()};
  comm_.sum(products);
  EXPECT_NEAR(products[0], products[1], 1e-9 * std::abs(products[0]));
  EXPECT_GT(std::abs(products[0]), 1e-3);
}

TEST_F(StepperOnRanks, says_what_builds_the_network) {
  auto const d = description();
  auto const steps = stepper(d);

  auto const options = steps.model_options();

  EXPECT_EQ(options.kind, ModelKind::convnet);
  EXPECT_EQ(options.num_inputs, 11);
  EXPECT_EQ(options.num_statics, 1);
  EXPECT_EQ(options.num_outputs, 3);
  EXPECT_EQ(options.channels, 6);
  EXPECT_EQ(options.blocks, 1);
  EXPECT_EQ(options.kernel, 3);
  // u, the derivatives of t, and the change of u.
  EXPECT_EQ(options.odd_channels, (std::vector<std::int64_t>{0, 3, 5, 6}));
  EXPECT_EQ(options.latitudes, d.latitudes);
  EXPECT_EQ(options.num_columns, num_columns);
  EXPECT_EQ(options.input_names.at(3), "d/dx t");
  EXPECT_EQ(options.static_names, (std::vector<std::string>{"sin_latitude"}));
  EXPECT_EQ(options.output_names, (std::vector<std::string>{"u", "t", "z"}));
  EXPECT_EQ(steps.dtype(), torch::kFloat64);
  EXPECT_TRUE(torch::equal(steps.error_factors().flatten(), torch::tensor({5.0, 5.0, 1.0}, torch::kFloat64)));
}

}  // namespace test_stepper
}  // namespace graticule::models
