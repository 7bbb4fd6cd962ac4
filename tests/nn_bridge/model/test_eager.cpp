// SPDX-License-Identifier: BSD-3-Clause
// Code between the layers of a sharded model is that of the globe: outputs and gradients equal the serial model's.
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/call/examined.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/shard.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace graticule {
namespace test_eager {

namespace tn = torch::nn;
namespace F = torch::nn::functional;
using test::bands;
using test::difference;
using test::random_tensor;
using test::thrown_by;
using torch::Tensor;

constexpr std::int64_t rows = 9;
constexpr std::int64_t columns = 8;

struct NetImpl;
using Code = std::function<Tensor(NetImpl& net, Tensor const& h)>;

/// Two convolutions and functional code between them, with parameters of its own.
struct NetImpl : tn::Module {
  explicit NetImpl(Code between)
      : code(std::move(between)),
        first(register_module("first", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 4, 3).padding(1)))),
        last(register_module("last", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(4, 2, 3).padding(1)))) {
    weight = register_parameter("weight", torch::zeros({4, 4, 3, 3}));
    scale = register_parameter("scale", torch::zeros({1, 4, rows, columns}));
    mix = register_parameter("mix", torch::zeros({rows, rows}));
    gamma = register_parameter("gamma", torch::zeros({1, 4, 1, 1}));
    std::mt19937 random(11);
    for (auto& parameter : parameters()) parameter.set_data(random_tensor(random, parameter.sizes().vec()) / 4);
  }
  Tensor forward(Tensor const& x) { return last(code(*this, first(x))); }

  Code code;
  nn::Layer<tn::Conv2d> first, last;
  Tensor weight, scale, mix, gamma;
};
TORCH_MODULE(Net);

struct Line {
  char const* name;
  Code code;
};

Tensor attention(NetImpl& /*net*/, Tensor const& h) {
  auto const tokens = h.flatten(2).transpose(1, 2);
  auto const mixed = torch::scaled_dot_product_attention(tokens, tokens, tokens);
  return mixed.transpose(1, 2).reshape(h.sizes());
}

/// What models do every day.
std::vector<Line> everyday_code() {
  using at::IntArrayRef;
  using torch::indexing::Ellipsis;
  using torch::indexing::None;
  using torch::indexing::Slice;
  return {
      {"mean over the globe",
       [](NetImpl&, Tensor const& h) {
         return h - h.mean(IntArrayRef{-2, -1}, true);
       }},
      {"roll by a row", [](NetImpl&, Tensor const& h) { return torch::roll(h, {1}, {-2}); }},
      {"roll by a column", [](NetImpl&, Tensor const& h) { return torch::roll(h, {1}, {-1}); }},
      {"flip", [](NetImpl&, Tensor const& h) { return torch::flip(h, {-2}); }},
      {"slice and pad",
       [](NetImpl&, Tensor const& h) {
         return F::pad(h.index({Ellipsis, Slice(1, None), Slice()}), F::PadFuncOptions({0, 0, 1, 0}));
       }},
      {"cumulative sum along rows", [](NetImpl&, Tensor const& h) { return h.cumsum(-2); }},
      {"deviation of columns", [](NetImpl&, Tensor const& h) { return h / (1 + h.std(-1, true, true)); }},
      {"softmax over rows", [](NetImpl&, Tensor const& h) { return h * torch::softmax(h, -2); }},
      {"einsum along rows",
       [](NetImpl& n, Tensor const& h) {
         return torch::einsum("bchw,hk->bckw", {h, n.mix});
       }},
      {"Fourier transform of rows",
       [](NetImpl&, Tensor const& h) { return torch::fft::irfft(torch::fft::rfft(h) * 0.5, columns); }},
      {"Fourier transform of both axes",
       [](NetImpl&, Tensor const& h) {
         return torch::fft::irfft2(torch::fft::rfft2(h) * 0.5, IntArrayRef{rows, columns});
       }},
      {"layer norm over the globe",
       [](NetImpl&, Tensor const& h) {
         return torch::layer_norm(h, {4, rows, columns});
       }},
      {"convolution with a weight of the model",
       [](NetImpl& n, Tensor const& h) { return F::conv2d(h, n.weight, F::Conv2dFuncOptions().padding(1)); }},
      {"parameter of the rows", [](NetImpl& n, Tensor const& h) { return h * n.scale; }},
      {"adaptive pooling to one",
       [](NetImpl&, Tensor const& h) { return h * F::adaptive_avg_pool2d(h, F::AdaptiveAvgPool2dFuncOptions(1)); }},
      {"interpolation after pooling",
       [](NetImpl&, Tensor const& h) {
         auto const options = F::InterpolateFuncOptions()
                                  .size(std::vector<std::int64_t>{rows, columns})
                                  .mode(torch::kBilinear)
                                  .align_corners(false);
         return F::interpolate(F::avg_pool2d(h, F::AvgPool2dFuncOptions(2)), options);
       }},
      {"tokens and attention", attention},
  };
}

/// Needs no cells of other ranks.
std::vector<Line> local_code() {
  return {
      {"arithmetic", [](NetImpl& n, Tensor const& h) { return torch::gelu(h) * (1 + n.gamma) - h.square() / 3; }},
      {"in place", [](NetImpl&, Tensor const& h) { return h.mul(2).add_(h, 0.5).relu_(); }},
      {"channels", [](NetImpl&, Tensor const& h) { return h - h.mean(1, true); }},
      {"softmax over channels", [](NetImpl& n, Tensor const& h) { return h + n.gamma * torch::softmax(h, 1); }},
      {"columns are whole",
       [](NetImpl&, Tensor const& h) {
         return h - h.mean(-1, true) + torch::roll(h, {1}, {-1}) + torch::softmax(h, -1) + torch::cumsum(h, -1);
       }},
      {"layer norm over channels",
       [](NetImpl&, Tensor const& h) {
         return torch::layer_norm(h.permute({0, 2, 3, 1}), {4}).permute({0, 3, 1, 2});
       }},
      {"a linear layer over channels",
       [](NetImpl&, Tensor const& h) {
         auto const weight = torch::linspace(-1, 1, 16, torch::kDouble).view({4, 4});
         return torch::linear(h.movedim(1, -1), weight).movedim(-1, 1).contiguous();
       }},
      {"tokens",
       [](NetImpl&, Tensor const& h) {
         auto const tokens = h.flatten(2).transpose(1, 2);
         auto const mixed = torch::matmul(tokens, torch::linspace(0, 1, 16, torch::kDouble).view({4, 4}));
         return mixed.transpose(1, 2).view(h.sizes());
       }},
      {"an einsum over channels",
       [](NetImpl&, Tensor const& h) {
         return torch::einsum("bchw,dc->bdhw", {h, torch::linspace(0, 1, 16, torch::kDouble).view({4, 4})});
       }},
      {"parts of channels",
       [](NetImpl&, Tensor const& h) {
         auto const halves = h.chunk(2, 1);
         return torch::cat({halves[1] * torch::sigmoid(halves[0]), h.narrow(1, 0, 2)}, 1);
       }},
      {"stack and unbind",
       [](NetImpl&, Tensor const& h) {
         return torch::stack({h, 2 * h}, 2).unbind(2)[1];
       }},
      {"a convolution of one cell",
       [](NetImpl&, Tensor const& h) {
         return F::conv2d(h, torch::linspace(0, 1, 16, torch::kDouble).view({4, 4, 1, 1}));
       }},
      {"padded channels",
       [](NetImpl&, Tensor const& h) {
         return torch::constant_pad_nd(h, {0, 0, 0, 0, 1, 1}).narrow(1, 1, 4);
       }},
      {"constants",
       [](NetImpl&, Tensor const& h) {
         return h + torch::ones_like(h) + torch::zeros({1, 4, 1, 1});
       }},
      {"a mask", [](NetImpl&, Tensor const& h) { return torch::where(h > 0, h, h.masked_fill(h < -1, -1)); }},
      {"attention along columns",
       [](NetImpl&, Tensor const& h) {
         auto const lines = h.permute({0, 2, 3, 1});
         return torch::scaled_dot_product_attention(lines, lines, lines).permute({0, 3, 1, 2});
       }},
  };
}

