// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_pixel_shuffle {

using test::owner_cuts;
using test::Part;
using test::random_field_cuts;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;

Cuts times(Cuts const& cuts, Index factor) {
  auto sizes = cuts.sizes();
  for (auto& size : sizes) size *= factor;
  return Cuts(sizes);
}

TEST(PixelShuffle, and_unshuffle_equal_serial) {
  std::mt19937 random(3);
  Index const num_rows = 5;
  Index const num_columns = 4;
  for (auto const& domain : test::domains())
    for (std::int64_t const r : {1, 2, 3}) {
      auto const coarse = random_field_cuts(domain, random, {num_rows, num_columns});
      auto const fine = random_field_cuts(domain, random, {num_rows * r, num_columns * r});
      auto const middle = [&](Index o) { return o * r + (r - 1) / 2; };
      Part const shuffled(domain, times(coarse.rows, r), times(coarse.columns, r));
      Part const unshuffled(domain, owner_cuts(fine.rows, num_rows, middle),
                            owner_cuts(fine.columns, num_columns, middle));
      auto const name = "factor " + std::to_string(r) + " on " + to_string(domain.grid());

      SerialComparison{.name = name,
                       .layer = nn::PixelShuffle(torch::nn::PixelShuffleOptions(r), domain),
                       .oracle = [&](torch::Tensor const& x) { return torch::pixel_shuffle(x, r); },
                       .input = Part(domain, coarse),
                       .output = [&](torch::Tensor const&) { return shuffled; },
                       .tolerance = {.output = 0, .gradient = 0}}
          .expect_equal(random_tensor(random, {2, 2 * r * r, num_rows, num_columns}), random);
      SerialComparison{.name = "back, " + name,
                       .layer = nn::PixelUnshuffle(torch::nn::PixelUnshuffleOptions(r), domain),
                       .oracle = [&](torch::Tensor const& y) { return torch::pixel_unshuffle(y, r); },
                       .input = Part(domain, fine),
                       .output = [&](torch::Tensor const&) { return unshuffled; },
                       .tolerance = {.output = 0, .gradient = 0}}
          .expect_equal(random_tensor(random, {2, num_rows * r, num_columns * r}), random);
    }
}

TEST(PixelShuffle, and_unshuffle_refuse_by_name_on_all_ranks) {
  auto const domain = test::domains().front();
  nn::PixelShuffle shuffle(torch::nn::PixelShuffleOptions(2), domain);
  nn::PixelUnshuffle unshuffle(torch::nn::PixelUnshuffleOptions(2), domain);

  EXPECT_EQ(rule_of([&] { shuffle(torch::ones({6, 2, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { shuffle(torch::ones({2, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { unshuffle(torch::ones({4, 3, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { nn::PixelShuffle(torch::nn::PixelShuffleOptions(0), domain); }), "BadOption");
  EXPECT_EQ(rule_of([&] { shuffle(torch::ones({4, 2, 2})); }), "nothing was thrown");
}

}  // namespace test_pixel_shuffle
}  // namespace graticule
