// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace graticule {
namespace {

using test::difference;
using test::pad_sphere;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;

enum class Mode { zeros, reflect, replicate, circular, pole_face, pole_row };

struct Case {
  std::int64_t rows = 7, columns = 6;
  std::vector<std::int64_t> kernel{3, 3}, stride{1, 1}, padding{1, 1}, dilation{1, 1};
  std::int64_t groups = 1;
  Mode mode = Mode::zeros;
  bool bias = true;
  bool same = false;
  bool batched = true;
};

std::string to_text(Case const& c) {
  std::ostringstream text;
  text << c.rows << "x" << c.columns << " kernel " << c.kernel << " stride " << c.stride << " padding " << c.padding
       << " dilation " << c.dilation << " groups " << c.groups << " mode " << int(c.mode) << " same " << c.same;
  return text.str();
}

bool by_domain(Mode mode) { return mode == Mode::pole_face || mode == Mode::pole_row; }

torch::nn::Conv2dOptions torch_options(Case const& c) {
  auto options = torch::nn::Conv2dOptions(4, 4, torch::ExpandingArray<2>(c.kernel))
                     .stride(c.stride)
                     .dilation(c.dilation)
                     .groups(c.groups)
                     .bias(c.bias);
  if (c.same)
    options.padding(torch::kSame);
  else
    options.padding(torch::ExpandingArray<2>(c.padding));
  if (c.mode == Mode::reflect) options.padding_mode(torch::kReflect);
  if (c.mode == Mode::replicate) options.padding_mode(torch::kReplicate);
  if (c.mode == Mode::circular) options.padding_mode(torch::kCircular);
  return options;
}

/// The serial layer: LibTorch's own, or LibTorch's without padding after the serial sphere padding.
torch::Tensor serial(Case const& c, torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias,
                     std::vector<std::int64_t> const& odd_channels) {
  if (c.same && c.mode == Mode::circular) {
    // LibTorch 2.13's C++ layer swaps the axes' padding for `same` with a padding mode; its functions do not.
    Index const rows = c.dilation[0] * (c.kernel[0] - 1);
    Index const columns = c.dilation[1] * (c.kernel[1] - 1);
    namespace F = torch::nn::functional;
    auto const padded = F::pad(
        x, F::PadFuncOptions({columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}).mode(torch::kCircular));
    return torch::conv2d(padded, weight, bias, c.stride, at::IntArrayRef{0, 0}, c.dilation, c.groups);
  }
  if (!by_domain(c.mode)) {
    torch::nn::Conv2d layer(torch_options(c));
    layer->weight = weight;
    layer->bias = bias;
    return layer(x);
  }
  std::array<Width, 2> widths;
  for (std::size_t a = 0; a < 2; ++a) {
    Index const total = c.dilation[a] * (c.kernel[a] - 1);
    widths[a] = c.same ? Width{total / 2, total - total / 2} : Width{c.padding[a], c.padding[a]};
  }
  auto const padded = pad_sphere(x, widths[0], widths[1], c.mode == Mode::pole_row, odd_channels);
  return torch::conv2d(padded, weight, bias, c.stride, at::IntArrayRef{0, 0}, c.dilation, c.groups);
}

/// Output rows of each rank by the rule in the header, found by asking for each output in turn.
Cuts output_cuts(Case const& c, std::size_t a, Cuts const& inputs, std::int64_t num_outputs) {
  Index const total = c.dilation[a] * (c.kernel[a] - 1);
  Index const before = c.same ? total / 2 : c.padding[a];
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  for (Index o = 0; o < num_outputs; ++o)
    ++sizes[std::size_t(
        inputs.part_of(std::clamp<Index>(o * c.stride[a] - before + total / 2, 0, inputs.extent() - 1)))];
  return Cuts(sizes);
}

/// Compares output, input gradient and summed weight and bias gradients with the serial layer.
void expect_serial(nn::Domain const& domain, Case const& c, std::mt19937& random, double tolerance = 1e-12,
                   torch::ScalarType type = torch::kDouble) {
  SCOPED_TRACE(to_text(c));
  std::vector<std::int64_t> const odd_channels =
      by_domain(c.mode) ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{};
  auto const rows = random_cuts(random, c.rows, domain.grid().extent(0));
  auto const columns = random_cuts(random, c.columns, domain.grid().extent(1));
  Part const part(domain, rows, columns);
  auto x = random_tensor(
      random,
      c.batched ? std::vector<std::int64_t>{2, 4, c.rows, c.columns} : std::vector<std::int64_t>{4, c.rows, c.columns},
      type);
  nn::Conv2dOptions options(torch_options(c), by_domain(c.mode) ? nn::Padding::by_domain : nn::Padding::by_mode);
  options.odd_channels = odd_channels;
  nn::Conv2d layer(options, domain);
  layer->to(type);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.copy_(random_tensor(random, layer->weight.sizes().vec()));
    if (c.bias) layer->bias.copy_(random_tensor(random, layer->bias.sizes().vec()));
  }
  auto weight = layer->weight.detach().clone().requires_grad_();
  auto bias = c.bias ? layer->bias.detach().clone().requires_grad_() : torch::Tensor();
  auto whole = x.clone().requires_grad_();
  auto const expected = serial(c, whole, weight, bias, odd_channels);
  auto const cotangent = random_tensor(random, expected.sizes().vec(), type);
  expected.backward(cotangent);