/// Moves cells between ranks.
std::vector<Line> moving_code() {
  return {
      {"mean",
       [](NetImpl&, Tensor const& h) {
         return h - h.mean(at::IntArrayRef{2, 3}, true);
       }},
      {"std", [](NetImpl&, Tensor const& h) { return h / (h.std(2, true, true) + 1); }},
      {"amax", [](NetImpl&, Tensor const& h) { return h - h.amax(at::IntArrayRef{2}, true); }},
      {"max", [](NetImpl&, Tensor const& h) { return h / (1 + h.abs().max()); }},
      {"roll", [](NetImpl&, Tensor const& h) { return torch::roll(h, {1}, {2}); }},
      {"softmax", [](NetImpl& n, Tensor const& h) { return h + n.gamma * torch::softmax(h, -2); }},
      {"flip", [](NetImpl&, Tensor const& h) { return h + h.flip({2}); }},
      {"cumsum", [](NetImpl&, Tensor const& h) { return torch::cumsum(h, -2); }},
      {"upsample",
       [](NetImpl&, Tensor const& h) {
         return F::avg_pool2d(F::interpolate(h, F::InterpolateFuncOptions()
                                                    .scale_factor(std::vector<double>{2, 2})
                                                    .mode(torch::kBilinear)
                                                    .align_corners(false)),
                              F::AvgPool2dFuncOptions(2));
       }},
      {"constant_pad_nd",
       [](NetImpl&, Tensor const& h) {
         return F::max_pool2d(torch::constant_pad_nd(h, {1, 1, 1, 1}), F::MaxPool2dFuncOptions(3).stride(1));
       }},
      {"_pad_circular",
       [](NetImpl&, Tensor const& h) {
         return F::pad(h, F::PadFuncOptions({0, 0, 1, 1}).mode(torch::kCircular)).diff(1, 2).diff(1, 2);
       }},
      {"avg_pool2d",
       [](NetImpl&, Tensor const& h) { return F::avg_pool2d(h, F::AvgPool2dFuncOptions(3).stride(1).padding(1)); }},
      {"conv2d",
       [](NetImpl&, Tensor const& h) {
         return F::conv2d(h, torch::ones({4, 4, 3, 3}, torch::kDouble), F::Conv2dFuncOptions().padding(1));
       }},
      {"layer_norm",
       [](NetImpl&, Tensor const& h) {
         return torch::layer_norm(h, {h.size(2), h.size(3)});
       }},
      {"group_norm", [](NetImpl&, Tensor const& h) { return torch::group_norm(h, 2); }},
      {"attention",
       [](NetImpl&, Tensor const& h) {
         auto const tokens = h.flatten(2).transpose(1, 2);
         return torch::scaled_dot_product_attention(tokens, tokens, tokens).transpose(1, 2).reshape(h.sizes());
       }},
      {"slices",
       [](NetImpl&, Tensor const& h) {
         using torch::indexing::Ellipsis;
         using torch::indexing::None;
         using torch::indexing::Slice;
         auto const below = h.index({Ellipsis, Slice(None, -1), Slice()});
         return torch::cat({h.narrow(2, 0, 1), below - h.index({Ellipsis, Slice(1, None), Slice()})}, 2) +
                h.select(2, 0).unsqueeze(2);
       }},
      {"sort", [](NetImpl&, Tensor const& h) { return std::get<0>(h.sort(2)); }},
      {"fft", [](NetImpl&, Tensor const& h) { return at::real(torch::fft::fft(h, {}, 2)); }},
      {"index",
       [](NetImpl&, Tensor const& h) {
         return h.index({torch::indexing::Slice(), torch::indexing::Slice(), torch::arange(rows).flip(0)});
       }},
      {"a mean after permuting",
       [](NetImpl&, Tensor const& h) {
         auto const last = h.permute({0, 2, 3, 1});
         return (last - last.mean(1, true)).permute({0, 3, 1, 2});
       }},
  };
}

/// Has numbers that code takes from the shard, or changes the field in a way that is not planned.
std::vector<Line> refused_code() {
  return {
      {"sum",
       [](NetImpl&, Tensor const& h) {
         return h - h.sum(at::IntArrayRef{2, 3}, true) / (h.size(2) * h.size(3));
       }},
      {"arange",
       [](NetImpl&, Tensor const& h) {
         return h + torch::arange(h.size(2), torch::kDouble).view({-1, 1});
       }},
      {"rand",
       [](NetImpl&, Tensor const& h) {
         return h * torch::rand({h.size(0), 1, 1, 1}, torch::kDouble);
       }},
      {"matmul",
       [](NetImpl&, Tensor const& h) {
         return torch::matmul(torch::ones({h.size(2), h.size(2)}, torch::kDouble), h);
       }},
      {"a row set to zero",
       [](NetImpl&, Tensor const& h) {
         auto result = h.clone();
         result.narrow(2, 0, 1).zero_();
         return result;
       }},
      {"a row set by indices",
       [](NetImpl&, Tensor const& h) {
         auto result = 2 * h;
         result.index_put_({torch::indexing::Slice(), torch::indexing::Slice(), 0}, 1.0);
         return result;
       }},
      {"slices by the size of a shard",
       [](NetImpl&, Tensor const& h) {
         return torch::cat({h.narrow(2, 0, 1), h.narrow(2, 0, h.size(2) - 1)}, 2);
       }},
      {"an index of the sizes of a shard",
       [](NetImpl&, Tensor const& h) {
         return h.index({torch::indexing::Slice(), torch::indexing::Slice(), torch::arange(h.size(2)).flip(0)});
       }},
      {"noise of the sizes of a shard",
       [](NetImpl&, Tensor const& h) { return h + torch::randn(h.sizes(), torch::kDouble); }},
      {"as many tensors as a rank has rows", [](NetImpl&, Tensor const& h) { return torch::stack(h.unbind(2), 2); }},
      {"as many parts as a rank has",
       [](NetImpl&, Tensor const& h) {
         auto const parts = h.split(2, 2);
         return torch::cat({parts.back(), parts.front()}, 2).mean(2, true) + h;
       }},
      {"an operator that is not known",
       [](NetImpl&, Tensor const& h) { return torch::fake_quantize_per_tensor_affine(h, 0.1, 0, -100, 100); }},
  };
}

