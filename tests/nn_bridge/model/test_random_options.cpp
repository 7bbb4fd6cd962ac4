// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/model/random_options.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace graticule {
namespace test_random_options {

using nn::RandomOptions;
using test::bands;
using test::world;
using torch::Tensor;

/// What a layer leaves of 4 samples of ones, half of which it drops.
Tensor kept_by(nn::Dropout& layer) { return layer(torch::ones({4, 3, 2, 8})); }

/// By the first call of a layer in a new domain.
Tensor kept_with(RandomOptions const& options) {
  auto const domain = bands(world());
  nn::Dropout layer(torch::nn::DropoutOptions(0.5), options, domain);
  return kept_by(layer);
}

TEST(RandomOptions, choose_the_mask_by_seed_and_number_of_the_layer) {
  auto const mask = kept_with({.seed = 1, .layer = 7});

  EXPECT_GT((mask == 0).sum().item<std::int64_t>(), 0);
  EXPECT_GT((mask != 0).sum().item<std::int64_t>(), 0);
  EXPECT_TRUE(torch::equal(kept_with({.seed = 1, .layer = 7}), mask));
  EXPECT_FALSE(torch::equal(kept_with({.seed = 2, .layer = 7}), mask));
  EXPECT_FALSE(torch::equal(kept_with({.seed = std::uint64_t(1) << 32U | 1U, .layer = 7}), mask));
  EXPECT_FALSE(torch::equal(kept_with({.seed = 1, .layer = 8}), mask));
}

TEST(RandomOptions, number_layers_in_the_order_of_their_construction_by_default) {
  auto const masks = [] {
    auto const domain = bands(world());
    nn::Dropout first(torch::nn::DropoutOptions(0.5), RandomOptions{.seed = 1}, domain);
    nn::Dropout second(torch::nn::DropoutOptions(0.5), RandomOptions{.seed = 1}, domain);
    auto const by_first = kept_by(first);
    // Not the number of the call makes the difference.
    domain.set_num_draws(0);
    return std::pair(by_first, kept_by(second));
  };

  auto const [first, second] = masks();
  auto const [first_again, second_again] = masks();

  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_TRUE(torch::equal(first_again, first));
  EXPECT_TRUE(torch::equal(second_again, second));
}

TEST(RandomOptions, count_samples_from_the_first_one_of_the_rank) {
  auto const from_0 = kept_with({.seed = 1, .layer = 7});
  auto const from_1 = kept_with({.seed = 1, .layer = 7, .first_sample = 1});

  EXPECT_TRUE(torch::equal(from_1.narrow(0, 0, 3), from_0.narrow(0, 1, 3)));
  EXPECT_FALSE(torch::equal(from_1.narrow(0, 0, 3), from_0.narrow(0, 0, 3)));
}

}  // namespace test_random_options
}  // namespace graticule