  auto shard = part.of(x).clone().requires_grad_();
  auto const found = layer(shard);
  Part const output(domain, output_cuts(c, 0, rows, expected.size(-2)), output_cuts(c, 1, columns, expected.size(-1)));
  found.backward(output.of(cotangent));
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

  EXPECT_LE(difference(found, output.of(expected)), tolerance);
  EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), tolerance);
  EXPECT_LE(difference(layer->weight.grad(), weight.grad()), tolerance);
  if (c.bias) {
    EXPECT_LE(difference(layer->bias.grad(), bias.grad()), tolerance);
  }
}

std::vector<nn::Domain> domains(Mode mode) {
  auto const comm = Comm::world();
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks()))
    result.emplace_back(comm, grid, Boundary::sphere(mode == Mode::pole_row ? Edge::pole_row : Edge::pole_face));
  return result;
}

TEST(Conv2d, equals_serial_for_random_cuts_kernels_strides_dilations_and_padding_modes) {
  std::mt19937 random(17);
  auto const pick = [&](std::int64_t lo, std::int64_t hi) {
    return lo + std::int64_t(random() % std::uint32_t(hi - lo + 1));
  };
  for (auto const mode :
       {Mode::zeros, Mode::reflect, Mode::replicate, Mode::circular, Mode::pole_face, Mode::pole_row}) {
    auto const grids = domains(mode);
    for (int repeat = 0; repeat < 14; ++repeat) {
      Case c;
      c.mode = mode;
      c.rows = pick(3, 13);
      c.columns = 2 * pick(2, 6);
      for (std::size_t a = 0; a < 2; ++a) {
        c.kernel[a] = pick(1, 7);
        c.stride[a] = pick(1, 4);
        c.dilation[a] = pick(1, 3);
        Index const extent = a == 0 ? c.rows : c.columns;
        Index const span = c.dilation[a] * (c.kernel[a] - 1) + 1;
        c.padding[a] = pick(0, std::min<Index>(extent - 1, 5));
        if (extent + 2 * c.padding[a] < span) c.kernel[a] = 1;
      }
      c.groups = pick(0, 1) ? 2 : 1;
      c.bias = pick(0, 3) > 0;
      c.batched = pick(0, 3) > 0;
      expect_serial(grids[std::size_t(repeat) % grids.size()], c, random);
    }
  }
}

TEST(Conv2d, equals_serial_with_same_padding_and_even_kernels) {
  std::mt19937 random(5);
  for (auto const mode : {Mode::zeros, Mode::circular, Mode::pole_row}) {
    for (auto const& domain : domains(mode)) {
      for (std::int64_t const kernel : {2, 3, 4, 5}) {
        Case c;
        c.mode = mode;
        c.rows = 9;
        c.columns = 8;
        c.same = true;
        c.kernel = {kernel, kernel};
        c.dilation = {1, kernel == 3 ? 2 : 1};
        expect_serial(domain, c, random);
      }
    }
  }
}

TEST(Conv2d, equals_serial_in_single_precision) {
  std::mt19937 random(6);
  Case c;
  c.mode = Mode::pole_face;
  c.rows = 12;
  c.columns = 16;
  for (auto const& domain : domains(c.mode)) expect_serial(domain, c, random, 2e-5, torch::kFloat);
}

TEST(Conv2d, equals_serial_for_channels_last_and_expanded_cotangents) {
  std::mt19937 random(7);
  auto const domain = domains(Mode::pole_face).front();
  auto const rows = balanced_cuts(9, domain.grid().extent(0));
  auto const columns = balanced_cuts(8, domain.grid().extent(1));
  Part const part(domain, rows, columns);
  auto const x = random_tensor(random, {2, 3, 9, 8});
  nn::Conv2d layer(nn::Conv2dOptions(torch::nn::Conv2dOptions(3, 2, 3).padding(1), nn::Padding::by_domain), domain);
  layer->to(torch::kDouble);
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
  auto whole = x.clone().requires_grad_();
  auto const expected =
      torch::conv2d(pad_sphere(whole, {1, 1}, {1, 1}, false, {}), layer->weight.detach(), layer->bias.detach());
  expected.sum().backward();

  auto shard = part.of(x).clone().contiguous(torch::MemoryFormat::ChannelsLast).requires_grad_();
  auto const found = layer(shard);
  found.sum().backward();

  EXPECT_LE(difference(found, part.of(expected)), 1e-12);
  EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
}

