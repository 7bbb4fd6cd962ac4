// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/pooling.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <sstream>
#include <type_traits>

namespace graticule {
namespace {

using test::difference;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
using Sizes = std::vector<std::int64_t>;

enum class Kind { max, average, power };

/// Sizes are those of levels (if any), rows and columns (if any).
struct Case {
  Kind kind = Kind::max;
  Sizes extent, kernel, stride, padding, dilation;
  bool ceil_mode = false;
  bool count_padding = true;
  std::optional<std::int64_t> divisor = {};
  bool batched = true;
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << "kind " << int(c.kind) << " " << c.extent << " kernel " << c.kernel << " stride " << c.stride << " padding "
       << c.padding << " dilation " << c.dilation << " ceil " << c.ceil_mode << " count " << c.count_padding
       << " batched " << c.batched;
  return text.str();
}

template <std::size_t D>
struct Layers;
template <>
struct Layers<1> {
  using Max = nn::MaxPool1d;
  using Avg = nn::AvgPool1d;
  using LP = nn::LPPool1d;
  using SerialMax = torch::nn::MaxPool1d;
  using SerialAvg = torch::nn::AvgPool1d;
  using SerialLP = torch::nn::LPPool1d;
};
template <>
struct Layers<2> {
  using Max = nn::MaxPool2d;
  using Avg = nn::AvgPool2d;
  using LP = nn::LPPool2d;
  using SerialMax = torch::nn::MaxPool2d;
  using SerialAvg = torch::nn::AvgPool2d;
  using SerialLP = torch::nn::LPPool2d;
};
template <>
struct Layers<3> {
  using Max = nn::MaxPool3d;
  using Avg = nn::AvgPool3d;
  using LP = nn::LPPool3d;
  using SerialMax = torch::nn::MaxPool3d;
  using SerialAvg = torch::nn::AvgPool3d;
  using SerialLP = torch::nn::LPPool3d;
};

template <std::size_t D>
torch::nn::MaxPoolOptions<D> max_options(Case const& c) {
  using Array = torch::ExpandingArray<D>;
  return torch::nn::MaxPoolOptions<D>(Array(c.kernel))
      .stride(Array(c.stride))
      .padding(Array(c.padding))
      .dilation(Array(c.dilation))
      .ceil_mode(c.ceil_mode);
}

template <std::size_t D>
torch::nn::AvgPoolOptions<D> avg_options(Case const& c) {
  using Array = torch::ExpandingArray<D>;
  auto options = torch::nn::AvgPoolOptions<D>(Array(c.kernel)).stride(Array(c.stride)).padding(Array(c.padding));
  options.ceil_mode(c.ceil_mode).count_include_pad(c.count_padding);
  if (D > 1) options.divisor_override(c.divisor);
  return options;
}

template <std::size_t D>
torch::nn::LPPoolOptions<D> lp_options(Case const& c) {
  using Array = torch::ExpandingArray<D>;
  return torch::nn::LPPoolOptions<D>(2, Array(c.kernel)).stride(Array(c.stride)).ceil_mode(c.ceil_mode);
}

template <std::size_t D>
torch::Tensor serial(Case const& c, torch::Tensor const& x) {
  if (c.kind == Kind::max) return typename Layers<D>::SerialMax(max_options<D>(c))(x);
  if (c.kind == Kind::average) return typename Layers<D>::SerialAvg(avg_options<D>(c))(x);
  return typename Layers<D>::SerialLP(lp_options<D>(c))(x);
}

template <std::size_t D>
torch::Tensor sharded(Case const& c, torch::Tensor const& x, nn::Domain const& domain, nn::Padding padding,
                      Sizes const& odd_channels = {}) {
  auto const with_channels = [&](auto options) {
    options.odd_channels = odd_channels;
    return options;
  };
  if (c.kind == Kind::max)
    return typename Layers<D>::Max(with_channels(nn::MaxPoolOptions<D>(max_options<D>(c), padding)), domain)(x);
  if (c.kind == Kind::average)
    return typename Layers<D>::Avg(with_channels(nn::AvgPoolOptions<D>(avg_options<D>(c), padding)), domain)(x);
  return typename Layers<D>::LP(with_channels(nn::LPPoolOptions<D>(lp_options<D>(c), padding)), domain)(x);
}

/// Output cells of each rank by the rule in the header, found by asking for each output in turn.
Cuts output_cuts(Case const& c, std::size_t a, Cuts const& inputs, std::int64_t num_outputs) {
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  Index const middle = c.dilation[a] * (c.kernel[a] - 1) / 2;
  for (Index o = 0; o < num_outputs; ++o)
    ++sizes[std::size_t(
        inputs.part_of(std::clamp<Index>(o * c.stride[a] - c.padding[a] + middle, 0, inputs.extent() - 1)))];
  return Cuts(sizes);
}

/// This rank's part of tensors with or without columns.
struct Shard {
  Part part;
  bool with_columns;