struct Result {
  Tensor output, input_gradient;
  std::vector<Tensor> gradients;
};

/// With a random cotangent, by a loss over the domain where there is one.
Result result_of(Net& net, Tensor const& x, Tensor const& cotangent, nn::Domain const* domain) {
  Result result;
  auto const leaf = x.detach().clone().requires_grad_();
  net->zero_grad();
  result.output = net->forward(leaf);
  auto loss = (result.output * cotangent).sum();
  if (domain) loss = nn::reduce_loss(loss, *domain);
  loss.backward();
  result.input_gradient = leaf.grad();
  for (auto const& parameter : net->parameters()) {
    auto const& grad = parameter.grad();
    auto const own = grad.defined() ? grad : torch::zeros_like(parameter);
    result.gradients.push_back(domain ? test::over_ranks(domain->comm(), own) : own.detach().clone());
  }
  return result;
}

std::vector<Cuts> cuts_of(nn::Domain const& domain) {
  auto const ranks = domain.comm().num_ranks();
  std::vector<Cuts> all{balanced_cuts(rows, ranks)};
  std::mt19937 random(29);
  all.push_back(test::random_cuts(random, rows, ranks));
  std::vector<Index> last(std::size_t(ranks), 0);
  last.back() = rows;
  all.emplace_back(last);
  std::vector<Index> single(std::size_t(ranks), 0);  // all but one rank have one row
  for (int r = 0; r < ranks; ++r) single[std::size_t(r)] = r == 0 ? rows - (ranks - 1) : 1;
  all.emplace_back(single);
  return all;
}

void expect_serial(Line const& line, nn::Domain const& domain, Tensor const& x, nn::FieldCuts const& cuts) {
  Net serial(line.code);
  Net net(line.code);
  test::Part const part(domain, cuts);
  nn::shard(*net, domain);
  std::mt19937 random(3);
  auto const cotangent = random_tensor(random, {x.size(0), 2, rows, columns});
  auto const wanted = result_of(serial, x, cotangent, nullptr);
  auto const names = net->named_parameters().keys();
  for (int call = 0; call < 2; ++call) {
    Result found;
    auto const thrown = thrown_by([&] { found = result_of(net, part.of(x), part.of(cotangent), &domain); });
    ASSERT_EQ(thrown.rule, "nothing was thrown") << thrown.text;
    EXPECT_LT(difference(found.output, part.of(wanted.output)), 1e-10);
    EXPECT_LT(difference(found.input_gradient, part.of(wanted.input_gradient)), 1e-10);
    for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
      EXPECT_LT(difference(found.gradients[i], wanted.gradients[i]), 1e-10) << names[i];
  }
  torch::NoGradGuard const no_grad;
  EXPECT_LT(difference(net->forward(part.of(x)), part.of(wanted.output)), 1e-10) << "without gradients";
}

void expect_serial(std::vector<Line> const& lines) {
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& line : lines) {
    auto const domain = bands();
    for (auto const& cuts : cuts_of(domain)) {
      SCOPED_TRACE(std::string(line.name) + ", rank 0 has " + std::to_string(cuts.size(0)) + " rows");
      expect_serial(line, domain, x, {cuts, Cuts{columns}});
    }
  }
}

TEST(Eager, everyday_code_equals_the_serial_model) { expect_serial(everyday_code()); }
TEST(Eager, code_on_this_ranks_cells_equals_the_serial_model) { expect_serial(local_code()); }
TEST(Eager, code_that_moves_cells_equals_the_serial_model) { expect_serial(moving_code()); }

TEST(Eager, columns_are_cut_as_rows_are) {
  auto const comm = test::world();
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& line : everyday_code()) {
    SCOPED_TRACE(line.name);
    nn::Domain const domain(comm, ProcessGrid{1, comm.num_ranks()});
    expect_serial(line, domain, x, {Cuts{rows}, test::random_cuts(random, columns, comm.num_ranks())});
  }
}

TEST(Eager, blocks_run_what_needs_no_other_rank_and_refuse_the_rest) {
  auto const comm = test::world();
  if (comm.num_ranks() != 4) GTEST_SKIP() << "blocks of rows and columns need four ranks";
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  nn::FieldCuts const cuts{balanced_cuts(rows, 2), balanced_cuts(columns, 2)};
  Line const local{"cells", [](NetImpl& n, Tensor const& h) {
                     return torch::gelu(h) * n.gamma + torch::softmax(h, 1) - h.mean(1, true);
                   }};
  nn::Domain const domain(comm, ProcessGrid{2, 2});
  expect_serial(local, domain, x, cuts);
  Net net([](NetImpl&, Tensor const& h) { return torch::roll(h, {1}, {2}); });
  nn::shard(*net, domain);

  EXPECT_EQ(thrown_by([&] { (void)net->forward(test::Part(domain, cuts).of(x)); }).rule, "NotSharded");
}

TEST(Eager, tensors_of_any_strides_equal_the_serial_model) {
  auto const domain = bands();
  std::mt19937 random(5);
  auto const cuts = cuts_of(domain).front();
  std::vector<Tensor> const inputs{
      random_tensor(random, {2, 2, rows, columns}).contiguous(torch::MemoryFormat::ChannelsLast),
      random_tensor(random, {2, 2, columns, rows}).transpose(2, 3),
      random_tensor(random, {1, 2, rows, columns}).expand({3, 2, rows, columns}),
      random_tensor(random, {2, 6, rows, columns}).slice(1, 0, 6, 3)};
  Line const line{"strides", [](NetImpl&, Tensor const& h) {
                    auto const last = h.contiguous(torch::MemoryFormat::ChannelsLast);
                    auto const wide = h.mean(1, true).expand({-1, 4, -1, -1});
                    return torch::roll(last, {1}, {2}) + wide.flip({2}) + h.transpose(2, 3).cumsum(3).transpose(2, 3);
                  }};
  for (auto const& x : inputs) expect_serial(line, domain, x, {cuts, Cuts{columns}});
}

TEST(Eager, rows_that_become_columns_are_moved_for_a_layer) {
  auto const domain = bands();
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  // The convolution takes rows for the last axis but one.
  Line const line{"transposed",
                  [](NetImpl& n, Tensor const& h) { return n.first(n.last(h).transpose(2, 3)).transpose(2, 3); }};
  for (auto const& cuts : cuts_of(domain)) expect_serial(line, domain, x, {cuts, Cuts{columns}});
}

