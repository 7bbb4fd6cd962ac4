// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/fourier.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_fourier {

using nn::FourierAxes;
using nn::FourierNorm;
using test::Cotangent;
using test::difference;
using test::domains;
using test::Part;
using test::random_complex;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;

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

Shard spectrum_shard(FourierAxes axes, nn::AxisPart const& part) {
  return Shard().cut(axes == FourierAxes::columns ? -2 : -1, part.lo(), part.size());
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
      auto const name = std::to_string(c.columns) + " columns, " + c.norm_name() + ", " + to_string(domain.grid());
      Part const part = random_part(domain, random, {c.rows, c.columns});
      nn::FourierTransform layer(nn::FourierTransformOptions{c.axes, c.norm, c.num_waves}, domain);
      test::Tolerance const tolerance{.output = 1e-13, .gradient = 1e-13};
      auto const field = random_tensor(random, sizes_of(c, c.columns));

      SerialComparison{.name = name,
                       .layer = layer,
                       .oracle = [&](torch::Tensor const& x) { return c.analyse(x); },
                       .input = part,
                       .output = [&](torch::Tensor const&) { return spectrum_shard(c.axes, layer->part()); },
                       .tolerance = tolerance}
          .expect_equal(field, random);
      SerialComparison{.name = "inverse of " + name,
                       .layer = [&](torch::Tensor const& s) { return layer->inverse(s); },
                       .oracle = [&](torch::Tensor const& s) { return c.synthesise(s); },
                       .input = spectrum_shard(c.axes, layer->part()),
                       .output = [&](torch::Tensor const&) { return part; },
                       .tolerance = tolerance}
          .expect_equal(random_complex(random, sizes_of(c, c.waves())), random);
    }
  }
}

TEST(FourierTransform, second_derivatives_and_expanded_cotangents_equal_libtorch) {
  std::mt19937 random(42);
  for (auto const& domain : domains()) {
    for (auto const axes : {FourierAxes::columns, FourierAxes::rows_and_columns}) {
      Case const c{axes, FourierNorm::ortho, 5, 6};
      nn::FourierTransform layer(nn::FourierTransformOptions{c.axes, c.norm}, domain);

      SerialComparison{.name = to_string(domain.grid()),
                       .layer =
                           [&](torch::Tensor const& x) {
                             auto const s = layer(x);
                             return layer->inverse(s * s * s.conj());
                           },
                       .oracle =
                           [&](torch::Tensor const& x) {
                             auto const s = c.analyse(x);
                             return c.synthesise(s * s * s.conj());
                           },
                       .input = random_part(domain, random, {5, 6})}
          .expect_equal_twice(random_tensor(random, {2, 5, 6}), random, Cotangent::ones);
    }
  }
}

TEST(FourierTransform, fields_are_made_from_spectra_with_given_cuts) {
  std::mt19937 random(43);
  for (auto const& domain : domains()) {
    auto const cuts = test::random_field_cuts(domain, random, {6, 9});
    Part const part(domain, cuts);
    for (auto const axes : {FourierAxes::columns, FourierAxes::rows_and_columns}) {
      nn::FourierTransform layer(nn::FourierTransformOptions{.axes = axes, .field = cuts}, domain);
      Case const c{axes, FourierNorm::backward, 6, 9};
      auto const spectrum = random_complex(random, {6, 5}).to(torch::kComplexFloat);
      auto const field = layer->inverse(spectrum_shard(axes, layer->part()).of(spectrum));

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
  EXPECT_EQ(rule_of([&] { make(6)(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(0)(rank == 0 ? x.to(torch::kHalf) : x); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { make(0)->inverse(x.to(torch::kComplexFloat)); }), "WrongState");
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

/// On random cuts, with random parameters.
SerialComparison comparison_of(nn::Domain const& domain, ConvolutionCase const& c, std::mt19937& random) {
  nn::FourierConvolution layer(c.options, domain);
  layer->to(torch::kDouble);
  test::randomize(*layer, random);
  Serial const serial{c.options.row_modes, c.options.column_modes, c.norm, test::leaf_of(layer->weights1),
                      test::leaf_of(layer->weights2)};
  return {.name = c.norm + " on " + to_string(domain.grid()),
          .layer = layer,
          .oracle = serial,
          .input = random_part(domain, random, c.sizes),
          .module = layer.ptr(),
          .parameters = {{"weights1", serial.weights1}, {"weights2", serial.weights2}}};
}

TEST(FourierConvolution, equals_serial_for_random_cuts) {
  std::mt19937 random(44);
  for (auto const& domain : domains())
    for (auto const& c : convolution_cases())
      for (auto const kind : {Cotangent::random, Cotangent::ones})
        comparison_of(domain, c, random).expect_equal(random_tensor(random, c.sizes), random, kind);
}

TEST(FourierConvolution, second_derivatives_equal_serial) {
  std::mt19937 random(45);
  auto const c = convolution_cases()[0];
  for (auto const& domain : domains())
    comparison_of(domain, c, random).expect_equal_twice(random_tensor(random, c.sizes), random);
}

TEST(FourierConvolution, refuses_on_all_ranks_by_name) {
  auto const domain = domains().back();
  int const rank = domain.comm().rank();
  auto const rows = balanced_cuts(8, domain.comm().num_ranks());
  auto const make = [&](Index row_modes, Index column_modes) {
    return nn::FourierConvolution(nn::FourierConvolutionOptions{2, 2, row_modes, column_modes}, domain);
  };
  auto const x = torch::ones({1, 2, rows.size(rank), 8});
  EXPECT_EQ(rule_of([&] { make(0, 1); }), "BadOption");
  EXPECT_EQ(rule_of([&] {
              nn::FourierConvolution(nn::FourierConvolutionOptions{0, 2, 1, 1}, domain);
            }),
            "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(5, 1)(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(1, 6)(x); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(1, 1)(rank == 0 ? x.narrow(1, 0, 1) : x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make(1, 1)(x.to(torch::kDouble)); }), "ShapeMismatch");
  EXPECT_EQ(make(4, 5)(x).sizes(), x.sizes());
}

}  // namespace test_fourier
}  // namespace graticule
