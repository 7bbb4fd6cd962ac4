// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace {

using nn::FourierAxes;
using nn::FourierNorm;
using test::difference;
using test::Part;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;

std::vector<nn::Domain> domains() {
  auto const comm = Comm::world();
  std::vector<nn::Domain> result;
  for (auto const& grid : test::grids_of(comm.num_ranks())) result.emplace_back(comm, grid);
  return result;
}

torch::Tensor random_complex(std::mt19937& random, std::vector<std::int64_t> sizes) {
  sizes.push_back(2);
  return torch::view_as_complex(random_tensor(random, sizes));
}

struct Case {
  FourierAxes axes;
  FourierNorm norm;
  Index rows;
  Index columns;
  Index num_waves = 0;
  std::vector<std::int64_t> batch = {2};

  [[nodiscard]] std::string norm_name() const {
    return norm == FourierNorm::backward ? "backward" : norm == FourierNorm::ortho ? "ortho" : "forward";
  }
  [[nodiscard]] Index waves() const { return num_waves ? num_waves : columns / 2 + 1; }

  /// LibTorch's transforms of the whole field.
  [[nodiscard]] torch::Tensor analyse(torch::Tensor const& x) const {
    auto const spectrum = axes == FourierAxes::columns ? torch::fft_rfft(x, {}, -1, norm_name())
                                                       : torch::fft_rfft2(x, {}, {-2, -1}, norm_name());
    return spectrum.narrow(-1, 0, waves());
  }
  [[nodiscard]] torch::Tensor synthesise(torch::Tensor const& spectrum) const {
    auto const all = torch::constant_pad_nd(spectrum, {0, columns / 2 + 1 - waves()});
    if (axes == FourierAxes::columns) return torch::fft_irfft(all, columns, -1, norm_name());
    return torch::fft_irfft2(all, at::IntArrayRef{rows, columns}, {-2, -1}, norm_name());
  }
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (auto const axes : {FourierAxes::columns, FourierAxes::rows_and_columns}) {
    result.push_back({axes, FourierNorm::backward, 5, 8});
    result.push_back({axes, FourierNorm::ortho, 6, 7, 0, {}});
    result.push_back({axes, FourierNorm::forward, 3, 12, 4, {2, 1}});
    result.push_back({axes, FourierNorm::ortho, 1, 2, 1, {1}});
  }
  return result;
}

torch::Tensor own_part(torch::Tensor const& whole, FourierAxes axes, nn::AxisPart const& part) {
  return whole.narrow(axes == FourierAxes::columns ? -2 : -1, part.lo(), part.size());
}

std::vector<std::int64_t> sizes_of(Case const& c, Index columns) {
  auto sizes = c.batch;
  sizes.insert(sizes.end(), {c.rows, columns});
  return sizes;
}

TEST(FourierTransform, equals_libtorch_for_random_cuts) {
  std::mt19937 random(41);
  for (auto const& domain : domains()) {
    for (auto const& c : cases()) {
      SCOPED_TRACE(to_string(domain.grid()) + ", " + std::to_string(c.columns) + " columns, " + c.norm_name());
      Part const part(domain, random_cuts(random, c.rows, domain.grid().extent(0)),
                      random_cuts(random, c.columns, domain.grid().extent(1)));
      nn::FourierTransform layer(nn::FourierTransformOptions{c.axes, c.norm, c.num_waves}, domain);
      auto const x = random_tensor(random, sizes_of(c, c.columns));
      auto const cotangent = random_complex(random, sizes_of(c, c.waves()));
      auto whole = x.clone().requires_grad_();
      auto const expected = c.analyse(whole);
      expected.backward(cotangent);

      auto shard = part.of(x).clone().requires_grad_();
      auto const found = layer(shard);
      auto const own = layer->part();
      found.backward(own_part(cotangent, c.axes, own));
      EXPECT_LE(difference(found.detach(), own_part(expected.detach(), c.axes, own)), 1e-13);
      EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-13);

      auto const spectrum = random_complex(random, sizes_of(c, c.waves()));
      auto const field_cotangent = random_tensor(random, sizes_of(c, c.columns));
      auto whole_spectrum = spectrum.clone().requires_grad_();
      auto const back = c.synthesise(whole_spectrum);
      back.backward(field_cotangent);
      auto own_spectrum = own_part(spectrum, c.axes, own).clone().requires_grad_();
      auto const found_back = layer->inverse(own_spectrum);
      found_back.backward(part.of(field_cotangent));
      EXPECT_LE(difference(found_back, part.of(back)), 1e-13);
      EXPECT_LE(difference(own_spectrum.grad(), own_part(whole_spectrum.grad(), c.axes, own)), 1e-13);
    }
  }
}