TEST(Eager, code_behind_the_last_layer_equals_the_serial_model) {
  auto const domain = bands();
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& cuts : cuts_of(domain)) {
    test::Part const part(domain, cuts, Cuts{columns});
    tn::Sequential serial(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)));
    serial->to(torch::kDouble);
    for (auto& parameter : serial->parameters()) parameter.set_data(random_tensor(random, parameter.sizes().vec()));
    tn::Sequential net(std::dynamic_pointer_cast<tn::SequentialImpl>(serial->clone()));
    nn::shard(*net, domain);
    auto const tail = [](Tensor const& h) {
      return torch::roll(h - h.mean(at::IntArrayRef{2, 3}, true), {1}, {2}) / (1 + h.abs().max());
    };

    auto const found = tail(net->forward(part.of(x)));

    EXPECT_LT(difference(found, part.of(tail(serial->forward(x)))), 1e-10);
  }
}

TEST(Eager, what_cannot_be_known_is_refused_on_all_ranks) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  for (auto const& line : refused_code()) {
    auto const domain = bands();
    SCOPED_TRACE(line.name);
    Net net(line.code);
    std::mt19937 random(5);
    auto const x = random_tensor(random, {2, 2, rows, columns});
    test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});
    nn::shard(*net, domain);

    auto const thrown = thrown_by([&] { (void)net->forward(part.of(x)); });

    EXPECT_EQ(thrown.rule, "NotSharded") << thrown.text;
    EXPECT_NE(thrown.text.find("aten::"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("after layer first"), std::string::npos) << thrown.text;
  }
}

TEST(Eager, copies_of_views_and_their_sources_are_not_changed_in_place) {
  using torch::indexing::Slice;
  // [2, 4, 9, 8] as [2, 4, 6, 12]: a view in LibTorch, for which rows move between ranks.
  auto const view_of = [](Tensor const& h) { return h.view({2, 4, 6, 12}); };
  std::vector<Line> const wrong{{"the copy is changed",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   view_of(y).mul_(2);
                                   return y;
                                 }},
                                {"a part of the copy is changed",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   view_of(y).select(1, 2).mul_(2);
                                   return y;
                                 }},
                                {"rows of the copy are changed",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   view_of(y).narrow(2, 0, 2).zero_();
                                   return y;
                                 }},
                                {"the source is changed",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   auto const view = view_of(y);
                                   y.mul_(2);
                                   return h + view.mean({1, 2, 3}, true);
                                 }},
                                {"a view of the source is changed",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   auto const part = y.select(1, 0);
                                   auto const view = view_of(y);
                                   part.mul_(2);
                                   return h + view.mean({1, 2, 3}, true);
                                 }},
                                {"another copy is changed",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   auto const view = view_of(y);
                                   view_of(y).mul_(2);
                                   return h + view.mean({1, 2, 3}, true);
                                 }},
                                {"rows that have been used are changed", [](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   auto const top = y.narrow(2, 0, 2);
                                   auto const first = h + top.mean(2, true);
                                   y.mul_(2);
                                   return first + top.mean(2, true) + top.narrow(2, 0, 1);
                                 }}};
  std::vector<Line> const right{{"a copy whose source is not used again",
                                 [=](NetImpl&, Tensor const& h) {
                                   auto view = view_of(h.clone());
                                   view.mul_(2);
                                   return view.reshape({2, 4, rows, columns});
                                 }},
                                {"a view whose cells stay", [](NetImpl&, Tensor const& h) {
                                   auto y = h.clone();
                                   y.flatten(2).mul_(2);
                                   return y;
                                 }}};
  expect_serial(right);
  if (test::world().num_ranks() == 1) return expect_serial(wrong);
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& line : wrong) {
    SCOPED_TRACE(line.name);
    auto const domain = bands();
    Net net(line.code);
    nn::shard(*net, domain);
    test::Part const part(domain, cuts_of(domain).back(), Cuts{columns});

    auto const thrown = thrown_by([&] { (void)net->forward(part.of(x)); });

    EXPECT_EQ(thrown.rule, "NotSharded") << thrown.text;
  }
}

TEST(Eager, numbers_that_differ_between_ranks_are_refused_on_all) {
  auto const comm = test::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  std::vector<Code> const codes{
      [](NetImpl&, Tensor const& h) { return h / double(h.size(2)); },
      [](NetImpl&, Tensor const& h) { return torch::relu(h.clone().mul_(double(h.size(2)))).roll({1}, {2}); },
      [](NetImpl&, Tensor const& h) { return h * h.mean().item<double>(); },
      [](NetImpl&, Tensor const& h) { return torch::tanh(h) + torch::clamp_min(h, h.min().item<double>() + 0.5); }};
  auto const domain = bands();
  std::vector<Index> sizes(1, rows);  // 1, 2, 3, 1, 2, ... and the rest
  for (Index r = 0; r + 1 < comm.num_ranks(); ++r) {
    sizes.insert(sizes.end() - 1, r % 3 + 1);
    sizes.back() -= r % 3 + 1;
  }
  for (auto const& code : codes) {
    Net net(code);
    std::mt19937 random(5);
    auto const x = random_tensor(random, {2, 2, rows, columns});
    test::Part const part(domain, Cuts(sizes), Cuts{columns});
    nn::shard(*net, domain);

    auto const thrown = thrown_by([&] { (void)net->forward(part.of(x)); });

    EXPECT_EQ(thrown.rule, "NotSharded") << thrown.text;
    EXPECT_NE(thrown.text.find("(last, Conv2d): the numbers that cells are computed with"), std::string::npos)
        << thrown.text;
  }
}

struct Warnings : c10::WarningHandler {
  void process(c10::Warning const& warning) override { text += warning.msg(); }
  std::string text;
};

TEST(Eager, numbers_that_are_the_size_of_a_shard_are_refused_where_all_ranks_have_as_many) {
  auto const domain = bands();
  auto const num_ranks = domain.comm().num_ranks();
  if (num_ranks == 1) GTEST_SKIP() << "one rank has all cells";
  std::vector<Code> const codes{[](NetImpl&, Tensor const& h) { return h / h.size(2); },
                                [](NetImpl&, Tensor const& h) { return h * double(h.size(2) * h.size(3)); },
                                [](NetImpl&, Tensor const& h) { return h + 1. / double(h.size(2)); },
                                [](NetImpl&, Tensor const& h) { return torch::add(h, h.square(), h.size(2)); },
                                [](NetImpl&, Tensor const& h) { return h.clone().div_(h.size(2)); },
                                [](NetImpl&, Tensor const& h) { return h - h.sum(2, true) / h.size(2); }};
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, 6 * num_ranks, 8});
  test::Part const part(domain, balanced_cuts(6 * num_ranks, num_ranks), Cuts{8});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    SCOPED_TRACE(i);
    Net net(codes[i]);
    nn::shard(*net, domain);
    if (i == 2) {  // 1 / 6 may be anything: a warning
      Warnings warnings;
      c10::WarningUtils::WarningHandlerGuard const guard(&warnings);
      (void)net->forward(part.of(x));
      EXPECT_EQ(warnings.text.find("aten::add (called after layer first) with 1 / 6") != std::string::npos,
                domain.comm().rank() == 0);
      continue;
    }

    auto const thrown = thrown_by([&] { (void)net->forward(part.of(x)); });

    EXPECT_EQ(thrown.rule, "NotSharded") << thrown.text;
    EXPECT_NE(thrown.text.find("of this rank"), std::string::npos) << thrown.text;
  }
  Net serial([](NetImpl&, Tensor const& h) { return h / 6 + h.mean(1, true) * 42; });
  Net net([](NetImpl&, Tensor const& h) { return h / torch::tensor(6.) + h.mean(1, true) * 42; });
  nn::shard(*net, domain);
  EXPECT_LT(difference(net->forward(part.of(x)), part.of(serial->forward(x))), 1e-10);
}

