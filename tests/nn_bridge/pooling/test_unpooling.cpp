// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/pooling/layers.hpp>
#include <graticule/nn_bridge/pooling/unpooling.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <type_traits>

namespace graticule {
namespace test_unpooling {

using test::domains;
using test::draw;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
using Sizes = std::vector<std::int64_t>;

template <std::size_t D>
struct Layers;
template <>
struct Layers<1> {
  using Unpool = nn::MaxUnpool1d;
  using Pool = nn::MaxPool1d;
  using SerialPool = torch::nn::MaxPool1d;
};
template <>
struct Layers<2> {
  using Unpool = nn::MaxUnpool2d;
  using Pool = nn::MaxPool2d;
  using SerialPool = torch::nn::MaxPool2d;
};
template <>
struct Layers<3> {
  using Unpool = nn::MaxUnpool3d;
  using Pool = nn::MaxPool3d;
  using SerialPool = torch::nn::MaxPool3d;
};

/// Sizes are those of levels (if any), rows and columns (if any).
struct Case {
  Sizes extent, kernel, stride, padding;
  bool batched = true;
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << c.extent << " kernel " << c.kernel << " stride " << c.stride << " padding " << c.padding;
  return text.str();
}

template <std::size_t D>
torch::nn::MaxPoolOptions<D> pool_options(Case const& c) {
  using Array = torch::ExpandingArray<D>;
  return torch::nn::MaxPoolOptions<D>(Array(c.kernel)).stride(Array(c.stride)).padding(Array(c.padding));
}

template <std::size_t D>
torch::nn::MaxUnpoolOptions<D> unpool_options(Case const& c) {
  using Array = torch::ExpandingArray<D>;
  return torch::nn::MaxUnpoolOptions<D>(Array(c.kernel)).stride(Array(c.stride)).padding(Array(c.padding));
}

/// LibTorch's kernels; its modules take output sizes of batched tensors only.
template <std::size_t D>
torch::Tensor serial(Case const& c, torch::Tensor const& maxima, torch::Tensor const& indices) {
  auto const x = c.batched ? maxima : maxima.unsqueeze(0);
  auto const i = c.batched ? indices : indices.unsqueeze(0);
  torch::Tensor y;
  if (D == 1)
    y = at::max_unpool2d(x.unsqueeze(-1), i.unsqueeze(-1), {c.extent[0], 1}).squeeze(-1);
  else if (D == 2)
    y = at::max_unpool2d(x, i, c.extent);
  else
    y = at::max_unpool3d(x, i, c.extent, c.stride, c.padding);
  return c.batched ? y : y.squeeze(0);
}

/// @param like to random cuts, also of sizes that other sizes are pooled to as well
template <std::size_t D>
void expect_serial(nn::Domain const& domain, Case const& c, bool like, std::mt19937& random) {
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), 3);
  if (c.batched) sizes.insert(sizes.begin(), 2);
  auto const field = random_tensor(random, sizes);
  auto const [maxima, indices] = typename Layers<D>::SerialPool(pool_options<D>(c))->forward_with_indices(field);
  // Windows that overlap may put two values in one place; then all put the same.
  auto const x = field.flatten(-std::int64_t(D)).gather(-1, indices.flatten(-std::int64_t(D))).view(maxima.sizes()) * 2;
  auto const cuts = test::random_field_cuts(domain, random, maxima.sizes().slice(maxima.sizes().size() - D));
  // By the rule in the header.
  auto const input_of = [&](std::size_t a, Index o) {
    return Index(std::floor(double(o + c.padding[a] - (c.kernel[a] - 1) / 2) / double(c.stride[a])));
  };
  auto const out_cuts =
      like ? test::random_field_cuts(domain, random, c.extent) : test::owner_cuts(cuts, field, D, input_of);
  Shard const input({domain, cuts}, D);
  Shard const output({domain, out_cuts}, D);
  typename Layers<D>::Unpool layer(unpool_options<D>(c), domain);
  auto const own_indices = input.of(indices);

  SerialComparison{.name = to_text(c) + (like ? " like another on " : " on ") + to_string(domain.grid()),
                   .layer =
                       [&](torch::Tensor const& t) {
                         return like ? layer->forward_like(t, own_indices, output.of(field))
                                     : layer->forward(t, own_indices);
                       },
                   .oracle = [&, &places = indices](torch::Tensor const& t) { return serial<D>(c, t, places); },
                   .input = input,
                   .output = [&](torch::Tensor const&) { return output; },
                   .tolerance = {.output = 0, .gradient = 1e-14}}
      .expect_equal(x, random);
}