TEST(Conv2d, double_backward_equals_serial) {
  std::mt19937 random(8);
  for (auto const& domain : domains(Mode::pole_row)) {
    auto const rows = random_cuts(random, 8, domain.grid().extent(0));
    auto const columns = random_cuts(random, 6, domain.grid().extent(1));
    Part const part(domain, rows, columns);
    auto const x = random_tensor(random, {1, 2, 8, 6});
    auto const cotangent = random_tensor(random, {1, 2, 8, 6});
    auto const direction = random_tensor(random, {1, 2, 8, 6});
    nn::Conv2d layer(nn::Conv2dOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);
    layer->to(torch::kDouble);
    nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
    auto whole = x.clone().requires_grad_();
    auto weight = layer->weight.detach().clone().requires_grad_();
    auto const y = torch::conv2d(pad_sphere(whole, {1, 1}, {1, 1}, true, {}), weight).square();
    auto const first = torch::autograd::grad({y}, {whole}, {cotangent}, true, true)[0];
    auto const second = torch::autograd::grad({first}, {whole, weight}, {direction});

    auto shard = part.of(x).clone().requires_grad_();
    {
      torch::NoGradGuard const no_grad;
      layer->bias.zero_();
    }
    auto const shard_y = layer(shard).square();
    auto const shard_first = torch::autograd::grad({shard_y}, {shard}, {part.of(cotangent)}, true, true)[0];
    auto const shard_second = torch::autograd::grad({shard_first}, {shard, layer->weight}, {part.of(direction)});
    layer->weight.mutable_grad() = shard_second[1].detach().clone();
    nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

    EXPECT_LE(difference(shard_first, part.of(first)), 1e-12);
    EXPECT_LE(difference(shard_second[0], part.of(second[0])), 1e-12);
    EXPECT_LE(difference(layer->weight.grad(), second[1]), 1e-12);
  }
}

nn::Domain band_domain() { return domains(Mode::pole_face).back(); }

nn::Conv2d small_layer(nn::Domain const& domain) {
  return nn::Conv2d(nn::Conv2dOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);
}

torch::Tensor shard_of(nn::Domain const& domain, std::int64_t rows, std::int64_t batch = 1) {
  auto const cuts = balanced_cuts(rows, domain.grid().extent(0));
  return torch::ones({batch, 2, cuts.size(domain.latitude_part()), 4});
}

TEST(Conv2d, sets_up_once_per_structure_and_again_on_a_global_change) {
  auto const domain = band_domain();
  auto layer = small_layer(domain);

  for (int call = 0; call < 3; ++call) layer(shard_of(domain, 12));
  EXPECT_EQ(test::num_set_ups(layer), 1);
  layer(shard_of(domain, 24));
  EXPECT_EQ(test::num_set_ups(layer), 2);
  layer(shard_of(domain, 12));
  layer(shard_of(domain, 12, 3));
  EXPECT_EQ(test::num_set_ups(layer), 4);
}

TEST(Conv2d, a_change_on_one_rank_only_is_an_error_on_all) {
  auto const domain = band_domain();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank cannot disagree";
  auto layer = small_layer(domain);
  layer(shard_of(domain, 12));

  auto const changed = torch::ones({1, 2, domain.comm().rank() == 0 ? 5 : shard_of(domain, 12).size(2), 4});

  EXPECT_EQ(rule_of([&] { layer(changed); }), "StructureDisagreement");
  layer->reset_structure();
  EXPECT_NO_THROW(layer(changed));
}