TEST(FourierTransform, second_derivatives_and_expanded_cotangents_equal_libtorch) {
  std::mt19937 random(42);
  for (auto const& domain : domains()) {
    for (auto const axes : {FourierAxes::columns, FourierAxes::rows_and_columns}) {
      Case const c{axes, FourierNorm::ortho, 5, 6};
      Part const part(domain, random_cuts(random, 5, domain.grid().extent(0)),
                      random_cuts(random, 6, domain.grid().extent(1)));
      nn::FourierTransform layer(nn::FourierTransformOptions{c.axes, c.norm}, domain);
      auto const x = random_tensor(random, {2, 5, 6});
      auto const direction = random_tensor(random, {2, 5, 6});
      auto const twice = [](auto const& function, torch::Tensor const& input, torch::Tensor const& along) {
        auto const first = torch::autograd::grad({function(input).sum()}, {input}, {}, true, true)[0];
        return std::pair{first, torch::autograd::grad({first}, {input}, {along})[0]};
      };
      auto whole = x.clone().requires_grad_();
      auto const expected = twice(
          [&](torch::Tensor const& t) {
            auto const s = c.analyse(t);
            return c.synthesise(s * s * s.conj());
          },
          whole, direction);
      auto shard = part.of(x).clone().requires_grad_();
      auto const found = twice(
          [&](torch::Tensor const& t) {
            auto const s = layer(t);
            return layer->inverse(s * s * s.conj());
          },
          shard, part.of(direction));

      EXPECT_LE(difference(found.first, part.of(expected.first)), 1e-12);
      EXPECT_LE(difference(found.second, part.of(expected.second)), 1e-12);
    }
  }
}

TEST(FourierTransform, fields_are_made_from_spectra_with_given_cuts) {
  std::mt19937 random(43);
  for (auto const& domain : domains()) {
    nn::FieldCuts const cuts{random_cuts(random, 6, domain.grid().extent(0)),
                             random_cuts(random, 9, domain.grid().extent(1))};
    Part const part(domain, cuts.rows, cuts.columns);
    for (auto const axes : {FourierAxes::columns, FourierAxes::rows_and_columns}) {
      nn::FourierTransform layer(nn::FourierTransformOptions{.axes = axes, .field = cuts}, domain);
      Case const c{axes, FourierNorm::backward, 6, 9};
      auto const spectrum = random_complex(random, {6, 5}).to(torch::kComplexFloat);
      auto const field = layer->inverse(own_part(spectrum, axes, layer->part()));

      EXPECT_EQ(field.scalar_type(), torch::kFloat);
      EXPECT_LE(difference(field, part.of(c.synthesise(spectrum))), 1e-6);
      EXPECT_LE(difference(layer->inverse(layer(field)), field), 1e-5);
    }
  }
}

