// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/pooling/layers.hpp>
#include <graticule/partition/cuts.hpp>

#include "allocations.hpp"
#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "serial_comparison.hpp"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <type_traits>

namespace graticule {
namespace test_layers {

using test::difference;
using test::domains;
using test::draw;
using test::Part;
using test::random_field_cuts;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
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
    return typename Layers<D>::Max(with_channels(nn::PoolOptions(max_options<D>(c), padding)), domain)(x);
  if (c.kind == Kind::average)
    return typename Layers<D>::Avg(with_channels(nn::PoolOptions(avg_options<D>(c), padding)), domain)(x);
  return typename Layers<D>::LP(with_channels(nn::PoolOptions(lp_options<D>(c), padding)), domain)(x);
}

/// Shards of nearly equal sizes, which pool their own cells where they lie, or of any.
enum class Cutting { balanced, random };

nn::FieldCuts cuts_of(Cutting cutting, nn::Domain const& domain, std::mt19937& random, Sizes const& space) {
  if (cutting == Cutting::random) return random_field_cuts(domain, random, space);
  auto const rows = space.size() == 1 ? space[0] : space[space.size() - 2];
  return {balanced_cuts(rows, domain.grid().extent(0)),
          balanced_cuts(space.size() == 1 ? 1 : space.back(), domain.grid().extent(1))};
}

/// Of outputs, by the rule in the header.
template <std::size_t D>
Shard output_shard(nn::Domain const& domain, Case const& c, nn::FieldCuts const& inputs, torch::Tensor const& y) {
  auto const input_of = [&](std::size_t a, Index o) {
    return o * c.stride[a] - c.padding[a] + c.dilation[a] * (c.kernel[a] - 1) / 2;
  };
  return {{domain, test::owner_cuts(inputs, y, D, input_of)}, D};
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
SerialComparison comparison_of(nn::Domain const& domain, Case const& c, nn::FieldCuts const& cuts) {
  return {.name = to_text(c) + " on " + to_string(domain.grid()),
          .layer = [=](torch::Tensor const& x) { return sharded<D>(c, x, domain, nn::Padding::by_mode); },
          .oracle = [=](torch::Tensor const& x) { return serial<D>(c, x); },
          .input = {{domain, cuts}, D},
          .output = [=](torch::Tensor const& y) { return output_shard<D>(domain, c, cuts, y); }};
}

template <std::size_t D>
void expect_serial(nn::Domain const& domain, Case const& c, std::mt19937& random, Cutting cutting = Cutting::random) {
  comparison_of<D>(domain, c, cuts_of(cutting, domain, random, c.extent)).expect_equal(field_of(c, random), random);
}

/// @param more cells of each axis that may be cut
template <std::size_t D>
Case random_case(std::mt19937& random, Kind kind, std::int64_t more = 0) {
  Case c;
  c.kind = kind;
  for (std::size_t a = 0; a < D; ++a) {
    c.extent.push_back(D > 1 && a == D - 1 ? 2 * draw(random, 2, 4) : draw(random, 3, D == 3 ? 7 : 13));
    if (D < 3 || a > 0) c.extent.back() += more;
    // LibTorch's means over three axes take no kernel wider than the field, whatever the padding.
    c.kernel.push_back(draw(random, 1, D == 3 ? 3 : 4));
    c.stride.push_back(draw(random, 1, 4));
    c.dilation.push_back(kind == Kind::max ? draw(random, 1, 2) : 1);
    c.padding.push_back(kind == Kind::power ? 0 : draw(random, 0, c.kernel[a] / 2));
    if (c.extent[a] + 2 * c.padding[a] < c.dilation[a] * (c.kernel[a] - 1) + 1) c.kernel[a] = 2, c.dilation[a] = 1;
    c.padding[a] = std::min(c.padding[a], c.kernel[a] / 2);
  }
  c.ceil_mode = draw(random, 0, 1) == 1;
  c.count_padding = draw(random, 0, 1) == 1;
  if (draw(random, 0, 2) == 0) c.divisor = draw(random, 1, 5);
  c.batched = draw(random, 0, 3) > 0;
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
  auto const grids = domains(Boundary::sphere(Edge::pole_face), num_axes);
  for (Kind const kind : {Kind::max, Kind::average, Kind::power})
    for (int repeat = 0; repeat < 24; ++repeat)
      expect_serial<num_axes>(grids[std::size_t(repeat) % grids.size()], random_case<num_axes>(random, kind), random);
}

TYPED_TEST(Pooling, indices_are_those_of_the_whole_field) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(2);
  auto const grids = domains(Boundary::sphere(Edge::pole_face), num_axes);
  for (int repeat = 0; repeat < 24; ++repeat) {
    auto const c = random_case<num_axes>(random, Kind::max);
    SCOPED_TRACE(to_text(c));
    auto const& domain = grids[std::size_t(repeat) % grids.size()];
    auto const cuts = random_field_cuts(domain, random, c.extent);
    auto x = field_of(c, random);
    // Where all is least, the padding's value, the first cell within the field counts.
    x.masked_fill_(x < 0.5, -std::numeric_limits<double>::infinity());
    auto const [maxima, indices] =
        typename Layers<num_axes>::SerialMax(max_options<num_axes>(c))->forward_with_indices(x);
    auto const output = output_shard<num_axes>(domain, c, cuts, maxima);
    typename Layers<num_axes>::Max layer(max_options<num_axes>(c), domain);

    auto const [found, places] = layer->forward_with_indices(Shard({domain, cuts}, num_axes).of(x));

    EXPECT_TRUE(torch::equal(found, output.of(maxima)));
    EXPECT_TRUE(torch::equal(places, output.of(indices)));
  }
}

/// As many windows as by mode, whole ones, on a field with the sphere's cells round it.
template <std::size_t D>
void expect_sphere(nn::Domain const& domain, Case c, Edge pole, std::mt19937& random, Cutting cutting) {
  c.batched = true;
  // Levels stay as by mode: none of them here.
  if (D == 3) c.padding[0] = 0, c.extent[0] = c.kernel[0] = c.stride[0] = c.dilation[0] = 1;
  auto const cuts = cuts_of(cutting, domain, random, c.extent);
  auto const x = field_of(c, random);
  auto const by_mode = serial<D>(c, x);
  auto const width = [&](std::size_t a) {
    Index const span = (by_mode.size(std::int64_t(a) + 2) - 1) * c.stride[a] + c.dilation[a] * (c.kernel[a] - 1) + 1;
    return Width{c.padding[a], span - c.extent[a] - c.padding[a]};
  };
  auto bare = c;
  bare.padding.assign(D, 0);
  bare.ceil_mode = false;
  auto comparison = comparison_of<D>(domain, c, cuts);
  comparison.layer = [&](torch::Tensor const& t) { return sharded<D>(c, t, domain, nn::Padding::by_domain, {1}); };
  comparison.oracle = [&](torch::Tensor const& t) {
    return serial<D>(bare, test::pad_sphere_along(t, D, width(D == 3 ? 1 : 0), D == 1 ? Width{0, 0} : width(D - 1),
                                                  pole == Edge::pole_row, {1}));
  };

  comparison.expect_equal(x, random);
}

TYPED_TEST(Pooling, by_domain_reads_across_poles_and_the_date_line) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(3);
  for (Edge const pole : {Edge::pole_face, Edge::pole_row}) {
    auto const grids = domains(Boundary::sphere(pole), num_axes);
    for (int repeat = 0; repeat < 16; ++repeat)
      expect_sphere<num_axes>(grids[std::size_t(repeat) % grids.size()],
                              random_case<num_axes>(random, repeat % 2 ? Kind::max : Kind::average), pole, random,
                              Cutting::random);
  }
}