/// Code before the first layer.
struct FrontImpl : tn::Module {
  using Front = std::function<Tensor(FrontImpl& net, Tensor const& x)>;
  explicit FrontImpl(Front front, bool marks = false)
      : code(std::move(front)),
        is_marking(marks),
        first(register_module("first", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 3).padding(1)))) {
    weight = register_parameter("weight", torch::zeros({2, 2, 3, 3}));
    std::mt19937 random(11);
    for (auto& parameter : parameters()) parameter.set_data(random_tensor(random, parameter.sizes().vec()) / 4);
  }
  Tensor forward(Tensor const& x) {
    if (is_marking) nn::mark_shard(x, *this);
    return code(*this, x);
  }
  Front code;
  bool is_marking;
  nn::Layer<tn::Conv2d> first;
  Tensor weight;
};
TORCH_MODULE(Front);

struct FrontLine {
  char const* name;
  FrontImpl::Front code;
};

/// Needs cells of other ranks.
std::vector<FrontLine> wide_fronts() {
  using at::IntArrayRef;
  return {
      {"mean",
       [](FrontImpl& n, Tensor const& x) {
         return n.first(x - x.mean(IntArrayRef{2, 3}, true));
       }},
      {"mean, then other operators",
       [](FrontImpl& n, Tensor const& x) {
         auto const gate = torch::sigmoid(x.mean(IntArrayRef{2, 3}, true).flatten(1)).unsqueeze(-1).unsqueeze(-1);
         return n.first((x * 2 + 1) * gate);
       }},
      {"roll", [](FrontImpl& n, Tensor const& x) { return n.first(x + x.roll(1, 2)); }},
      {"flip", [](FrontImpl& n, Tensor const& x) { return n.first(x.flip({2})); }},
      {"softmax", [](FrontImpl& n, Tensor const& x) { return n.first(torch::softmax(x, 2)); }},
      {"cumulative sum", [](FrontImpl& n, Tensor const& x) { return n.first(x.cumsum(-2).contiguous()); }},
      {"convolution",
       [](FrontImpl& n, Tensor const& x) {
         return n.first(F::conv2d(x, n.weight, F::Conv2dFuncOptions().padding(1)));
       }},
      {"mean of permuted",
       [](FrontImpl& n, Tensor const& x) {
         auto const y = x.permute({0, 2, 3, 1});
         return n.first((y - y.mean(1, true)).permute({0, 3, 1, 2}));
       }},
      {"in place",
       [](FrontImpl& n, Tensor const& x) {
         auto y = x.clone();
         y.sub_(y.mean(IntArrayRef{2}, true));
         return n.first(y);
       }},
      {"behind the first layer",
       [](FrontImpl& n, Tensor const& x) {
         auto const h = n.first(x);
         return n.first(h * x.mean(IntArrayRef{2, 3}, true));
       }},
      {"padding and cutting back",
       [](FrontImpl& n, Tensor const& x) {
         auto const y = F::pad(x, F::PadFuncOptions({0, 0, 1, 1}).mode(torch::kReplicate));
         return n.first(F::avg_pool2d(y, F::AvgPool2dFuncOptions({3, 1}).stride({1, 1})));
       }},
  };
}

/// Needs none.
std::vector<FrontLine> local_fronts() {
  return {
      {"scaling", [](FrontImpl& n, Tensor const& x) { return n.first((x - 3) / 2); }},
      {"channels", [](FrontImpl& n, Tensor const& x) { return n.first(x - x.mean(1, true) + x.softmax(-1)); }},
      {"permuted and back",
       [](FrontImpl& n, Tensor const& x) {
         return n.first(torch::layer_norm(x.permute({0, 2, 3, 1}), {2}).permute({0, 3, 1, 2}));
       }},
      {"tokens and back",
       [](FrontImpl& n, Tensor const& x) {
         auto const tokens = x.flatten(2).transpose(1, 2);
         return n.first(torch::layer_norm(tokens, {2}).transpose(1, 2).reshape(x.sizes()));
       }},
      {"channels joined",
       [](FrontImpl& n, Tensor const& x) {
         return n.first(torch::cat({x.narrow(1, 0, 1), x.select(1, 1).unsqueeze(1)}, 1));
       }},
  };
}

void each_front_cut(std::function<void(nn::Domain const& domain, test::Part const& part)> const& visit) {
  for (auto const& cuts : cuts_of(bands())) {
    auto const domain = bands();
    visit(domain, test::Part(domain, cuts, Cuts{columns}));
  }
}

TEST(Eager, code_on_the_input_that_needs_other_ranks_is_refused_on_all_from_the_first_forward) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& line : wide_fronts()) {
    SCOPED_TRACE(line.name);
    auto const domain = bands();
    test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});
    Front net(line.code);
    nn::shard(*net, domain);
    for (int forward = 0; forward < 3; ++forward) {
      auto own = part.of(x);
      if (forward == 2) own = own.clone().requires_grad_();  // as for a sensitivity
      auto const thrown = thrown_by([&] { (void)net->forward(own); });
      EXPECT_EQ(thrown.rule, "NotSharded") << thrown.text;
      for (auto const* text : {"aten::", "layer first", "mark_shard"})
        EXPECT_NE(thrown.text.find(text), std::string::npos) << thrown.text;
    }
  }
}