/// @param whole the windows fit, so that the size before pooling is the usual size after unpooling
template <std::size_t D>
Case random_case(std::mt19937& random, bool whole) {
  Case c;
  for (std::size_t a = 0; a < D; ++a) {
    c.kernel.push_back(draw(random, 1, 3));
    c.stride.push_back(draw(random, 1, 3));
    c.padding.push_back(draw(random, 0, c.kernel[a] / 2));
    auto const usual = (draw(random, 2, D == 3 ? 3 : 6) - 1) * c.stride[a] + c.kernel[a] - 2 * c.padding[a];
    c.extent.push_back(usual + (whole ? 0 : draw(random, 0, c.stride[a] - 1)));
  }
  c.batched = draw(random, 0, 3) > 0;
  return c;
}

template <class D>
class MaxUnpool : public testing::Test {};
using Dimensions = testing::Types<std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 2>,
                                  std::integral_constant<std::size_t, 3>>;
TYPED_TEST_SUITE(MaxUnpool, Dimensions);

TYPED_TEST(MaxUnpool, equals_serial_for_random_cuts_and_windows) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(1);
  auto const grids = domains(Boundary::sphere(Edge::pole_face), num_axes);
  for (int repeat = 0; repeat < 24; ++repeat) {
    auto const& domain = grids[std::size_t(repeat) % grids.size()];
    expect_serial<num_axes>(domain, random_case<num_axes>(random, true), false, random);
    expect_serial<num_axes>(domain, random_case<num_axes>(random, false), true, random);
  }
}

TEST(MaxUnpool2d, undoes_a_sharded_pooling_twice_differentiably) {
  std::mt19937 random(2);
  for (auto const& domain : domains()) {
    auto const part = test::random_part(domain, random, {7, 6});
    auto const x = random_tensor(random, {1, 2, 7, 6});
    nn::MaxPool2d pool(torch::nn::MaxPool2dOptions(2), domain);
    nn::MaxUnpool2d unpool(torch::nn::MaxUnpool2dOptions(2), domain);
    auto const [maxima, indices] = torch::max_pool2d_with_indices(x, {2, 2});
    auto const expected = at::max_unpool2d(maxima, indices, {7, 6});

    auto const [found_maxima, found_indices] = pool->forward_with_indices(part.of(x));
    auto const found = unpool->forward_like(found_maxima, found_indices, part.of(x));
    auto const errors = test::gradient_errors(
        {.function = [&](auto const& t) { return unpool->forward_like(t, found_indices, part.of(x)).pow(3); }},
        found_maxima, domain.comm());

    EXPECT_TRUE(torch::equal(found, part.of(expected)));
    EXPECT_LE(errors.first, 1e-6);
    EXPECT_LE(errors.second, 1e-6);
  }
}

TEST(MaxUnpool2d, refuses_by_name_on_all_ranks) {
  auto const domain = domains().front();
  nn::MaxUnpool2d layer(torch::nn::MaxUnpool2dOptions(2), domain);
  auto const columns = 4 * domain.grid().extent(1);
  auto const x = torch::ones({1, 1, 1, 2});
  auto const first = 4 * domain.longitude_part();
  auto const good = torch::tensor({{{{first, first + 2}}}}, torch::kLong);
  // One index, on one rank.
  auto const bad = domain.comm().rank() == 0 ? torch::tensor({{{{first + 2, first + 2}}}}, torch::kLong) : good;

  EXPECT_EQ(rule_of([&] { layer->forward(x, good); }), "nothing was thrown");
  EXPECT_EQ(rule_of([&] { layer->forward(x, bad); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { layer->forward(x, good - 2 * columns); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { layer->forward(x, good.to(torch::kInt)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { layer->forward(x, good.narrow(-1, 0, 1)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              layer->forward_like(x, good, torch::ones({1, 1, 5, 4}));
            }),
            (test::ErrorWith{"BadOption", "less or more by a stride"}));
  EXPECT_EQ(rule_of([&] { layer->forward_like(x, good, torch::ones({1, 2, 4})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { nn::MaxUnpool2d(torch::nn::MaxUnpool2dOptions(0), domain); }),
            (test::ErrorWith{"BadOption", "got kernel 0"}));
}

}  // namespace test_unpooling
}  // namespace graticule