/// Shards that are large enough to be pooled where they lie, but for the rims.
TYPED_TEST(Pooling, of_large_shards_equals_serial_and_the_sphere) {
  constexpr std::size_t num_axes = TypeParam::value;
  std::mt19937 random(7);
  auto const grids = domains(Boundary::sphere(Edge::pole_face), num_axes);
  for (Kind const kind : {Kind::max, Kind::average, Kind::power})
    for (int repeat = 0; repeat < 24; ++repeat) {
      auto const& domain = grids[std::size_t(repeat) % grids.size()];
      auto const c = random_case<num_axes>(random, kind, 20);
      expect_serial<num_axes>(domain, c, random, Cutting::balanced);
      if (kind != Kind::power) expect_sphere<num_axes>(domain, c, Edge::pole_face, random, Cutting::balanced);
    }
}

TEST(Pooling2d, of_large_shards_in_channels_last_equals_serial) {
  std::mt19937 random(8);
  for (auto const& domain : domains())
    for (Kind const kind : {Kind::max, Kind::average}) {
      Case const c{kind, {21, 20}, {3, 3}, {2, 1}, {1, 1}, {1, 1}};
      auto comparison = comparison_of<2>(domain, c, cuts_of(Cutting::balanced, domain, random, c.extent));
      comparison.memory = [](torch::Tensor const& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); };

      comparison.expect_equal(field_of(c, random), random);
    }
}