TEST(Conv2d, disagreements_are_the_same_error_on_all_ranks) {
  auto const domain = band_domain();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank cannot disagree";
  auto layer = small_layer(domain);
  auto other = small_layer(domain);
  bool const odd_one = domain.comm().rank() == domain.comm().num_ranks() - 1;

  EXPECT_EQ(rule_of([&] { layer(shard_of(domain, 12, odd_one ? 2 : 1)); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { layer(odd_one ? torch::ones({1, 3, 4, 4}) : shard_of(domain, 12)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              torch::AutoGradMode const mode(!odd_one);
              layer(shard_of(domain, 12));
            }),
            "GradModeDisagreement");
  EXPECT_EQ(rule_of([&] { (odd_one ? layer : other)(shard_of(domain, 12)); }), "CallOrderDisagreement");
}

TEST(Conv2d, a_gradient_wanted_on_one_rank_only_is_right) {
  std::mt19937 random(9);
  auto const domain = band_domain();
  Part const part(domain, balanced_cuts(9, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
  auto layer = small_layer(domain);
  layer->to(torch::kDouble);
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
  for (auto& parameter : layer->parameters()) parameter.requires_grad_(false);
  auto const x = random_tensor(random, {1, 2, 9, 4});
  auto const cotangent = random_tensor(random, {1, 2, 9, 4});
  auto whole = x.clone().requires_grad_();
  torch::conv2d(pad_sphere(whole, {1, 1}, {1, 1}, false, {}), layer->weight, layer->bias).backward(cotangent);

  bool const wanted = domain.comm().rank() == 0;
  auto shard = part.of(x).clone().requires_grad_(wanted);
  layer(shard).backward(part.of(cotangent));

  if (wanted) {
    EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
  } else {
    EXPECT_FALSE(shard.grad().defined());
  }
}

TEST(Conv2d, the_same_layer_twice_and_a_layer_gone_before_backward_are_right) {
  std::mt19937 random(10);
  auto const domain = band_domain();
  Part const part(domain, balanced_cuts(9, domain.grid().extent(0)), balanced_cuts(4, domain.grid().extent(1)));
  auto const x = random_tensor(random, {1, 2, 9, 4});
  auto const cotangent = random_tensor(random, {1, 2, 9, 4});
  auto layer = small_layer(domain);
  layer->to(torch::kDouble);
  nn::GradientSync(*layer, {{domain.comm(), nn::Reduction::sum}}).broadcast();
  auto const weight = layer->weight.detach().clone();
  auto const bias = layer->bias.detach().clone();
  auto whole = x.clone().requires_grad_();
  auto const once = [&](torch::Tensor const& t) {
    return torch::conv2d(pad_sphere(t, {1, 1}, {1, 1}, false, {}), weight, bias);
  };
  once(once(whole).tanh()).backward(cotangent);

  auto shard = part.of(x).clone().requires_grad_();
  auto const y = layer(layer(shard).tanh());
  {
    torch::NoGradGuard const no_grad;
    layer(part.of(x).clone());
  }
  layer = nullptr;
  y.backward(part.of(cotangent));

  EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
}

TEST(Conv2d, refuses_what_no_serial_layer_could_do) {
  auto const domain = band_domain();
  nn::Conv2d large(nn::Conv2dOptions(torch::nn::Conv2dOptions(2, 2, 7)), domain);
  nn::Conv2d wide(nn::Conv2dOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(4).padding_mode(torch::kReflect)),
                  domain);
  nn::Conv2d odd(nn::Conv2dOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);

  EXPECT_EQ(rule_of([&] { large(shard_of(domain, 4)); }), "KernelTooLarge");
  EXPECT_EQ(rule_of([&] { wide(shard_of(domain, 12)); }), "PaddingTooWide");
  EXPECT_EQ(rule_of([&] { odd(shard_of(domain, 12).narrow(3, 0, 3).contiguous()); }), "OddLongitudeFold");
}

TEST(Conv2d, refuses_windows_that_are_none_when_it_is_made) {
  auto const domain = band_domain();
  using Options = torch::nn::Conv2dOptions;
  for (auto const& options : {Options(2, 2, 0), Options(2, 2, 3).stride({1, 0}), Options(2, 2, 3).dilation({0, 1}),
                              Options(2, 2, 3).padding({-1, 0})})
    EXPECT_EQ(rule_of([&] { nn::Conv2d layer(options, domain); }), "BadWindow");
}

TEST(Conv2d, has_the_names_and_shapes_of_the_serial_layer) {
  auto const domain = band_domain();
  auto const options = torch::nn::Conv2dOptions(4, 6, 3).groups(2);
  nn::Conv2d sharded(options, domain);
  torch::nn::Conv2d plain(options);

  auto const found = sharded->named_parameters();
  auto const expected = plain->named_parameters();

  ASSERT_EQ(found.keys(), expected.keys());
  for (auto const& item : expected) EXPECT_EQ(found[item.key()].sizes(), item.value().sizes());
  auto const copy = std::dynamic_pointer_cast<nn::Conv2dImpl>(sharded->clone());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(torch::equal(copy->weight, sharded->weight));
  EXPECT_EQ(test::num_set_ups(copy), 0);
}

}  // namespace
}  // namespace graticule
