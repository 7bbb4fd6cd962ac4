// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/fused_convs.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_fused_convs {

namespace tn = torch::nn;
using test::difference;
using test::domains;
using test::Part;
using test::random_part;
using test::random_tensor;
using test::SerialComparison;

/// Three layers of different windows, with functions of cells between and after them.
tn::Sequential layers(tn::detail::conv_padding_mode_t const& mode) {
  auto const options = [&](std::int64_t in, std::int64_t out, torch::ExpandingArray<2> kernel) {
    return tn::Conv2dOptions(in, out, kernel).padding_mode(mode);
  };
  tn::Sequential result(tn::Conv2d(options(2, 3, 3).padding(1)), tn::GELU(),
                        tn::Conv2d(options(3, 3, {3, 5}).padding({2, 2}).dilation({2, 1}).groups(3)), tn::PReLU(),
                        tn::Conv2d(options(3, 2, 1).bias(false)), tn::Tanh(),
                        tn::Conv2d(options(2, 2, {2, 3}).padding(torch::kSame)));
  result->to(torch::kDouble);
  return result;
}

/// On random cuts.
SerialComparison comparison_of(nn::Domain const& domain, nn::FusedConvs const& fused, tn::Sequential const& serial,
                               Part const& part) {
  return {.name = to_string(domain.grid()),
          .layer = fused,
          .oracle = [serial = tn::Sequential(serial)](torch::Tensor const& x) mutable { return serial->forward(x); },
          .input = part,
          .module = fused.ptr(),
          .parameters = serial->named_parameters(),
          .tolerance = {.gradient = 1e-10}};
}

TEST(FusedConvs, equal_the_serial_layers_for_every_padding_mode_and_any_cuts) {
  std::mt19937 random(3);
  std::vector<std::pair<std::string, tn::detail::conv_padding_mode_t>> const modes{{"zeros", torch::kZeros},
                                                                                   {"reflect", torch::kReflect},
                                                                                   {"replicate", torch::kReplicate},
                                                                                   {"circular", torch::kCircular}};
  for (auto const& [name, mode] : modes)
    for (auto const& domain : domains()) {
      torch::manual_seed(2);
      auto serial = layers(mode);
      torch::manual_seed(2);
      auto fused = nn::FusedConvs(layers(mode), nn::FusedConvsOptions{}, domain);
      // LibTorch's `same` padding with a padding mode swaps the axes' amounts; ours does not: pad by hand.
      auto const run = [&](torch::Tensor const& x) {
        auto h = x;
        std::size_t i = 0;
        for (auto& layer : *serial) {
          auto* conv = layer.ptr()->as<tn::Conv2d>();
          if (++i < 7 || !conv) {
            h = layer.template forward<torch::Tensor>(h);
            continue;
          }
          auto const pad = std::vector<std::int64_t>{1, 1, 0, 1};
          if (name == "zeros")
            h = torch::constant_pad_nd(h, pad);
          else if (name == "reflect")
            h = at::pad(h, pad, "reflect");
          else if (name == "replicate")
            h = at::pad(h, pad, "replicate");
          else
            h = at::pad(h, pad, "circular");
          h = torch::conv2d(h, conv->weight, conv->bias);
        }
        return h;
      };
      auto comparison = comparison_of(domain, fused, serial, random_part(domain, random, {9, 7}));
      comparison.name += ' ' + name;
      comparison.oracle = run;

      comparison.expect_equal(random_tensor(random, {2, 2, 9, 7}), random);
    }
}

TEST(FusedConvs, follow_poles_and_the_date_line_as_the_single_layers_do) {
  auto const comm = Comm::world();
  std::mt19937 random(4);
  for (auto const pole : {Edge::pole_row, Edge::pole_face}) {
    nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(pole));
    nn::Domain const alone(comm.split(comm.rank(), 0), ProcessGrid{1, 1}, Boundary::sphere(pole));
    torch::manual_seed(2);
    auto serial = layers(torch::kZeros);
    torch::manual_seed(2);
    auto fused = nn::FusedConvs(layers(torch::kZeros), nn::FusedConvsOptions{nn::Padding::by_domain, {1}}, domain);
    std::vector<nn::Conv2d> convs;
    for (auto const& layer : *serial)
      if (auto* conv = layer.ptr()->as<tn::Conv2d>()) {
        auto const& o = conv->options;
        nn::Conv2dOptions options(tn::Conv2dOptions(o.in_channels(), o.out_channels(), o.kernel_size())
                                      .padding(o.padding())
                                      .dilation(o.dilation())
                                      .groups(o.groups())
                                      .bias(o.bias()),
                                  nn::Padding::by_domain);
        if (convs.empty()) options.odd_channels = {1};
        convs.emplace_back(options, alone);
        convs.back()->weight = conv->weight;
        convs.back()->bias = conv->bias;
      }
    auto const run = [&](torch::Tensor const& x) {
      auto h = x;
      std::size_t c = 0;
      for (auto& layer : *serial)
        h = layer.ptr()->as<tn::Conv2d>() ? convs[c++](h) : layer.template forward<torch::Tensor>(h);
      return h;
    };
    Part const part(domain, test::random_cuts(random, 9, comm.num_ranks()), Cuts{8});
    auto comparison = comparison_of(domain, fused, serial, part);
    comparison.name = to_string(pole);
    comparison.oracle = run;

    comparison.expect_equal(random_tensor(random, {1, 2, 9, 8}), random);
  }
}