TEST(Pooling2d, equals_serial_in_narrow_types) {
  std::mt19937 random(4);
  for (auto const& domain : domains())
    for (Kind const kind : {Kind::max, Kind::average})
      for (auto const& [type, tolerance] : {std::pair(torch::kBFloat16, 0.02), std::pair(torch::kFloat, 1e-5)}) {
        auto const c = random_case<2>(random, kind);
        auto comparison = comparison_of<2>(domain, c, random_field_cuts(domain, random, c.extent));
        comparison.tolerance = {.output = tolerance, .gradient = tolerance};

        comparison.expect_equal(field_of(c, random, type), random);
      }
}

void expect_twice_differentiable(Case const& c, Cutting cutting, std::mt19937& random) {
  SCOPED_TRACE(to_text(c));
  for (auto const& domain : domains()) {
    auto const x = random_tensor(random, {1, 2, c.extent[0], c.extent[1]});
    auto const cuts = cuts_of(cutting, domain, random, c.extent);

    comparison_of<2>(domain, c, cuts).expect_equal(x, random, test::Cotangent::ones);
    auto const errors = test::gradient_errors(
        {.function = [&](auto const& t) { return sharded<2>(c, t, domain, nn::Padding::by_domain).pow(3); },
         .step = 1e-5},
        Part(domain, cuts).of(x), domain.comm());

    EXPECT_LE(errors.first, 1e-6);
    EXPECT_LE(errors.second, 1e-6);
  }
}