TEST(Eager, parts_of_the_input_are_refused_and_parts_of_whole_fields_are_shards) {
  auto const domain = bands();
  auto const comm = domain.comm();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  std::mt19937 random(5);
  std::int64_t const num_rows = 4 * comm.num_ranks() + 1;
  auto const x = random_tensor(random, {2, 2, num_rows, columns});
  auto const cuts = balanced_cuts(num_rows, comm.num_ranks());
  test::Part const part(domain, cuts, Cuts{columns});
  auto const own = part.of(x).clone();
  std::vector<FrontImpl::Front> const codes{
      [](FrontImpl& n, Tensor const& in) { return n.first(in.slice(2, 1)); },
      [](FrontImpl& n, Tensor const& in) { return n.first(in.narrow(2, 0, in.size(2) - 1)); },
      [](FrontImpl& n, Tensor const& in) { return n.first(in - in.select(2, 0).unsqueeze(2)); }};
  for (auto const& code : codes)
    for (bool const marks : {false, true}) {
      Front serial(code, marks);
      Front net(code, marks);
      nn::shard(*net, domain);
      Tensor y;
      auto const thrown = thrown_by([&] { y = net->forward(own); });
      // size(2) - 1 is no number of the globe, marked or not
      bool const is_number =
          thrown.text.find("shard?)") != std::string::npos || thrown.text.find("sizes of shards") != std::string::npos;
      if (!marks || !is_number) EXPECT_EQ(thrown.rule, marks ? "nothing was thrown" : "NotSharded") << thrown.text;
    }
  Front serial([](FrontImpl& n, Tensor const& in) { return n.first(in); });
  Front net([](FrontImpl& n, Tensor const& in) { return n.first(in); });
  nn::shard(*net, domain);
  auto const begin = cuts.lo(comm.rank());
  auto const middle = x.slice(2, 0, num_rows);
  auto const y = net->forward(middle.narrow(2, begin, cuts.size(comm.rank())));
  EXPECT_LT(difference(y, part.of(serial->forward(x))), 1e-10);
}

TEST(Eager, code_on_the_input_of_blocks_is_refused_where_rows_or_columns_are_needed) {
  auto const comm = test::world();
  if (comm.num_ranks() != 4) GTEST_SKIP() << "blocks of rows and columns need four ranks";
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  nn::FieldCuts const cuts{balanced_cuts(rows, 2), balanced_cuts(columns, 2)};
  nn::Domain const domain(comm, ProcessGrid{2, 2});
  auto const part = test::Part(domain, cuts);
  for (auto const axis : {-2, -1}) {
    Front net([axis](FrontImpl& n, Tensor const& own) { return n.first(own + own.mean(axis, true)); });
    nn::shard(*net, domain);
    EXPECT_EQ(thrown_by([&] { (void)net->forward(part.of(x)); }).rule, "NotSharded") << axis;
  }
  FrontImpl::Front const code = [](FrontImpl& n, Tensor const& own) {
    return n.first(torch::softmax(own, 1) * own.mean(1, true));
  };
  Front serial(code);
  Front net(code);
  nn::shard(*net, domain);
  EXPECT_LT(difference(net->forward(part.of(x)), part.of(serial->forward(x))), 1e-10);
}

TEST(Eager, code_on_a_marked_input_equals_the_serial_model) {
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  auto lines = wide_fronts();
  for (auto const& line : local_fronts()) lines.push_back(line);
  for (auto const& line : lines)
    each_front_cut([&](nn::Domain const& domain, test::Part const& part) {
      SCOPED_TRACE(line.name);
      Front serial(line.code, true);
      Front net(line.code, true);
      nn::shard(*net, domain);
      auto const whole = x.clone().requires_grad_();
      auto const own = part.of(x).clone().requires_grad_();
      for (int forward = 0; forward < 2; ++forward) {
        auto const expected = serial->forward(whole);
        auto const found = net->forward(own);
        EXPECT_LT(difference(found.detach(), part.of(expected.detach())), 1e-10);
        auto const of_whole = torch::autograd::grad({expected.square().sum()}, {whole})[0];
        auto const of_own = torch::autograd::grad({nn::reduce_loss(found.square().sum(), domain)}, {own})[0];
        EXPECT_LT(difference(of_own, part.of(of_whole)), 1e-9);
      }
    });
}

TEST(Eager, code_on_the_input_that_needs_no_other_rank_runs) {
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& line : local_fronts())
    each_front_cut([&](nn::Domain const& domain, test::Part const& part) {
      SCOPED_TRACE(line.name);
      Front serial(line.code);
      Front net(line.code);
      nn::shard(*net, domain);
      for (int forward = 0; forward < 2; ++forward)
        EXPECT_LT(difference(net->forward(part.of(x)), part.of(serial->forward(x))), 1e-10);
    });
}

TEST(Eager, whole_fields_are_prepared_as_they_are) {
  auto const domain = bands();
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});
  Front net([](FrontImpl& n, Tensor const& own) { return n.first(own); });
  Front serial([](FrontImpl& n, Tensor const& own) { return n.first(own); });
  nn::shard(*net, domain);
  for (int forward = 0; forward < 2; ++forward) {
    auto const whole = (x - x.mean(at::IntArrayRef{0, 2, 3}, true)) / x.std(at::IntArrayRef{0, 2, 3}, true, true);
    auto const weights = torch::linspace(0, 1, rows, torch::kDouble).view({1, 1, rows, 1});
    auto const scaled = weights / weights.mean();
    auto const y = net->forward(part.of(whole));
    auto const loss =
        nn::reduce_loss(((y - part.of(whole.roll(1, 2))).square() * part.of(scaled.expand_as(x))).sum(), domain);
    auto const expected = ((serial->forward(whole) - whole.roll(1, 2)).square() * scaled).sum();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-9 * std::abs(expected.item<double>()));
  }
}

TEST(Eager, numbers_by_the_index_in_a_shard_are_refused) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  std::mt19937 random(5);
  test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});
  auto const own = part.of(random_tensor(random, {2, 2, rows, columns})).clone();
  auto const first_row = domain.comm().rank() * 3;
  std::vector<std::pair<FrontImpl::Front, bool>> const codes{
      {[](FrontImpl& n, Tensor const& x) {
         auto const y = torch::linspace(-1, 1, x.size(2), torch::kDouble).view({1, 1, -1, 1});
         return n.first(torch::cat({x.narrow(1, 0, 1), (x.narrow(1, 1, 1) * y)}, 1));
       },
       true},
      {[](FrontImpl& n, Tensor const& x) {
         auto const y = torch::arange(x.size(2), torch::kDouble);
         auto const h = n.first(x);
         return n.first(n.first(h) + torch::sin(y / 7).view({-1, 1}));
       },
       true},
      {[](FrontImpl& n, Tensor const& x) {
         return n.first(
             x +
             torch::cos(torch::arange(x.size(2), torch::kDouble)).unsqueeze(-1).expand({2, 2, x.size(2), x.size(3)}));
       },
       true},
      {[&](FrontImpl& n, Tensor const& x) {  // on the globe
         auto const y = torch::arange(first_row, first_row + x.size(2), torch::kDouble);
         return n.first(x + y.view({1, 1, -1, 1}) + torch::arange(x.size(3), torch::kDouble));
       },
       false},
      {[&](FrontImpl& n, Tensor const& x) {
         auto const y = torch::linspace(-1, 1, 4 * rows, torch::kDouble).narrow(0, first_row, x.size(2));
         return n.first(x * y.view({1, 1, -1, 1}) + torch::arange(2, torch::kDouble).view({1, 2, 1, 1}));
       },
       false}};
  for (auto const& [code, is_wrong] : codes) {
    Front net(code);
    nn::shard(*net, domain);
    for (int forward = 0; forward < 2; ++forward)
      EXPECT_EQ(thrown_by([&] { (void)net->forward(own); }).rule, is_wrong ? "NotSharded" : "nothing was thrown");
  }
}