TEST(FusedConvs, exchange_once_for_all_layers) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::uniform(2, Edge::replicate));
  auto fused = nn::FusedConvs(layers(torch::kReplicate), nn::FusedConvsOptions{}, domain);
  auto const x = torch::ones({1, 2, 6, 8}, torch::kDouble).requires_grad_();
  auto const before = nn::traffic();

  auto const y = fused(x);
  auto const forward = nn::traffic() - before;
  nn::reduce_loss(y.sum(), domain).backward();
  auto const both = nn::traffic() - before;
  (void)fused(x);

  bool const inner = comm.rank() > 0 && comm.rank() + 1 < comm.num_ranks();
  EXPECT_EQ(forward.num_messages, inner ? 2 : 1);
  EXPECT_EQ(both.num_messages, inner ? 4 : 2);
  EXPECT_EQ(test::num_set_ups(fused), 1);
}

TEST(FusedConvs, pass_ranks_without_cells_by_functions_that_refuse_them) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  tn::Sequential serial(tn::Conv2d(tn::Conv2dOptions(2, 4, 3).padding(1)), tn::LocalResponseNorm(2),
                        tn::Conv2d(tn::Conv2dOptions(4, 2, 3).padding(1)), tn::LocalResponseNorm(2));
  serial->to(torch::kDouble);
  nn::FusedConvs fused(serial, nn::FusedConvsOptions{}, domain);
  nn::GradientSync(*fused, {{comm, nn::Reduction::sum}}).broadcast();
  std::vector<Index> sizes(std::size_t(comm.num_ranks()), 0);
  sizes.back() = 5;
  Part const part(domain, Cuts(sizes), Cuts{4});
  std::mt19937 random(6);
  auto const x = random_tensor(random, {1, 2, 5, 4});

  EXPECT_LE(difference(fused->forward(part.of(x)), part.of(serial->forward(x))), 1e-12);
}

TEST(FusedConvs, differentiate_twice) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  std::mt19937 random(4);
  torch::manual_seed(2);
  auto serial = layers(torch::kZeros);
  torch::manual_seed(2);
  auto model = layers(torch::kZeros);
  auto fused = nn::FusedConvs(model, nn::FusedConvsOptions{}, domain);
  Part const part(domain, test::random_cuts(random, 8, comm.num_ranks()), Cuts{6});

  auto comparison = comparison_of(domain, fused, serial, part);
  comparison.parameters.clear();

  comparison.expect_equal_twice(random_tensor(random, {1, 2, 8, 6}), random);
}

TEST(FusedConvs, refuse_by_name) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const rule_of = [&](tn::Sequential const& model, nn::FusedConvsOptions const& options = {}) {
    return test::rule_of([&] { nn::FusedConvs(model, options, domain); });
  };

  EXPECT_EQ(rule_of(tn::Sequential(tn::Conv2d(tn::Conv2dOptions(1, 1, 3).padding(1).stride(2)))), "Unsupported");
  EXPECT_EQ(rule_of(tn::Sequential(tn::Conv2d(tn::Conv2dOptions(1, 1, 3)))), "Unsupported");
  EXPECT_EQ(rule_of(tn::Sequential(tn::BatchNorm2d(2))), "Unsupported");
  EXPECT_EQ(rule_of(tn::Sequential(tn::Conv2d(tn::Conv2dOptions(1, 1, 3).padding(1)),
                                   tn::Conv2d(tn::Conv2dOptions(1, 1, 3).padding(1).padding_mode(torch::kReflect)))),
            "Unsupported");
  EXPECT_EQ(rule_of(tn::Sequential(tn::Conv2d(1, 1, 1)), {nn::Padding::by_mode, {1}}), "BadBoundary");
  Part const part(domain, balanced_cuts(3, comm.num_ranks()), Cuts{4});
  auto const rule_of_wide = [&](tn::detail::conv_padding_mode_t const& mode, std::int64_t padding) {
    tn::Sequential model(
        tn::Conv2d(tn::Conv2dOptions(1, 1, {2 * padding + 1, 1}).padding({padding, 0}).padding_mode(mode)));
    auto fused = nn::FusedConvs(model, nn::FusedConvsOptions{}, domain);
    return test::rule_of([&] { fused(part.of(torch::ones({1, 1, 3, 4}))); });
  };
  EXPECT_EQ(rule_of_wide(torch::kReflect, 3), "BadHaloWidth");
  EXPECT_EQ(rule_of_wide(torch::kCircular, 4), "BadHaloWidth");
  EXPECT_EQ(rule_of_wide(torch::kCircular, 3), "nothing was thrown");
}

}  // namespace test_fused_convs
}  // namespace graticule