TEST(Pooling2d, is_differentiable_twice_and_takes_the_cotangent_of_a_sum) {
  std::mt19937 random(5);
  for (Kind const kind : {Kind::max, Kind::average}) {
    expect_twice_differentiable({kind, {5, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, Cutting::random, random);
    expect_twice_differentiable({kind, {17, 16}, {3, 3}, {2, 1}, {1, 1}, {1, 1}}, Cutting::balanced, random);
  }
}

/// Rows that are not a multiple of the stride, so that windows lie across cuts and shards start between windows.
TEST(Pooling2d, of_large_shards_copies_no_field) {
  std::mt19937 random(9);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_face));
  for (nn::Padding const padding : {nn::Padding::by_mode, nn::Padding::by_domain})
    for (Case const& c :
         {Case{Kind::max, {}, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, Case{Kind::max, {}, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
          Case{Kind::average, {}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}}) {
      SCOPED_TRACE(to_text(c) + (padding == nn::Padding::by_mode ? " by mode" : " by domain"));
      auto const rows = balanced_cuts(40 * comm.num_ranks() + 1, comm.num_ranks()).size(comm.rank());
      auto const x = torch::rand({1, 4, rows, 64}, torch::kDouble).requires_grad_();
      auto const bytes = Index(x.nbytes());
      torch::Tensor y;
      auto const forward = test::num_large_allocations(bytes, [&] { y = sharded<2>(c, x, domain, padding); });
      auto const cotangent = torch::rand_like(y);
      auto const backward = test::num_large_allocations(bytes, [&] { y.backward(cotangent); });

      EXPECT_EQ(forward, c.stride[0] == 1 ? 1 : 0);  // The result.
      EXPECT_EQ(backward, 1);                        // The gradient.
    }
}

/// Rank 1 starts an exchange only when rank 0 says that it has pooled its own cells; without overlap rank 0 waits for
/// the exchange first.
class Interior {
 public:
  explicit Interior(Comm const& comm) : comm_(comm.handle()) { current_ = this; }
  ~Interior() { current_ = nullptr; }
  Interior(Interior const&) = delete;
  Interior& operator=(Interior const&) = delete;

  /// Whether rank 0 ended the `nth` call of `pooled` before rank 1 began `started`, its first such.
  bool comes_first(std::string const& pooled, int nth, std::string const& started, std::function<void()> const& work) {
    pooled_ = pooled, started_ = started, num_left_ = nth, has_started_ = false, in_time_ = true;
    auto const handle = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end));
    work();
    at::removeCallback(handle);
    return in_time_;
  }

 private:
  static std::unique_ptr<at::ObserverContext> begin(at::RecordFunction const& function) {
    auto& self = *current_;
    if (self.comm_.rank() == 1 && !self.has_started_ && function.name() == self.started_) {
      self.has_started_ = true;
      self.in_time_ = self.hears_within(10);
    }
    return nullptr;
  }
  static void end(at::RecordFunction const& function, at::ObserverContext* /*context*/) {
    auto& self = *current_;
    if (self.comm_.rank() == 0 && function.name() == self.pooled_ && --self.num_left_ == 0)
      MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, self.comm_.handle());
  }
  bool hears_within(double seconds) const {
    int heard = 0;
    for (double const start = MPI_Wtime(); heard == 0 && MPI_Wtime() - start < seconds;)
      MPI_Iprobe(0, 0, comm_.handle(), &heard, MPI_STATUS_IGNORE);
    if (heard) MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, comm_.handle(), MPI_STATUS_IGNORE);
    return heard != 0;
  }

  inline static Interior* current_ = nullptr;
  Comm comm_;
  std::string pooled_;
  std::string started_;
  int num_left_ = 0;
  bool has_started_ = false;
  bool in_time_ = true;
};

TEST(Pooling2d, pools_own_cells_while_messages_travel) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 2) GTEST_SKIP() << "for 2 ranks";
  if (std::getenv("GRATICULE_CHECK") != nullptr) GTEST_SKIP() << "calls are compared before cells travel in check mode";
  nn::Domain const domain(comm, ProcessGrid{2, 1}, Boundary::sphere(Edge::pole_face));
  nn::AvgPool2d layer(torch::nn::AvgPool2dOptions(3).stride(1).padding(1), domain);
  auto const x = torch::rand({1, 2, 16, 8}, torch::kDouble).requires_grad_();
  layer(x).sum().backward();  // Plans are made.
  Interior interior(comm);
  torch::Tensor y;

  // The exchange comes after the strips' memory is taken.
  EXPECT_TRUE(interior.comes_first("aten::avg_pool2d", 1, "aten::empty", [&] { y = layer(x); }));
  // The cotangent of the strip goes first: rank 0 has one, of the rows beside the cut.
  EXPECT_TRUE(
      interior.comes_first("aten::avg_pool2d_backward", 2, "aten::avg_pool2d_backward", [&] { y.sum().backward(); }));
}