TEST(Eager, random_numbers_for_whole_rows_must_be_those_of_all_ranks) {
  auto const domain = bands();
  auto const comm = domain.comm();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  std::vector<FrontImpl::Front> const codes{
      [](FrontImpl& n, Tensor const& own) {
        return n.first(own * torch::rand({2, 1, 1, 1}, torch::kDouble));
      },
      [](FrontImpl& n, Tensor const& own) {
        auto const noise = torch::empty({2}, torch::kDouble).uniform_();
        auto const features = torch::sin(torch::linear(noise.unsqueeze(1), torch::ones({2, 1}, torch::kDouble)));
        auto const h = n.first(own);
        return n.first(h + features.view({2, 2, 1, 1}));
      },
      [](FrontImpl& n, Tensor const& own) { return n.first(own.index_select(0, torch::randint(0, 2, {2}))); }};
  // Noise of cells may be that of each rank; the second behind a layer, and beside numbers for whole rows.
  std::vector<FrontImpl::Front> const noisy{
      [](FrontImpl& n, Tensor const& own) { return n.first(own + torch::randn_like(own)); },
      [](FrontImpl& n, Tensor const& own) {
        auto const factor = torch::rand({2, 1, 1, 1}, at::make_generator<at::CPUGeneratorImpl>(7), torch::kDouble);
        auto const noise = torch::randn_like(own) * factor;
        return n.first(n.first(own * factor) + noise);
      }};
  auto const rule_of = [&](FrontImpl::Front const& code, Tensor const& own, std::uint64_t seed) {
    Front net(code);
    nn::shard(*net, domain);
    torch::manual_seed(seed);
    return thrown_by([&] {
             for (int i = 0; i < 4; ++i) (void)net->forward(own);  // two indices are often the same
           })
        .rule;
  };
  auto const other_seed = std::uint64_t(100 + comm.rank());
  for (auto const& cuts : cuts_of(domain)) {
    test::Part const part(domain, cuts, Cuts{columns});
    auto const own = part.of(x).clone();
    for (auto const& code : codes) {
      EXPECT_EQ(rule_of(code, own, 7), "nothing was thrown");
      EXPECT_EQ(rule_of(code, own, other_seed), "NotSharded");
    }
    for (auto const& code : noisy) EXPECT_EQ(rule_of(code, own, other_seed), "nothing was thrown");
  }
  // Where each rank has one row, nothing tells numbers of cells from those for whole rows.
  auto const single = x.narrow(2, comm.rank() % rows, 1).clone();
  for (auto const& code : codes) {
    EXPECT_EQ(rule_of(code, single, 7), "nothing was thrown");
    EXPECT_EQ(rule_of(code, single, other_seed), "NotSharded");
  }
  EXPECT_EQ(rule_of(noisy[0], single, 7), "nothing was thrown");
  EXPECT_EQ(rule_of(noisy[0], single, other_seed), "NotSharded");
}

TEST(Eager, random_numbers_depend_on_their_place_on_the_globe) {
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  for (auto const& code :
       std::vector<Code>{[](NetImpl&, Tensor const& h) { return torch::dropout(h, 0.5, true); },
                         [](NetImpl&, Tensor const& h) { return h + torch::rand_like(h) * torch::randn_like(h); }}) {
    std::vector<Tensor> outputs;
    auto const number = int(cuts_of(bands()).size());
    for (int i = 0; i < number; ++i) {
      auto const domain = bands();
      auto const cuts = cuts_of(domain)[std::size_t(i)];
      Net net(code);
      test::Part const part(domain, cuts, Cuts{columns});
      nn::shard(*net, domain);
      auto whole = torch::zeros_like(x);
      torch::NoGradGuard const no_grad;
      part.of(whole).copy_(net->forward(part.of(x)));
      outputs.push_back(test::over_ranks(domain.comm(), whole));
    }
    if (test::world().num_ranks() == 1) continue;
    for (auto const& output : outputs) EXPECT_LT(difference(output, outputs[0]), 1e-10);
    EXPECT_GT(outputs[0].std().item<double>(), 0.1);
  }
}

TEST(Eager, an_optimizer_takes_the_steps_of_the_serial_model) {
  auto const domain = bands();
  auto const code = [](NetImpl& n, Tensor const& h) {
    auto const gate = torch::sigmoid(h.mean(at::IntArrayRef{2, 3}, true) * n.gamma);
    return torch::roll(h * gate, {1}, {2}) * n.scale;
  };
  Net serial(code);
  Net net(code);
  nn::shard(*net, domain);
  std::mt19937 random(3);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  auto const target = random_tensor(random, {2, 2, rows, columns});
  test::Part const part(domain, test::random_cuts(random, rows, domain.comm().num_ranks()), Cuts{columns});
  torch::optim::SGD serial_optimizer(serial->parameters(), 0.01);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 0; step < 4; ++step) {
    serial_optimizer.zero_grad();
    (serial->forward(x) - target).square().mean().backward();
    serial_optimizer.step();
    optimizer.zero_grad();
    auto const y = net->forward(part.of(x));
    nn::reduce_loss((y - part.of(target)).square().sum() / double(target.numel()), domain).backward();
    for (auto& parameter : net->parameters()) {
      auto const grad = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
      parameter.mutable_grad() = test::over_ranks(domain.comm(), grad).clone();
    }
    optimizer.step();
  }

  auto const wanted = serial->parameters();
  auto const found = net->parameters();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_LT(difference(found[i], wanted[i]), 1e-9) << i;
}

TEST(Eager, sums_of_a_loss_are_those_of_this_rank) {
  auto const domain = bands();
  tn::Sequential net(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)));
  net->to(torch::kDouble);
  nn::shard(*net, domain);
  std::mt19937 random(5);
  test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});
  auto const y = net->forward(part.of(random_tensor(random, {2, 2, rows, columns})));
  double local = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) local += std::abs(y.detach().contiguous().data_ptr<double>()[i]);

  EXPECT_NEAR(y.abs().sum().item<double>(), local, 1e-10);
  EXPECT_EQ(y.narrow(2, 0, y.size(2)).size(2), part.num_rows);
  auto total = local;
  domain.comm().sum(std::span(&total, 1));
  EXPECT_NEAR(nn::reduce_loss(y.abs().sum(), domain).item<double>(), total, 1e-9);
  EXPECT_EQ(thrown_by([&] { (void)nn::reduce_loss(y.square().sum(), domain); }).rule, "nothing was thrown");
}

