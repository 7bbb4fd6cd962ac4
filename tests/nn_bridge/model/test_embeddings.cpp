// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/model/embeddings.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace graticule {
namespace test_embeddings {

using test::difference;
using test::domains;
using test::Part;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using torch::Tensor;

TEST(PositionEmbedding, adds_the_slice_of_a_serial_parameter_whose_gradients_are_partial_sums) {
  std::mt19937 random(1);
  for (auto const& domain : domains())
    for (auto const& options : std::vector<nn::PositionEmbeddingOptions>{{3, 7, 6}, {3, 7, 1}, {3, 1, 6}, {3, 1, 1}})
      for (bool const levels : {false, true}) {
        auto const sizes = levels ? std::vector<std::int64_t>{2, 3, 4, 7, 6} : std::vector<std::int64_t>{2, 3, 7, 6};
        nn::PositionEmbedding layer(options, domain);
        layer->to(torch::kDouble);
        test::randomize(*layer, random);
        auto const weight = test::leaf_of(layer->weight);

        SerialComparison{
            .name = std::to_string(options.rows) + " x " + std::to_string(options.columns) + (levels ? ", levels" : ""),
            .layer = layer,
            .oracle = [&](Tensor const& x) { return x + (levels ? weight.unsqueeze(1) : weight); },
            .input = random_part(domain, random, {7, 6}),
            .module = layer.ptr(),
            .parameters = {{"weight", weight}},
            .tolerance = {.output = 0, .gradient = 0, .parameters = 1e-13}}
            .expect_equal(random_tensor(random, sizes), random);

        EXPECT_EQ(layer->weight.sizes(), (std::vector<std::int64_t>{3, options.rows, options.columns}));
      }
}

TEST(CoordinateFeatures, are_waves_at_the_global_coordinates) {
  std::mt19937 random(2);
  std::vector<double> const latitudes{90, 45, 0, -30, -90};
  std::vector<double> const longitudes{0, 60, 120, 180, 240, 300};
  for (auto const& domain : domains()) {
    auto const part = random_part(domain, random, {5, 6});
    nn::CoordinateFeatures layer(nn::CoordinateFeaturesOptions{latitudes, longitudes, 2}, domain);
    auto const x = random_tensor(random, {2, 3, 5, 6});
    auto shard = part.of(x).clone().requires_grad_();

    auto const found = layer(shard);
    found.square().sum().backward();

    ASSERT_EQ(found.size(1), 3 + 8);
    EXPECT_TRUE(torch::equal(found.narrow(1, 0, 3), shard));
    EXPECT_LE(difference(shard.grad(), 2 * part.of(x)), 1e-15);
    for (Index i = 0; i < part.num_rows; ++i)
      for (Index j = 0; j < part.num_columns; ++j) {
        double const lat = latitudes[std::size_t(part.row + i)] * std::numbers::pi / 180;
        double const lon = longitudes[std::size_t(part.column + j)] * std::numbers::pi / 180;
        auto const cell = found.detach().select(-1, j).select(-1, i)[1].narrow(0, 3, 8).contiguous();
        for (int k = 1; k <= 2; ++k) {
          std::vector<double> const expected{std::sin(k * lat), std::cos(k * lat), std::cos(lat) * std::sin(k * lon),
                                             std::cos(lat) * std::cos(k * lon)};
          for (int f = 0; f < 4; ++f)
            EXPECT_NEAR(cell[4 * (k - 1) + f].item<double>(), expected[std::size_t(f)], 1e-15);
        }
      }
  }
}

TEST(CoordinateFeatures, serve_levels_and_single_precision) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Part const part(domain, balanced_cuts(3, comm.num_ranks()), Cuts{2});
  nn::CoordinateFeatures layer(nn::CoordinateFeaturesOptions{{60, 0, -60}, {0, 90}, 1}, domain);

  auto const found = layer(torch::zeros({1, 2, 4, part.num_rows, 2}));

