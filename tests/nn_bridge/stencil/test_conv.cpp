// SPDX-License-Identifier: BSD-3-Clause
// What convolutions over one, two and three axes have in common.
#include <graticule/nn_bridge/stencil/conv.hpp>
#include <graticule/nn_bridge/stencil/conv1d.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/conv3d.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace graticule {
namespace test_conv {

using test::bands;
using test::over_ranks;
using test::Part;
using test::rule_of;
using test::world;
using torch::Tensor;

/// Along the rows; the other axes have windows of one cell.
struct Window {
  std::int64_t kernel, stride, padding, dilation;
};

template <std::size_t D>
torch::nn::ConvOptions<D> options_of(Window const& window) {
  constexpr std::size_t row = D == 3 ? 1 : 0;
  auto const along_rows = [](std::int64_t value, std::int64_t other) {
    std::vector<std::int64_t> values(D, other);
    values[row] = value;
    return torch::ExpandingArray<D>(at::IntArrayRef(values));
  };
  return torch::nn::ConvOptions<D>(1, 1, along_rows(window.kernel, 1))
      .stride(along_rows(window.stride, 1))
      .padding(along_rows(window.padding, 0))
      .dilation(along_rows(window.dilation, 1));
}

/// Rows of the output that this rank has, given so many of the input.
template <class Layer, std::size_t D>
Index num_output_rows(Window const& window, Index num_rows, nn::Domain const& domain) {
  std::vector<std::int64_t> sizes{1, 1};
  if (D == 3) sizes.push_back(2);
  sizes.push_back(num_rows);
  if (D > 1) sizes.push_back(4);
  Layer layer(nn::ConvOptions<D>(options_of<D>(window)), domain);
  return layer(torch::ones(sizes)).size(D == 1 ? -1 : -2);
}

TEST(Conv, gives_a_row_to_the_owner_of_the_center_of_its_window) {
  struct Row {
    Window window;
    std::vector<Index> of_one, of_two, of_three;
  };
  // 8 rows on 1 rank, 3 and 5 on 2 ranks, 1, 0 and 7 on 3 ranks.
  std::vector<Row> const rows{{{3, 2, 1, 1}, {4}, {2, 2}, {1, 0, 3}},   // centers 0, 2, 4, 6
                              {{5, 1, 0, 1}, {4}, {1, 3}, {0, 0, 4}},   // 2 to 5
                              {{1, 3, 2, 1}, {4}, {2, 2}, {1, 0, 3}},   // -2, which counts as 0, 1, 4, 7
                              {{3, 1, 2, 2}, {8}, {3, 5}, {1, 0, 7}},   // the row itself
                              {{2, 1, 0, 1}, {7}, {3, 4}, {1, 0, 6}}};  // 0 to 6: the first of two
  auto const domain = bands(world());
  auto const rank = std::size_t(domain.comm().rank());
  int const num_ranks = domain.comm().num_ranks();
  // Further ranks have nothing.
  auto const of_rank = [&](std::vector<Index> const& one, std::vector<Index> const& two,
                           std::vector<Index> const& three) {
    auto const& all = num_ranks == 1 ? one : num_ranks == 2 ? two : three;
    return rank < all.size() ? all[rank] : 0;
  };
  Index const own = of_rank({8}, {3, 5}, {1, 0, 7});
  for (auto const& row : rows) {
    SCOPED_TRACE(testing::Message() << "kernel " << row.window.kernel << ", stride " << row.window.stride);
    Index const expected = of_rank(row.of_one, row.of_two, row.of_three);

    EXPECT_EQ((num_output_rows<nn::Conv1d, 1>(row.window, own, domain)), expected);
    EXPECT_EQ((num_output_rows<nn::Conv2d, 2>(row.window, own, domain)), expected);
    EXPECT_EQ((num_output_rows<nn::Conv3d, 3>(row.window, own, domain)), expected);
  }
}

/// The values of the row above, by a kernel of three rows.
template <class Layer, std::size_t D>
Tensor row_above(nn::ConvOptions<D> const& options, nn::Domain const& domain, Tensor const& shard) {
  Layer layer(options, domain);
  layer->to(torch::kDouble);
  torch::NoGradGuard const no_grad;
  layer->weight.zero_();
  layer->weight.view({-1})[0] = 1;
  layer->bias.zero_();
  return layer(shard);
}

TEST(Conv, reads_beyond_the_edge_by_mode_unless_it_is_told_to_cross_the_pole) {
  auto const domain = bands(world());
  Part const part(domain, balanced_cuts(4, domain.comm().num_ranks()), Cuts{4});
  auto const whole = torch::arange(1, 17, torch::kDouble).view({1, 1, 4, 4});
  auto const options = options_of<2>({3, 1, 1, 1});
  auto const expect_above_the_first = [&](nn::ConvOptions<2> const& given, Tensor const& line) {
    auto const expected = torch::cat({line.to(torch::kDouble).view({1, 1, 1, 4}), whole.narrow(2, 0, 3)}, 2);
    EXPECT_TRUE(
        torch::equal((row_above<nn::Conv2d, 2>(given, domain, part.of(whole).contiguous())), part.of(expected)));
  };
  nn::ConvOptions<2> const by_domain(options, nn::Padding::by_domain);
  nn::ConvOptions<2> odd = by_domain;
  odd.odd_channels = {0};
  auto circular = options;

  expect_above_the_first(options, torch::zeros({4}));
  expect_above_the_first(circular.padding_mode(torch::kCircular), torch::tensor({13, 14, 15, 16}));
  // Half a turn on in the same row; a component of a vector has the other sign there.
  expect_above_the_first(by_domain, torch::tensor({3, 4, 1, 2}));
  expect_above_the_first(odd, torch::tensor({-3, -4, -1, -2}));
}

TEST(Conv, of_a_length_reads_a_zonal_mean_itself_across_the_pole) {
  auto const domain = bands(world());
  Part const part(domain, balanced_cuts(5, domain.comm().num_ranks()), Cuts{1});
  auto const whole = torch::arange(1, 6, torch::kDouble).view({1, 1, 5});
  auto const shard = part.of(whole.unsqueeze(-1)).squeeze(-1).contiguous();
  nn::ConvOptions<1> options(options_of<1>({3, 1, 1, 1}), nn::Padding::by_domain);
  for (double const sign : {1.0, -1.0}) {
    if (sign < 0) options.odd_channels = {0};

    auto const found = row_above<nn::Conv1d, 1>(options, domain, shard);

    auto const expected = torch::tensor({sign * 1, 1.0, 2.0, 3.0, 4.0}, torch::kDouble).view({1, 1, 5, 1});
    EXPECT_TRUE(torch::equal(found, part.of(expected).squeeze(-1))) << sign;
  }
}

TEST(Conv, leaves_weight_gradients_as_partial_sums) {
  auto const domain = bands(world());
  Part const part(domain, balanced_cuts(5, domain.comm().num_ranks()), Cuts{4});
  nn::Conv2d layer(nn::ConvOptions(torch::nn::Conv2dOptions(1, 1, 1)), domain);

  layer(torch::ones({1, 1, part.num_rows, 4})).sum().backward();

  EXPECT_EQ(layer->weight.grad().item<double>(), double(4 * part.num_rows));
  EXPECT_EQ(over_ranks(domain.comm(), layer->weight.grad()).item<double>(), 20);
}

template <class Layer, std::size_t D>
void expect_refused_odd_channels(nn::Domain const& domain) {
  for (std::int64_t const channel : {-1, 2}) {
    nn::ConvOptions<D> options(torch::nn::ConvOptions<D>(2, 2, 3), nn::Padding::by_domain);
    options.odd_channels = {0, channel};
    EXPECT_EQ(rule_of([&] { Layer const layer(options, domain); }), "BadBoundary") << D << "d, channel " << channel;
  }
}

TEST(Conv, refuses_odd_channels_that_it_lacks) {
  auto const domain = bands(world());
  expect_refused_odd_channels<nn::Conv1d, 1>(domain);
  expect_refused_odd_channels<nn::Conv2d, 2>(domain);
  expect_refused_odd_channels<nn::Conv3d, 3>(domain);
}

}  // namespace test_conv
}  // namespace graticule