TEST(Eager, takes_sums_over_all_ranks_for_whole) {
  auto const domain = bands();
  Net serial([](NetImpl&, Tensor const& h) { return h - h.sum(at::IntArrayRef{2, 3}, true) / 72; });
  Net net([&](NetImpl&, Tensor const& h) {
    return h - nn::all_sum(h.sum(at::IntArrayRef{2, 3}, true), domain.comm()) / 72;
  });
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  test::Part const part(domain, test::random_cuts(random, rows, domain.grid().extent(0)), Cuts{columns});
  nn::shard(*net, domain);

  EXPECT_LT(difference(net->forward(part.of(x)), part.of(serial->forward(x))), 1e-11);
}

TEST(Eager, leaves_code_alone_that_is_examined_or_not_to_be_watched) {
  auto const domain = bands();
  std::mt19937 random(5);
  test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});
  auto const x = part.of(random_tensor(random, {2, 2, rows, columns})).clone();
  Net plain([](NetImpl&, Tensor const& h) { return torch::roll(h, {1}, {2}); });
  Net examined([](NetImpl&, Tensor const& h) {
    nn::Examined const scope;
    return torch::roll(h, {1}, {2});
  });
  nn::shard(*plain, domain, {.watch = nn::WatchOperators::never});
  nn::shard(*examined, domain);

  EXPECT_LT(difference(plain->forward(x), examined->forward(x)), 1e-12);
}

/// Blocks within blocks, so that a text can name the one.
struct BlockImpl : tn::Module {
  BlockImpl()
      : one(register_module("one", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 1)))),
        two(register_module("two", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 1)))) {}
  Tensor forward(Tensor const& x) {
    auto const h = one(x);
    return two(h * torch::rand({1, 2, 1, 1}));
  }
  nn::Layer<tn::Conv2d> one, two;
};
TORCH_MODULE(Block);

TEST(Eager, names_the_module_whose_code_it_is) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  tn::Sequential net(tn::Conv2d(2, 2, 1), Block());
  nn::shard(*net, domain);

  auto const thrown = thrown_by([&] { (void)net->forward(torch::rand({1, 2, 3, 4})); });

  EXPECT_EQ(thrown.rule, "NotSharded");
  for (auto const* text : {"aten::rand", "1 (Block)", "1.one"})
    EXPECT_NE(thrown.text.find(text), std::string::npos) << text << " in " << thrown.text;
}

/// Layers of this library between the others: their own code is theirs, and their results are shards.
struct MixedImpl : tn::Module {
  MixedImpl()
      : enter(register_module("enter", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 4, 1)))),
        attention(register_module("attention", nn::SelfAttention(nn::SelfAttentionOptions{{4, 2}}))),
        leave(register_module("leave", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(4, 2, 1)))) {}
  Tensor forward(Tensor const& x) {
    auto h = enter(x);
    h = torch::relu(h + attention(h));
    return leave(h.roll(1, 2));
  }
  nn::Layer<tn::Conv2d> enter;
  nn::SelfAttention attention;
  nn::Layer<tn::Conv2d> leave;
};
TORCH_MODULE(Mixed);

TEST(Eager, follows_fields_through_layers_of_this_library) {
  auto const domain = bands();
  Mixed net;
  std::mt19937 random(5);
  for (auto& parameter : net->parameters()) parameter.set_data(random_tensor(random, parameter.sizes().vec()));
  Mixed serial;
  auto const given = net->parameters();
  auto taken = serial->parameters();
  for (std::size_t i = 0; i < given.size(); ++i) taken[i].set_data(given[i].detach().clone());
  nn::shard(*net, domain);
  auto const x = random_tensor(random, {1, 2, rows, columns});
  test::Part const part(domain, balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns});

  EXPECT_LT(difference(net->forward(part.of(x)), part.of(serial->forward(x))), 1e-10);
}

nn::Trial trial_of(Code const& code, nn::Domain const& domain, nn::FieldCuts const& cuts) {
  Net serial(code);
  Net net(code);
  nn::shard(*net, domain);
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, rows, columns});
  auto const before = net->gamma.clone();
  auto trial = nn::try_sharded([&](Tensor const& in) { return serial->forward(in); },
                               [&](Tensor const& in) { return net->forward(in); }, x, domain, cuts);
  EXPECT_TRUE(torch::equal(net->gamma, before));
  for (auto const& parameter : net->named_parameters())
    EXPECT_TRUE(torch::equal(parameter.value(), serial->named_parameters()[parameter.key()])) << parameter.key();
  return trial;
}

TEST(TrySharded, passes_what_is_exact_and_lists_what_is_refused) {
  auto code = everyday_code();
  for (auto const& line : local_code()) code.push_back(line);
  for (auto const& line : moving_code()) code.push_back(line);
  for (auto const& line : code) {
    SCOPED_TRACE(line.name);
    auto const domain = bands();
    auto const trial = trial_of(line.code, domain, {balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns}});
    EXPECT_LT(trial.output_difference, 1e-10) << trial.text();
    EXPECT_LT(trial.gradient_difference, 1e-9) << trial.text();
    EXPECT_TRUE(trial.refusals.empty()) << trial.text();
  }
  Line const refused{"rand", [](NetImpl&, Tensor const& h) { return h * torch::rand({2, 1, 1, 1}, torch::kDouble); }};
  auto const domain = bands();
  auto const trial = trial_of(refused.code, domain, {balanced_cuts(rows, domain.comm().num_ranks()), Cuts{columns}});
  EXPECT_EQ(trial.refusals.empty(), domain.comm().num_ranks() == 1) << trial.text();
}

TEST(TrySharded, says_that_nothing_was_divided_where_one_rank_has_all) {
  auto const domain = bands();
  std::vector<Index> all(std::size_t(domain.comm().num_ranks()), 0);
  all.back() = rows;
  Code const code = [](NetImpl& n, Tensor const& h) { return h + n.gamma; };

  auto const trial = trial_of(code, domain, {Cuts(all), Cuts{columns}});

  EXPECT_EQ(trial.num_parts, 1);
  EXPECT_NE(trial.text().find("NOTHING WAS DIVIDED"), std::string::npos) << trial.text();
  EXPECT_LT(trial.gradient_difference, 1e-10) << trial.text();
}

TEST(TrySharded, refuses_what_acts_on_the_input_before_the_first_layer) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  tn::Sequential serial(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)));
  for (auto& parameter : serial->parameters())
    domain.comm().broadcast(parameter.data_ptr(), Index(parameter.nbytes()), 0);
  tn::Sequential net(std::dynamic_pointer_cast<tn::SequentialImpl>(serial->clone()));
  nn::shard(*net, domain);
  auto const forward = [](tn::Sequential& model, Tensor const& x) { return model->forward(x - x.roll(1, 2)); };

  auto const trial =
      nn::try_sharded([&](Tensor const& in) { return forward(serial, in); },
                      [&](Tensor const& in) { return forward(net, in); }, torch::rand({1, 2, 6, 4}), domain);

  ASSERT_FALSE(trial.refusals.empty());
  EXPECT_NE(trial.refusals[0].find("aten::roll"), std::string::npos);
}

}  // namespace test_eager
}  // namespace graticule