/// Windows within shards on all ranks need no plan, and a rank whose input requires no gradient no node.
TEST(Pooling2d, of_windows_within_shards_sends_nothing) {
  auto const domain = domains().front();
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

template <std::size_t D>
nn::detail::AdaptiveSizes<D> sizes_of(std::vector<std::optional<std::int64_t>> const& sizes) {
  if constexpr (D == 1)
    return nn::detail::AdaptiveSizes<D>(*sizes[0]);
  else
    return nn::detail::AdaptiveSizes<D>(sizes);
}

template <std::size_t D>
void expect_adaptive(nn::Domain const& domain, Sizes const& extent, std::vector<std::optional<std::int64_t>> const& to,
                     std::mt19937& random) {
  auto sizes = extent;
  sizes.insert(sizes.begin(), 3);
  if (random() % 2) sizes.insert(sizes.begin(), 2);
  auto const size = sizes_of<D>(to);
  auto const cuts = random_field_cuts(domain, random, extent);
  auto const output = [&](torch::Tensor const& y) {
    // The rank of the middle of its window.
    auto const input_of = [&](std::size_t a, Index o) {
      auto const num_outputs = y.size(std::int64_t(a) - std::int64_t(D));
      return (2 * o + 1) * extent[a] / (2 * num_outputs);
    };
    return Shard({domain, test::owner_cuts(cuts, y, D, input_of)}, D);
  };
  torch::Tensor indices;
  torch::Tensor places;

  auto const run =
      SerialComparison{.name = "maxima and means from " + std::to_string(extent[0]) + " on " + to_string(domain.grid()),
                       .layer =
                           [&](torch::Tensor const& t) {
                             auto const found = typename Adaptive<D>::Max(size, domain)->forward_with_indices(t);
                             places = std::get<1>(found);
                             return torch::stack({std::get<0>(found), typename Adaptive<D>::Avg(size, domain)(t)});
                           },
                       .oracle =
                           [&](torch::Tensor const& t) {
                             auto const expected = typename Adaptive<D>::SerialMax(size)->forward_with_indices(t);
                             indices = std::get<1>(expected);
                             return torch::stack({std::get<0>(expected), typename Adaptive<D>::SerialAvg(size)(t)});
                           },
                       .input = {{domain, cuts}, D},
                       .output = output}
          .expect_equal((random_tensor(random, sizes) * 2).round(), random);

  EXPECT_TRUE(torch::equal(run.found[0], run.output.of(run.expected[0])));
  EXPECT_TRUE(torch::equal(places, run.output.of(indices)));
}

TEST(AdaptivePooling, equals_serial_down_up_and_to_one_cell) {
  std::mt19937 random(6);
  for (auto const& domain : domains(Boundary::sphere(Edge::pole_face), 1))
    for (std::int64_t const size : {1, 4, 5, 11, 17}) expect_adaptive<1>(domain, {11}, {size}, random);
  for (auto const& domain : domains()) {
    expect_adaptive<2>(domain, {7, 6}, {3, 4}, random);
    expect_adaptive<2>(domain, {7, 6}, {1, 1}, random);
    expect_adaptive<2>(domain, {7, 6}, {std::nullopt, 3}, random);
    expect_adaptive<2>(domain, {7, 6}, {9, 8}, random);
  }
  for (auto const& domain : domains()) {
    expect_adaptive<3>(domain, {5, 7, 6}, {2, 3, 4}, random);
    expect_adaptive<3>(domain, {5, 7, 6}, {std::nullopt, 5, std::nullopt}, random);
  }
}

TEST(Pooling2d, refuses_by_name_on_all_ranks) {
  auto const domain = domains().front();
  using Options = torch::nn::MaxPool2dOptions;
  auto const x = torch::ones({1, 2, 4, 4});
  auto const make = [&](Options const& options) { return nn::MaxPool2d(options, domain); };

  EXPECT_EQ(rule_of([&] { make(Options(3).padding(2)); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { make(Options(0)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options(3).stride(0)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { nn::AvgPool2d(torch::nn::AvgPool2dOptions(2).divisor_override(0), domain); }), "BadOption");
  EXPECT_EQ(rule_of([&] { nn::AdaptiveMaxPool2d(torch::nn::AdaptiveMaxPool2dOptions({0, 1}), domain); }), "BadOption");
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
              nn::PoolOptions<torch::nn::MaxPool2dOptions> options{Options(2)};
              options.odd_channels = {0};
              nn::MaxPool2d(options, domain);
            }),
            (test::ErrorWith{"BadBoundary", "crosses a pole"}));
  EXPECT_EQ(rule_of([&] {
              nn::MaxPool2d(nn::PoolOptions(Options(2), nn::Padding::by_domain), domain)->forward_with_indices(x);
            }),
            (test::ErrorWith{"BadBoundary", "have no index in the field"}));
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

}  // namespace test_layers
}  // namespace graticule