  [[nodiscard]] torch::Tensor of(torch::Tensor const& x) const {
    return with_columns ? part.of(x) : part.of(x.unsqueeze(-1)).squeeze(-1);
  }
};

struct Shards {
  Shard input;
  Shard output;
};

template <std::size_t D>
Shards shards_of(nn::Domain const& domain, Case const& c, torch::Tensor const& expected, std::mt19937& random) {
  std::size_t const row = D == 3 ? 1 : 0;
  auto const rows = random_cuts(random, c.extent[row], domain.grid().extent(0));
  auto const columns = random_cuts(random, D == 1 ? 1 : c.extent[row + 1], domain.grid().extent(1));
  auto const out_rows = output_cuts(c, row, rows, expected.size(D == 1 ? -1 : -2));
  auto const out_columns = D == 1 ? columns : output_cuts(c, row + 1, columns, expected.size(-1));
  return {{{domain, rows, columns}, D > 1}, {{domain, out_rows, out_columns}, D > 1}};
}

/// Small integers: maxima with many equal values.
torch::Tensor field_of(Case const& c, std::mt19937& random, torch::ScalarType type = torch::kDouble) {
  auto sizes = c.extent;
  sizes.insert(sizes.begin(), 3);
  if (c.batched) sizes.insert(sizes.begin(), 2);
  auto const x = random_tensor(random, sizes, type);
  return c.kind == Kind::max ? (x * 2).round() : x;
}

template <std::size_t D>
void expect_serial(nn::Domain const& domain, Case const& c, std::mt19937& random, double tolerance = 1e-12,
                   torch::ScalarType type = torch::kDouble) {
  SCOPED_TRACE(to_text(c));
  auto const x = field_of(c, random, type);
  auto whole = x.clone().requires_grad_();
  auto const expected = serial<D>(c, whole);
  auto const cotangent = random_tensor(random, expected.sizes().vec(), type);
  expected.backward(cotangent);
  auto const shards = shards_of<D>(domain, c, expected, random);

  auto shard = shards.input.of(x).clone().requires_grad_();
  auto const found = sharded<D>(c, shard, domain, nn::Padding::by_mode);
  found.backward(shards.output.of(cotangent));

  EXPECT_EQ(found.scalar_type(), type);
  EXPECT_LE(difference(found, shards.output.of(expected)), tolerance);
  EXPECT_LE(difference(shard.grad(), shards.input.of(whole.grad())), tolerance);
}

template <std::size_t D>
std::vector<nn::Domain> domains(Boundary const& boundary = Boundary::sphere(Edge::pole_face)) {
  auto const comm = Comm::world();
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks()))
    if (D > 1 || grid.extent(1) == 1) result.emplace_back(comm, grid, boundary);
  return result;
}

template <std::size_t D>
Case random_case(std::mt19937& random, Kind kind) {
  auto const pick = [&](std::int64_t lo, std::int64_t hi) {
    return lo + std::int64_t(random() % std::uint32_t(hi - lo + 1));
  };
  Case c;
  c.kind = kind;
  for (std::size_t a = 0; a < D; ++a) {
    c.extent.push_back(D > 1 && a == D - 1 ? 2 * pick(2, 4) : pick(3, D == 3 ? 7 : 13));
    // LibTorch's means over three axes take no kernel wider than the field, whatever the padding.
    c.kernel.push_back(pick(1, D == 3 ? 3 : 4));
    c.stride.push_back(pick(1, 4));
    c.dilation.push_back(kind == Kind::max ? pick(1, 2) : 1);
    c.padding.push_back(kind == Kind::power ? 0 : pick(0, c.kernel[a] / 2));
    if (c.extent[a] + 2 * c.padding[a] < c.dilation[a] * (c.kernel[a] - 1) + 1) c.kernel[a] = 2, c.dilation[a] = 1;
    c.padding[a] = std::min(c.padding[a], c.kernel[a] / 2);
  }
  c.ceil_mode = pick(0, 1) == 1;
  c.count_padding = pick(0, 1) == 1;
  if (pick(0, 2) == 0) c.divisor = pick(1, 5);
  c.batched = pick(0, 3) > 0;
  return c;
}

