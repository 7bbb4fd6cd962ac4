// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "num_set_ups.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace graticule {
namespace test_resize {

using test::difference;
using test::domains;
using test::Part;
using test::random_field_cuts;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
namespace F = torch::nn::functional;
using Sizes = std::vector<std::int64_t>;
using Factors = std::vector<double>;

/// Either output sizes or factors.
struct Case {
  F::InterpolateFuncOptions::mode_t mode;
  Sizes from;
  Sizes to = {};
  Factors by = {};
  std::optional<bool> align_corners = {};
  std::optional<bool> recompute = {};
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << torch::enumtype::get_enum_name(c.mode) << " from " << c.from << " to " << c.to << " by " << c.by;
  if (c.align_corners) text << " corners " << *c.align_corners;
  return text.str();
}

F::InterpolateFuncOptions options_of(Case const& c) {
  F::InterpolateFuncOptions options;
  std::visit([&](auto const& mode) { options.mode(mode); }, c.mode);
  if (!c.to.empty()) options.size(c.to);
  if (!c.by.empty()) options.scale_factor(c.by);
  // LibTorch asks for the corner convention in nearest-exact mode, which has none, too.
  bool const has_none = std::holds_alternative<torch::enumtype::kNearest>(c.mode) ||
                        std::holds_alternative<torch::enumtype::kArea>(c.mode);
  if (!has_none) options.align_corners(c.align_corners.value_or(false));
  return options.recompute_scale_factor(c.recompute.value_or(false));
}

bool is_nearest(Case const& c) {
  return std::holds_alternative<torch::enumtype::kNearest>(c.mode) ||
         std::holds_alternative<torch::enumtype::kNearestExact>(c.mode);
}

/// The cells that LibTorch's nearest modes take along one spatial axis, read off the numbers of the cells.
torch::Tensor nearest_cells(Case const& c, torch::ScalarType type, std::int64_t axis) {
  auto shape = Sizes(c.from.size() + 2, 1);
  auto sizes = c.from;
  sizes.insert(sizes.begin(), {1, 1});
  shape[std::size_t(axis + 2)] = c.from[std::size_t(axis)];
  auto const ramp = torch::arange(c.from[std::size_t(axis)]).view(shape).expand(sizes).contiguous();
  // 16-bit types are computed in f32, but do not hold all numbers.
  auto found = F::interpolate(ramp.to(type == torch::kDouble ? type : torch::kFloat), options_of(c)).to(torch::kLong);
  for (std::int64_t a = found.dim() - 1; a >= 0; --a)
    if (a != axis + 2) found = found.select(a, 0);
  return found;
}

/// LibTorch's resize. Its nearest modes have, in f64, a backward that is not that of their forward: here it is.
torch::Tensor serial(Case const& c, torch::Tensor const& x) {
  if (!is_nearest(c)) return F::interpolate(x, options_of(c));
  auto y = x;
  for (std::size_t a = 0; a < c.from.size(); ++a)
    y = y.index_select(std::int64_t(a) + 2, nearest_cells(c, x.scalar_type(), std::int64_t(a)));
  EXPECT_TRUE(torch::equal(y, F::interpolate(x, options_of(c))));
  return y;
}

/// Output cells of each rank by the rule in the header.
nn::FieldCuts output_cuts(nn::FieldCuts const& inputs, torch::Tensor const& outputs, std::size_t num_axes) {
  auto const row = outputs.size(num_axes == 1 ? -1 : -2);
  return test::owner_cuts(inputs, outputs, num_axes, [&, longitude = num_axes - 1](std::size_t a, Index o) {
    bool const along_row = num_axes > 1 && a == longitude;
    auto const extent = along_row ? inputs.columns.extent() : inputs.rows.extent();
    return (2 * o + 1) * extent / (2 * (along_row ? outputs.size(-1) : row));
  });
}

struct Run {
  double tolerance = 1e-12;
  torch::ScalarType type = torch::kDouble;
  torch::MemoryFormat format = torch::MemoryFormat::Contiguous;
  bool like = false;  ///< resize to random cuts of a tensor of the output's sizes
};

void expect_serial(nn::Domain const& domain, Case const& c, std::mt19937& random, Run const& run = {}) {
  auto const num_axes = c.from.size();
  auto sizes = c.from;
  sizes.insert(sizes.begin(), {2, 3});
  auto const x = random_tensor(random, sizes, run.type);
  auto const cuts = random_field_cuts(domain, random, c.from);
  auto const outputs = F::interpolate(x, options_of(c));
  auto const any = random_field_cuts(domain, random, outputs.sizes().slice(2));
  Shard const output({domain, run.like ? any : output_cuts(cuts, outputs, num_axes)}, num_axes);
  auto const like = output.of(random_tensor(random, outputs.sizes().vec())).narrow(1, 0, 1);
  auto wanted = options_of(c);
  if (run.like) wanted.size(std::nullopt).scale_factor(std::nullopt);
  nn::Resize layer(nn::ResizeOptions(wanted), domain);

  SerialComparison{.name = to_text(c) + " on " + to_string(domain.grid()),
                   .layer = [&](torch::Tensor const& t) { return run.like ? layer->forward_like(t, like) : layer(t); },
                   .oracle = [&](torch::Tensor const& t) { return serial(c, t); },
                   .input = {{domain, cuts}, num_axes},
                   .output = [&](torch::Tensor const&) { return output; },
                   .tolerance = {.output = is_nearest(c) ? 0 : run.tolerance, .gradient = run.tolerance},
                   .memory = [&](torch::Tensor const& t) { return t.contiguous(run.format); }}
      .expect_equal(x, random);
}

std::vector<nn::Domain> domains_for(Case const& c) { return domains(Boundary::sphere(Edge::pole_face), c.from.size()); }

/// Up, down, odd sizes, to one cell, from one cell, unchanged; by factors that divide no size, with and without
/// recompute.
std::vector<Case> cases() {
  using namespace torch::enumtype;
  std::vector<Case> result;
  for (bool const corners : {false, true}) {
    result.push_back({kLinear(), {11}, {23}, {}, corners});
    result.push_back({kLinear(), {11}, {}, {0.63}, corners});
    for (F::InterpolateFuncOptions::mode_t const mode :
         {F::InterpolateFuncOptions::mode_t(kBilinear()), F::InterpolateFuncOptions::mode_t(kBicubic())}) {
      for (Sizes const& to : {Sizes{13, 12}, {25, 7}, {4, 3}, {1, 1}, {7, 6}})
        result.push_back({mode, {7, 6}, to, {}, corners});
      result.push_back({mode, {1, 1}, {3, 2}, {}, corners});
      for (bool const recompute : {false, true}) result.push_back({mode, {7, 10}, {}, {1.7, 1.05}, corners, recompute});
    }
    result.push_back({kTrilinear(), {3, 7, 6}, {5, 4, 9}, {}, corners});
    result.push_back({kTrilinear(), {3, 7, 6}, {}, {1.4, 2, 0.5}, corners});
  }
  result.push_back({kArea(), {11}, {4}});
  for (Sizes const& to : {Sizes{3, 4}, {13, 12}, {1, 1}}) result.push_back({kArea(), {7, 6}, to});
  result.push_back({kArea(), {3, 7, 6}, {}, {0.7, 0.7, 1.5}});
  return result;
}

TEST(Resize, equals_serial_for_all_modes_corners_sizes_and_factors) {
  std::mt19937 random(1);
  for (auto const& c : cases())
    for (auto const& domain : domains_for(c)) expect_serial(domain, c, random);
}

/// Sizes where products in f32 take another cell than exact quotients do, (8, 94) and (4, 41), and factors where
/// products in f32 and f64 differ, 37 by 3.7.
TEST(Resize, takes_the_nearest_cells_that_the_library_takes) {
  std::mt19937 random(2);
  using namespace torch::enumtype;
  for (F::InterpolateFuncOptions::mode_t const mode :
       {F::InterpolateFuncOptions::mode_t(kNearest()), F::InterpolateFuncOptions::mode_t(kNearestExact())}) {
    std::vector<Case> const all{
        {mode, {8}, {94}},       {mode, {37}, {}, {3.7}},          {mode, {8, 4}, {94, 41}},
        {mode, {5, 6}, {3, 12}}, {mode, {10, 6}, {}, {1.05, 0.6}}, {mode, {37, 4}, {}, {3.7, 2}},
        {mode, {7, 6}, {7, 6}},  {mode, {2, 5, 4}, {3, 10, 3}},    {mode, {3, 300, 1}, {2, 411, 1}}};
    for (auto const& c : all)
      for (auto const& domain : domains_for(c))
        for (auto const type : {torch::kDouble, torch::kFloat})
          expect_serial(domain, c, random, {.tolerance = 1e-5, .type = type});
  }
}

TEST(Resize, equals_serial_in_narrow_types_and_channels_last) {
  std::mt19937 random(3);
  using namespace torch::enumtype;
  for (auto const& domain : domains()) {
    Case const up{kBilinear(), {7, 6}, {13, 12}};
    Case const cubic{kBicubic(), {7, 6}, {}, {1.7, 1.3}};
    Case const down{kArea(), {7, 6}, {3, 4}};
    for (auto const& c : {up, cubic, down}) {
      expect_serial(domain, c, random, {.tolerance = 1e-5, .type = torch::kFloat});
      expect_serial(domain, c, random, {.tolerance = 0.02, .type = torch::kBFloat16});
      expect_serial(domain, c, random, {.format = torch::MemoryFormat::ChannelsLast});
    }
    Case const near{kNearest(), {3, 300, 1}, {2, 411, 1}};
    expect_serial(domain, near, random, {.tolerance = 0.02, .type = torch::kBFloat16});
    Case const levels{kTrilinear(), {3, 7, 6}, {5, 4, 9}};
    expect_serial(domain, levels, random, {.format = torch::MemoryFormat::ChannelsLast3d});
  }
}

TEST(Resize, to_the_cuts_of_another_field_equals_serial) {
  std::mt19937 random(4);
  for (auto const& c : cases())
    if (!c.to.empty() || c.recompute.value_or(false))
      for (auto const& domain : domains_for(c)) expect_serial(domain, c, random, {.like = true});
}

TEST(Resize, follows_the_field_to_resize_like_when_that_changes) {
  std::mt19937 random(5);
  for (auto const& domain : domains()) {
    nn::Resize layer(nn::ResizeOptions(options_of({torch::kBilinear, {}, {}})), domain);
    auto const x = random_tensor(random, {1, 2, 6, 4});
    Part const part(domain, balanced_cuts(6, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
    // Twice and four times the ranks: the rows of every rank change.
    Index const ranks = domain.grid().extent(0);
    auto const like = [&](Index num_rows) {
      return Part(domain, balanced_cuts(num_rows, domain.grid().extent(0)), balanced_cuts(8, domain.grid().extent(1)));
    };
    for (Index const num_rows : {2 * ranks, 4 * ranks, 2 * ranks, 4 * ranks}) {
      auto const expected = F::interpolate(x, options_of({torch::kBilinear, {}, {num_rows, 8}}));

      auto const found =
          layer->forward_like(part.of(x), like(num_rows).of(torch::zeros({1, num_rows, 8})).unsqueeze(0));

      EXPECT_LE(difference(found, like(num_rows).of(expected)), 1e-12);
    }
    EXPECT_EQ(test::num_set_ups(layer), 4);
  }
}

/// Whole factors: the sphere's cells round the field, the serial resize of all, and the middle of that.
TEST(Resize, by_domain_reads_across_poles_and_the_date_line) {
  std::mt19937 random(6);
  for (Edge const pole : {Edge::pole_face, Edge::pole_row}) {
    for (auto const& domain : domains(Boundary::sphere(pole))) {
      for (double const factor : {2.0, 3.0, 0.5}) {
        for (bool const cubic : {false, true}) {
          Case c{torch::enumtype::kBilinear(), {8, 6}, {}, {factor, factor}};
          if (cubic) c.mode = torch::enumtype::kBicubic();
          auto const cuts = random_field_cuts(domain, random, {8, 6});
          nn::ResizeOptions options(options_of(c), nn::Padding::by_domain);
          options.odd_channels = {1};
          auto const edge = std::int64_t(4 * factor);

          SerialComparison{.name = to_text(c) + " on " + to_string(domain.grid()),
                           .layer = nn::Resize(options, domain),
                           .oracle =
                               [&](torch::Tensor const& x) {
                                 auto const padded = test::pad_sphere(x, {4, 4}, {4, 4}, pole == Edge::pole_row, {1});
                                 return F::interpolate(padded, options_of(c))
                                     .narrow(-2, edge, std::int64_t(8 * factor))
                                     .narrow(-1, edge, std::int64_t(6 * factor));
                               },
                           .input = Part(domain, cuts),
                           .output = [&](torch::Tensor const& y) { return Part(domain, output_cuts(cuts, y, 2)); }}
              .expect_equal(random_tensor(random, {1, 3, 8, 6}), random);
        }
      }
    }
  }
}

TEST(Resize, is_differentiable_twice_and_takes_the_cotangent_of_a_sum) {
  std::mt19937 random(7);
  for (auto const& domain : domains()) {
    Case const c{torch::enumtype::kBicubic(), {5, 6}, {9, 8}};
    auto const cuts = random_field_cuts(domain, random, {5, 6});
    Part const part(domain, cuts);
    auto const x = random_tensor(random, {1, 2, 5, 6});
    nn::Resize layer(nn::ResizeOptions(options_of(c), nn::Padding::by_domain), domain);

    auto const errors = test::gradient_errors({.function = [&](torch::Tensor const& t) { return layer(t).pow(3); }},
                                              part.of(x), domain.comm());

    EXPECT_LE(errors.first, 1e-6);
    EXPECT_LE(errors.second, 1e-6);
    SerialComparison{.name = "of a sum",
                     .layer = nn::Resize(nn::ResizeOptions(options_of(c)), domain),
                     .oracle = [&](torch::Tensor const& t) { return serial(c, t); },
                     .input = part,
                     .output = [&](torch::Tensor const& y) { return Part(domain, output_cuts(cuts, y, 2)); }}
        .expect_equal(x, random, test::Cotangent::ones);
  }
}

/// A level of a U-Net: down by a strided convolution to odd sizes, up like the skip connection, joined with it.
TEST(Resize, joins_a_skip_connection_of_odd_size) {
  std::mt19937 random(8);
  for (auto const& domain : domains()) {
    auto const x = random_tensor(random, {1, 2, 13, 10});
    nn::Conv2d down(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).stride(2).padding(1)), domain);
    down->to(torch::kDouble);
    torch::NoGradGuard const no_grad;
    down->weight.copy_(random_tensor(random, {2, 2, 3, 3}));
    down->bias.zero_();
    nn::Resize up(nn::ResizeOptions(options_of({torch::kBilinear, {}, {}})), domain);
    auto const part = random_part(domain, random, {13, 10});
    auto const deep = torch::conv2d(x, down->weight, {}, 2, 1);
    ASSERT_EQ(deep.size(-2), 7);
    auto const expected = torch::cat({x, F::interpolate(deep, options_of({torch::kBilinear, {}, {13, 10}}))}, 1);

    auto const skip = part.of(x);
    auto const found = torch::cat({skip, up->forward_like(down(skip), skip)}, 1);

    EXPECT_LE(difference(found, part.of(expected)), 1e-12);
  }
}

TEST(Resize, refuses_by_name_on_all_ranks) {
  auto const domain = domains().front();
  auto const make = [&](F::InterpolateFuncOptions const& options) {
    return nn::Resize(nn::ResizeOptions(options), domain);
  };
  auto const x = torch::ones({1, 2, 4, 4});
  using Options = F::InterpolateFuncOptions;

  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}).mode(torch::kBilinear).antialias(true)); }), "Unsupported");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}).scale_factor(Factors{1, 1})); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}).align_corners(true)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options())(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2}))(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options().scale_factor(Factors{1, 0.01}))(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}).mode(torch::kTrilinear))(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}))(x[0][0]); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}))(x.to(torch::kInt)); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(Options().size(Sizes{2, 2}))(torch::Tensor()); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(Options())->forward_like(x, x[0]); }), "ShapeMismatch");
  if (domain.comm().num_ranks() > 1) {
    nn::Domain const cut(domain.comm(), ProcessGrid{1, domain.comm().num_ranks()});
    EXPECT_EQ(rule_of([&] { nn::Resize(nn::ResizeOptions(Options().size(Sizes{2})), cut)(x[0]); }), "LongitudeIsCut");
  }
}

TEST(Resize, clones_and_takes_options_of_upsample) {
  auto const domain = domains().front();
  auto const x = torch::rand({1, 2, 4, 4}, torch::kDouble);
  nn::Resize layer(torch::nn::UpsampleOptions().scale_factor(Factors{2, 2}).mode(torch::kBilinear).align_corners(false),
                   domain);
  auto const clone = std::dynamic_pointer_cast<nn::ResizeImpl>(layer->clone());

  auto const y = layer(x);

  EXPECT_EQ(y.size(-2), 8);
  EXPECT_TRUE(torch::equal(clone->forward(x), y));
  EXPECT_EQ(test::num_set_ups(clone), 1);
}

}  // namespace test_resize
}  // namespace graticule