TEST(FourierTransform, refuses_on_all_ranks_by_name) {
  auto const domain = domains().back();
  int const rank = domain.comm().rank();
  auto const rows = balanced_cuts(8, domain.comm().num_ranks());
  auto const make = [&](Index waves) {
    return nn::FourierTransform(nn::FourierTransformOptions{.axes = FourierAxes::rows_and_columns, .num_waves = waves},
                                domain);
  };
  auto const x = torch::ones({rows.size(rank), 8});
  EXPECT_EQ(rule_of([&] { make(6)(x); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] { make(0)(rank == 0 ? x.to(torch::kHalf) : x); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(0)->inverse(x.to(torch::kComplexFloat)); }), "NoForward");
  auto layer = make(3);
  auto const s = layer(x);
  EXPECT_EQ(rule_of([&] { layer->inverse(rank == 0 ? s.narrow(-2, 0, 7) : s); }), "ShapeMismatch");
  EXPECT_LE(difference(layer->inverse(s), x), 1e-6);
}

struct Serial {
  Index row_modes;
  Index column_modes;
  std::string norm;
  torch::Tensor weights1;
  torch::Tensor weights2;

  /// As in Li et al.'s SpectralConv2d.
  torch::Tensor operator()(torch::Tensor const& x) const {
    auto const spectrum = torch::fft_rfft2(x, {}, {-2, -1}, norm);
    auto sizes = spectrum.sizes().vec();
    sizes[sizes.size() - 3] = weights1.size(1);
    auto out = torch::zeros(sizes, spectrum.options().requires_grad(false));
    auto const corner = [&](torch::Tensor const& t, bool low) {
      return t.narrow(-2, low ? 0 : t.size(-2) - row_modes, row_modes).narrow(-1, 0, column_modes);
    };
    corner(out, true).copy_(
        torch::einsum("...ixy,ioxy->...oxy", {corner(spectrum, true), torch::view_as_complex(weights1)}));
    corner(out, false)
        .copy_(torch::einsum("...ixy,ioxy->...oxy", {corner(spectrum, false), torch::view_as_complex(weights2)}));
    return torch::fft_irfft2(out, at::IntArrayRef{x.size(-2), x.size(-1)}, {-2, -1}, norm);
  }
};

struct ConvolutionCase {
  nn::FourierConvolutionOptions options;
  std::vector<std::int64_t> sizes;
  std::string norm;
};

std::vector<ConvolutionCase> convolution_cases() {
  return {{{2, 3, 2, 3}, {2, 2, 7, 8}, "backward"},
          {{1, 2, 3, 5, FourierNorm::ortho}, {1, 6, 8}, "ortho"},
          {{3, 1, 1, 1, FourierNorm::forward}, {1, 2, 3, 2, 5}, "forward"}};
}

/// A sharded layer and the serial one with the same random parameters.
struct Pair {
  nn::FourierConvolution layer;
  Serial serial;

  Pair(ConvolutionCase const& c, nn::Domain const& domain, std::mt19937& random) : layer(c.options, domain) {
    layer->to(torch::kDouble);
    torch::NoGradGuard const no_grad;
    for (auto& parameter : layer->parameters()) parameter.copy_(random_tensor(random, parameter.sizes().vec()));
    serial = {c.options.row_modes, c.options.column_modes, c.norm, layer->weights1.detach().clone().requires_grad_(),
              layer->weights2.detach().clone().requires_grad_()};
  }
};

Part random_part(nn::Domain const& domain, std::mt19937& random, std::vector<std::int64_t> const& sizes) {
  return {domain, random_cuts(random, sizes[sizes.size() - 2], domain.grid().extent(0)),
          random_cuts(random, sizes.back(), domain.grid().extent(1))};
}