template <class D>
class Pooling : public testing::Test {};
using Dimensions = testing::Types<std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 2>,
                                  std::integral_constant<std::size_t, 3>>;
TYPED_TEST_SUITE(Pooling, Dimensions);

TYPED_TEST(Pooling, equals_serial_for_random_cuts_and_windows) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(1);
  auto const grids = domains<num_axes>();
  for (Kind const kind : {Kind::max, Kind::average, Kind::power})
    for (int repeat = 0; repeat < 24; ++repeat)
      expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, kind), random);
}

TYPED_TEST(Pooling, indices_are_those_of_the_whole_field) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(2);
  auto const grids = domains<num_axes>();
  for (int repeat = 0; repeat < 24; ++repeat) {
    auto const c = random_case<num_axes>(random, Kind::max);
    SCOPED_TRACE(to_text(c));
    auto const& domain = grids[std::size_t(repeat) % grids.size()];
    auto x = field_of(c, random);
    // Where all is least, the padding's value, the first cell within the field counts.
    x.masked_fill_(x < 0.5, -std::numeric_limits<double>::infinity());
    auto const [maxima, indices] =
        typename Layers<num_axes>::SerialMax(max_options<num_axes>(c))->forward_with_indices(x);
    auto const shards = shards_of<num_axes>(domain, c, maxima, random);
    typename Layers<num_axes>::Max layer(max_options<num_axes>(c), domain);

    auto const [found, places] = layer->forward_with_indices(shards.input.of(x));

    EXPECT_TRUE(torch::equal(found, shards.output.of(maxima)));
    EXPECT_TRUE(torch::equal(places, shards.output.of(indices)));
  }
}

/// As many windows as by mode, whole ones, on a field with the sphere's cells round it.
TYPED_TEST(Pooling, by_domain_reads_across_poles_and_the_date_line) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(3);
  for (Edge const pole : {Edge::pole_face, Edge::pole_row}) {
    auto const grids = domains<num_axes>(Boundary::sphere(pole));
    for (int repeat = 0; repeat < 16; ++repeat) {
      auto c = random_case<num_axes>(random, repeat % 2 ? Kind::max : Kind::average);
      c.batched = true;
      // Levels stay as by mode: none of them here.
      if (num_axes == 3) c.padding[0] = 0, c.extent[0] = c.kernel[0] = c.stride[0] = c.dilation[0] = 1;
      SCOPED_TRACE(to_text(c));
      auto const& domain = grids[std::size_t(repeat) % grids.size()];
      auto const x = field_of(c, random);
      auto whole = x.clone().requires_grad_();
      auto const by_mode = serial<num_axes>(c, x);
      auto const width = [&](std::size_t a) {
        Index const span =
            (by_mode.size(std::int64_t(a) + 2) - 1) * c.stride[a] + c.dilation[a] * (c.kernel[a] - 1) + 1;
        return Width{c.padding[a], span - c.extent[a] - c.padding[a]};
      };
      auto const columns = num_axes == 1 ? Width{0, 0} : width(num_axes - 1);
      auto const rows = width(num_axes == 3 ? 1 : 0);
      auto const turned = num_axes == 1 ? whole.unsqueeze(-1) : num_axes == 3 ? whole.transpose(1, 2) : whole;
      auto padded = test::pad_sphere(turned, rows, columns, pole == Edge::pole_row, {1});
      if (num_axes == 1) padded = padded.squeeze(-1);
      if (num_axes == 3) padded = padded.transpose(1, 2);
      auto bare = c;
      bare.padding.assign(num_axes, 0);
      bare.ceil_mode = false;
      auto const expected = serial<num_axes>(bare, padded);
      auto const cotangent = random_tensor(random, expected.sizes().vec());
      expected.backward(cotangent);
      auto const shards = shards_of<num_axes>(domain, c, expected, random);

      auto shard = shards.input.of(x).clone().requires_grad_();
      auto const found = sharded<num_axes>(c, shard, domain, nn::Padding::by_domain, {1});
      found.backward(shards.output.of(cotangent));

      EXPECT_LE(difference(found, shards.output.of(expected)), 1e-12);
      EXPECT_LE(difference(shard.grad(), shards.input.of(whole.grad())), 1e-12);
    }
  }
}

TEST(Pooling2d, equals_serial_in_narrow_types) {
  std::mt19937 random(4);
  for (auto const& domain : domains<2>())
    for (Kind const kind : {Kind::max, Kind::average}) {
      expect_serial<2>(domain, random_case<2>(random, kind), random, 0.02, torch::kBFloat16);
      expect_serial<2>(domain, random_case<2>(random, kind), random, 1e-5, torch::kFloat);
    }
}