  EXPECT_EQ(found.sizes(), (std::vector<std::int64_t>{1, 6, 4, part.num_rows, 2}));
  EXPECT_EQ(found.scalar_type(), torch::kFloat);
  for (Index i = 0; i < part.num_rows; ++i) {
    auto const lat = (60.0 - 60.0 * double(part.row + i)) * std::numbers::pi / 180;
    for (int level = 0; level < 4; ++level) EXPECT_NEAR(found[0][4][level][i][1].item<double>(), std::cos(lat), 1e-7);
  }
}

TEST(LevelEmbedding, adds_a_number_for_each_channel_and_level) {
  nn::LevelEmbedding layer(3, 4);
  auto const x = torch::rand({2, 3, 4, 1, 5});

  auto const found = layer(x);
  found.sum().backward();

  EXPECT_TRUE(torch::equal(found, x + layer->weight.view({3, 4, 1, 1})));
  EXPECT_TRUE(torch::equal(layer->weight.grad(), torch::full({3, 4}, 10.0)));
}

TEST(TimeEmbedding, is_periodic_and_keeps_the_minutes_of_late_times) {
  nn::TimeEmbedding layer(nn::TimeEmbeddingOptions{.channels = 3, .periods = {24, 8766}});
  layer->to(torch::kDouble);
  auto const x = torch::zeros({2, 3, 2, 2}, torch::kDouble);
  auto const at = [&](double hours) { return layer(x, torch::full({2}, hours, torch::kDouble)); };
  // A matrix product owes no sample the bits that it gives in another row, in another batch or at another address.
  // Hours of 1e6 know their phase in a day to 1e-10.
  double const rounding = 1e-9;

  EXPECT_LE(difference(at(5), at(5)), rounding);
  EXPECT_LE(difference(at(1e6 + 24 * 8766.0), at(1e6)), rounding);
  EXPECT_GT(difference(at(1e6), at(1e6 + 6)), 1e-3);
  EXPECT_GT(difference(at(1e6), at(1e6 + 1.0 / 60)), 1e-7);
  auto const each = layer(x, torch::tensor({0.0, 12.0}, torch::kDouble));
  EXPECT_LE(difference(each[0], at(0)[0]), rounding);
  EXPECT_LE(difference(each[1], at(12)[0]), rounding);
  EXPECT_TRUE((each == each.select(-1, 0).select(-1, 0).unsqueeze(-1).unsqueeze(-1)).all().item<bool>());
}

TEST(Embeddings, refuse_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == 0;
  auto const x = torch::ones({1, 2, 1, 4});
  auto const rows = std::int64_t(comm.num_ranks());
  auto const position = [&](nn::PositionEmbeddingOptions options) { return nn::PositionEmbedding(options, domain); };
  auto const features = [&](std::vector<double> const& latitudes, std::vector<double> const& longitudes) {
    return nn::CoordinateFeatures(nn::CoordinateFeaturesOptions{latitudes, longitudes, 1}, domain);
  };
  double const nan = std::numeric_limits<double>::quiet_NaN();

  EXPECT_EQ(rule_of([&] { position({3, rows, 4})(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { position({2, rows + 1, 4})(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { position({2, rows, 4})(odd_one ? x[0] : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { position({0, 1, 1}); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { features({1, 2}, {})(x); }), (test::ErrorWith{"ShapeMismatch", "2 latitudes"}));
  EXPECT_EQ(rule_of([&] { features({100}, {0}); }), "BadCoordinates");
  EXPECT_EQ(rule_of([&] { features({nan}, {0}); }), "BadCoordinates");
  EXPECT_EQ(rule_of([&] { nn::LevelEmbedding(2, 3)(torch::ones({1, 2, 4, 1, 1})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { nn::TimeEmbedding(nn::TimeEmbeddingOptions{.periods = {}}); }), "BadOption");
  EXPECT_EQ(rule_of([&] { nn::TimeEmbedding(nn::TimeEmbeddingOptions{.periods = {1}})(x, x); }), "ShapeMismatch");
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule_of([&] { features({odd_one ? 1.0 : 2.0}, {0}); }), "StructureDisagreement");
  }
  EXPECT_EQ(position({2, rows, 4})(x).dim(), 4);
}

}  // namespace test_embeddings
}  // namespace graticule