TEST(FourierConvolution, equals_serial_for_random_cuts) {
  std::mt19937 random(44);
  for (auto const& domain : domains()) {
    for (auto const& c : convolution_cases()) {
      for (bool const expanded : {false, true}) {
        SCOPED_TRACE(to_string(domain.grid()) + " " + c.norm);
        Pair pair(c, domain, random);
        auto const part = random_part(domain, random, c.sizes);
        auto const x = random_tensor(random, c.sizes);
        auto whole = x.clone().requires_grad_();
        auto const expected = pair.serial(whole);
        auto const cotangent = expanded ? torch::ones({}, torch::kDouble).expand(expected.sizes())
                                        : random_tensor(random, expected.sizes().vec());
        expected.backward(cotangent);

        auto shard = part.of(x).clone().requires_grad_();
        auto const found = pair.layer(shard);
        found.backward(part.of(cotangent));
        nn::GradientSync(*pair.layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

        EXPECT_LE(difference(found, part.of(expected)), 1e-12);
        EXPECT_LE(difference(shard.grad(), part.of(whole.grad())), 1e-12);
        EXPECT_LE(difference(pair.layer->weights1.grad(), pair.serial.weights1.grad()), 1e-12);
        EXPECT_LE(difference(pair.layer->weights2.grad(), pair.serial.weights2.grad()), 1e-12);
      }
    }
  }
}

TEST(FourierConvolution, second_derivatives_equal_serial) {
  std::mt19937 random(45);
  auto const c = convolution_cases()[0];
  for (auto const& domain : domains()) {
    Pair pair(c, domain, random);
    auto const part = random_part(domain, random, c.sizes);
    auto const x = random_tensor(random, c.sizes);
    auto const g = random_tensor(random, {2, 3, 7, 8});
    auto const direction = random_tensor(random, c.sizes);
    auto const weight_direction = random_tensor(random, pair.layer->weights2.sizes().vec());
    auto const twice = [&](auto const& function, torch::Tensor const& input, torch::Tensor const& weight,
                           torch::Tensor const& cotangent, torch::Tensor const& along) {
      auto const first = torch::autograd::grad({function(input)}, {input, weight}, {cotangent}, true, true);
      return torch::autograd::grad(first, {input, weight, cotangent}, {along, weight_direction});
    };
    auto whole = x.clone().requires_grad_();
    auto whole_g = g.clone().requires_grad_();
    auto const expected = twice(pair.serial, whole, pair.serial.weights2, whole_g, direction);
    auto shard = part.of(x).clone().requires_grad_();
    auto shard_g = part.of(g).clone().requires_grad_();

    auto const found = twice([&](torch::Tensor const& t) { return pair.layer(t); }, shard, pair.layer->weights2,
                             shard_g, part.of(direction));
    pair.layer->weights2.mutable_grad() = found[1].detach().clone();
    pair.layer->weights1.mutable_grad() = torch::zeros_like(pair.layer->weights1);
    nn::GradientSync(*pair.layer, {{domain.comm(), nn::Reduction::sum}}).reduce();

    EXPECT_LE(difference(found[0], part.of(expected[0])), 1e-12);
    EXPECT_LE(difference(pair.layer->weights2.grad(), expected[1]), 1e-12);
    EXPECT_LE(difference(found[2], part.of(expected[2])), 1e-12);
  }
}

TEST(FourierConvolution, refuses_on_all_ranks_by_name) {
  auto const domain = domains().back();
  int const rank = domain.comm().rank();
  auto const rows = balanced_cuts(8, domain.comm().num_ranks());
  auto const make = [&](Index row_modes, Index column_modes) {
    return nn::FourierConvolution(nn::FourierConvolutionOptions{2, 2, row_modes, column_modes}, domain);
  };
  auto const x = torch::ones({1, 2, rows.size(rank), 8});
  EXPECT_EQ(rule_of([&] { make(0, 1); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] {
              nn::FourierConvolution(nn::FourierConvolutionOptions{0, 2, 1, 1}, domain);
            }),
            "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(5, 1)(x); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] { make(1, 6)(x); }), "BadTruncation");
  EXPECT_EQ(rule_of([&] { make(1, 1)(rank == 0 ? x.narrow(1, 0, 1) : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(1, 1)(x.to(torch::kDouble)); }), "ShapeMismatch");
  EXPECT_EQ(make(4, 5)(x).sizes(), x.sizes());
}

}  // namespace
}  // namespace graticule