TEST(Pooling2d, is_differentiable_twice_and_takes_the_cotangent_of_a_sum) {
  std::mt19937 random(5);
  for (auto const& domain : domains<2>()) {
    for (Kind const kind : {Kind::max, Kind::average}) {
      Case const c{kind, {5, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}};
      auto const x = random_tensor(random, {1, 2, 5, 6});
      Shard const part{
          {domain, random_cuts(random, 5, domain.grid().extent(0)), random_cuts(random, 6, domain.grid().extent(1))},
          true};
      auto whole = x.clone().requires_grad_();
      serial<2>(c, whole).sum().backward();
      auto shard = part.of(x).clone().requires_grad_();

      sharded<2>(c, shard, domain, nn::Padding::by_mode).sum().backward();
      auto const errors = test::gradient_errors(
          {.function = [&](auto const& t) { return sharded<2>(c, t, domain, nn::Padding::by_domain).pow(3); },
           .step = 1e-5},
          part.of(x), domain.comm());

      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
      EXPECT_LE(errors.first, 1e-6);
      EXPECT_LE(errors.second, 1e-6);
    }
  }
}

/// Windows within shards on all ranks need no plan, and a rank whose input requires no gradient no node.
TEST(Pooling2d, of_windows_within_shards_sends_nothing) {
  auto const domain = domains<2>().front();
  auto const columns = domain.longitude_part() + 1;
  auto const x = torch::rand({1, 2, 4, 2 * columns}, torch::kDouble).requires_grad_(domain.comm().rank() == 0);
  nn::AvgPool2d layer(torch::nn::AvgPool2dOptions(2), domain);

  auto const y = layer(x);

  EXPECT_TRUE(torch::allclose(y, torch::avg_pool2d(x, 2)));
  EXPECT_EQ(y.requires_grad(), domain.comm().rank() == 0);
}

template <std::size_t D>
struct Adaptive;
template <>
struct Adaptive<1> {
  using Max = nn::AdaptiveMaxPool1d;
  using Avg = nn::AdaptiveAvgPool1d;
  using SerialMax = torch::nn::AdaptiveMaxPool1d;
  using SerialAvg = torch::nn::AdaptiveAvgPool1d;
};
template <>
struct Adaptive<2> {
  using Max = nn::AdaptiveMaxPool2d;
  using Avg = nn::AdaptiveAvgPool2d;
  using SerialMax = torch::nn::AdaptiveMaxPool2d;
  using SerialAvg = torch::nn::AdaptiveAvgPool2d;
};
template <>
struct Adaptive<3> {
  using Max = nn::AdaptiveMaxPool3d;
  using Avg = nn::AdaptiveAvgPool3d;
  using SerialMax = torch::nn::AdaptiveMaxPool3d;
  using SerialAvg = torch::nn::AdaptiveAvgPool3d;
};

Cuts centre_cuts(Cuts const& inputs, std::int64_t num_outputs) {
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  for (Index o = 0; o < num_outputs; ++o)
    ++sizes[std::size_t(inputs.part_of((2 * o + 1) * inputs.extent() / (2 * num_outputs)))];
  return Cuts(sizes);
}

template <std::size_t D>
nn::AdaptiveSizes<D> sizes_of(std::vector<std::optional<std::int64_t>> const& sizes) {
  if constexpr (D == 1)
    return nn::AdaptiveSizes<D>(*sizes[0]);
  else
    return nn::AdaptiveSizes<D>(sizes);
}

template <std::size_t D>
void expect_adaptive(nn::Domain const& domain, Sizes const& extent, std::vector<std::optional<std::int64_t>> const& to,
                     std::mt19937& random) {
  SCOPED_TRACE("from " + std::to_string(extent[0]));
  auto sizes = extent;
  sizes.insert(sizes.begin(), 3);
  if (random() % 2) sizes.insert(sizes.begin(), 2);
  auto const x = (random_tensor(random, sizes) * 2).round();
  auto const size = sizes_of<D>(to);
  auto whole = x.clone().requires_grad_();
  auto const [maxima, indices] = typename Adaptive<D>::SerialMax(size)->forward_with_indices(whole);
  auto const mean = typename Adaptive<D>::SerialAvg(size)(whole);
  auto const cotangent = random_tensor(random, mean.sizes().vec());
  (maxima + mean.square()).backward(cotangent);
  auto const rows = random_cuts(random, x.size(D == 1 ? -1 : -2), domain.grid().extent(0));
  auto const columns = D == 1 ? Cuts{1} : random_cuts(random, x.size(-1), domain.grid().extent(1));
  Shard const input{{domain, rows, columns}, D > 1};
  Shard const output{
      {domain, centre_cuts(rows, mean.size(D == 1 ? -1 : -2)), D == 1 ? columns : centre_cuts(columns, mean.size(-1))},
      D > 1};

  auto shard = input.of(x).clone().requires_grad_();
  auto const [found, places] = typename Adaptive<D>::Max(size, domain)->forward_with_indices(shard);
  auto const found_mean = typename Adaptive<D>::Avg(size, domain)(shard);
  (found + found_mean.square()).backward(output.of(cotangent));

  EXPECT_TRUE(torch::equal(found, output.of(maxima)));
  EXPECT_TRUE(torch::equal(places, output.of(indices)));
  EXPECT_LE(difference(found_mean, output.of(mean)), 1e-12);
  EXPECT_LE(difference(shard.grad(), input.of(whole.grad())), 1e-12);
}

TEST(AdaptivePooling, equals_serial_down_up_and_to_one_cell) {
  std::mt19937 random(6);
  for (auto const& domain : domains<1>())
    for (std::int64_t const size : {1, 4, 5, 11, 17}) expect_adaptive<1>(domain, {11}, {size}, random);
  for (auto const& domain : domains<2>()) {
    expect_adaptive<2>(domain, {7, 6}, {3, 4}, random);
    expect_adaptive<2>(domain, {7, 6}, {1, 1}, random);
    expect_adaptive<2>(domain, {7, 6}, {std::nullopt, 3}, random);
    expect_adaptive<2>(domain, {7, 6}, {9, 8}, random);
  }
  for (auto const& domain : domains<3>()) {
    expect_adaptive<3>(domain, {5, 7, 6}, {2, 3, 4}, random);
    expect_adaptive<3>(domain, {5, 7, 6}, {std::nullopt, 5, std::nullopt}, random);
  }
}

TEST(Pooling2d, refuses_by_name_on_all_ranks) {
  auto const domain = domains<2>().front();
  using Options = torch::nn::MaxPool2dOptions;
  auto const x = torch::ones({1, 2, 4, 4});
  auto const make = [&](Options const& options) { return nn::MaxPool2d(options, domain); };

  EXPECT_EQ(rule_of([&] { make(Options(3).padding(2)); }), "PaddingTooWide");
  EXPECT_EQ(rule_of([&] { make(Options(0)); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { make(Options(3).stride(0)); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { nn::AvgPool2d(torch::nn::AvgPool2dOptions(2).divisor_override(0), domain); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { nn::AdaptiveMaxPool2d(nn::AdaptiveMaxPool2dOptions({0, 1}), domain); }), "BadWindow");
  EXPECT_EQ(rule_of([&] { make(Options({5, 1}))(x[0][0].narrow(0, 0, 1).expand({1, 2, 1, 4})); }), "KernelTooLarge");
  // A window whose two cells lie on either side of all columns.
  auto const num_columns = domain.grid().extent(1);
  EXPECT_EQ(rule_of([&] {
              make(Options({1, 2}).dilation({1, num_columns + 1}).padding({0, 1}))(torch::ones({1, 2, 4, 1}));
            }),
            "KernelTooLarge");
  EXPECT_EQ(
      rule_of([&] {
        nn::AvgPool3d(torch::nn::AvgPool3dOptions({3, 1, 1}).padding({1, 0, 0}), domain)(torch::ones({1, 2, 2, 4, 4}));
      }),
      "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { make(Options(2))(x[0][0]); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(Options(2))(torch::Tensor()); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] {
              nn::MaxPool2dOptions options{Options(2)};
              options.odd_channels = {0};
              nn::MaxPool2d(options, domain);
            }),
            "OddChannels");
  EXPECT_EQ(rule_of([&] {
              nn::MaxPool2d(nn::MaxPool2dOptions(Options(2), nn::Padding::by_domain), domain)->forward_with_indices(x);
            }),
            "IndicesByDomain");
  if (domain.comm().num_ranks() > 1) {
    EXPECT_EQ(rule_of([&] { nn::MaxPool1d(torch::nn::MaxPool1dOptions(2), domain)(x[0]); }), "LongitudeIsCut");
  }
  EXPECT_EQ(rule_of([&] {
              auto layer = make(Options(2));
              auto const copy = std::dynamic_pointer_cast<nn::MaxPool2dImpl>(layer->clone());
              EXPECT_TRUE(torch::equal(copy->forward(x), layer->forward(x)));
            }),
            "nothing was thrown");
}

}  // namespace
}  // namespace graticule
