// SPDX-License-Identifier: BSD-3-Clause
// Code between the layers of a sharded model: what is right passes, what is wrong is refused, and a trial says so.
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/call/examined.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/shard.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace graticule {
namespace test_watch {

namespace tn = torch::nn;
namespace F = torch::nn::functional;
using test::bands;
using test::difference;
using test::random_tensor;
using test::rule_of;
using test::thrown_by;
using torch::Tensor;

using Code = std::function<Tensor(Tensor const& h, Tensor const& gamma)>;

/// Two convolutions and functional code between them, which has a parameter [1, 4, 1, 1].
struct NetImpl : tn::Module {
  explicit NetImpl(Code between)
      : code(std::move(between)),
        first(register_module("first", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 4, 3).padding(1)))),
        last(register_module("last", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(4, 2, 3).padding(1)))),
        gamma(register_parameter("gamma", torch::zeros({1, 4, 1, 1}))) {
    std::mt19937 random(11);
    for (auto& parameter : parameters()) parameter.set_data(random_tensor(random, parameter.sizes().vec()));
    gamma.detach().zero_();
  }
  Tensor forward(Tensor const& x) { return last(code(first(x), gamma)); }

  Code code;
  nn::Layer<tn::Conv2d> first, last;
  Tensor gamma;
};
TORCH_MODULE(Net);

struct Line {
  char const* name;
  Code code;
};

/// Right on shards of rows.
std::vector<Line> right_code() {
  return {
      {"arithmetic", [](Tensor const& h, Tensor const& g) { return torch::gelu(h) * (1 + g) - h.square() / 3; }},
      {"in place", [](Tensor const& h, Tensor const&) { return h.mul(2).add_(h, 0.5).relu_(); }},
      {"channels", [](Tensor const& h, Tensor const&) { return h - h.mean(1, true); }},
      {"softmax over channels", [](Tensor const& h, Tensor const& g) { return h + g * torch::softmax(h, 1); }},
      {"columns are whole",
       [](Tensor const& h, Tensor const&) {
         return h - h.mean(-1, true) + torch::roll(h, {1}, {-1}) + torch::softmax(h, -1) + torch::cumsum(h, -1);
       }},
      {"layer norm over channels",
       [](Tensor const& h, Tensor const&) {
         return torch::layer_norm(h.permute({0, 2, 3, 1}), {4}).permute({0, 3, 1, 2});
       }},
      {"a linear layer over channels",
       [](Tensor const& h, Tensor const&) {
         auto const weight = torch::linspace(-1, 1, 16, torch::kDouble).view({4, 4});
         return torch::linear(h.movedim(1, -1), weight).movedim(-1, 1).contiguous();
       }},
      {"tokens",
       [](Tensor const& h, Tensor const&) {
         auto const tokens = h.flatten(2).transpose(1, 2);
         auto const mixed = torch::matmul(tokens, torch::linspace(0, 1, 16, torch::kDouble).view({4, 4}));
         return mixed.transpose(1, 2).view(h.sizes());
       }},
      {"an einsum over channels",
       [](Tensor const& h, Tensor const&) {
         return torch::einsum("bchw,dc->bdhw", {h, torch::linspace(0, 1, 16, torch::kDouble).view({4, 4})});
       }},
      {"parts of channels",
       [](Tensor const& h, Tensor const&) {
         auto const halves = h.chunk(2, 1);
         return torch::cat({halves[1] * torch::sigmoid(halves[0]), h.narrow(1, 0, 2)}, 1);
       }},
      {"stack and unbind",
       [](Tensor const& h, Tensor const&) {
         return torch::stack({h, 2 * h}, 2).unbind(2)[1];
       }},
      {"a convolution of one cell",
       [](Tensor const& h, Tensor const&) {
         return F::conv2d(h, torch::linspace(0, 1, 16, torch::kDouble).view({4, 4, 1, 1}));
       }},
      {"padded channels",
       [](Tensor const& h, Tensor const&) {
         return torch::constant_pad_nd(h, {0, 0, 0, 0, 1, 1}).narrow(1, 1, 4);
       }},
      {"constants",
       [](Tensor const& h, Tensor const&) {
         return h + torch::ones_like(h) + torch::zeros({1, 4, 1, 1});
       }},
      {"a mask", [](Tensor const& h, Tensor const&) { return torch::where(h > 0, h, h.masked_fill(h < -1, -1)); }},
      {"attention along columns",
       [](Tensor const& h, Tensor const&) {
         auto const rows = h.permute({0, 2, 3, 1});
         return torch::scaled_dot_product_attention(rows, rows, rows).permute({0, 3, 1, 2});
       }},
  };
}

/// Wrong on shards of rows.
std::vector<Line> wrong_code() {
  return {
      {"mean",
       [](Tensor const& h, Tensor const&) {
         return h - h.mean(at::IntArrayRef{2, 3}, true);
       }},
      {"sum",
       [](Tensor const& h, Tensor const&) {
         return h - h.sum(at::IntArrayRef{2, 3}, true) / (h.size(2) * h.size(3));
       }},
      {"std", [](Tensor const& h, Tensor const&) { return h / (h.std(2, true, true) + 1); }},
      {"amax", [](Tensor const& h, Tensor const&) { return h - h.amax(at::IntArrayRef{2}, true); }},
      {"max", [](Tensor const& h, Tensor const&) { return h / (1 + h.abs().max()); }},
      {"roll", [](Tensor const& h, Tensor const&) { return torch::roll(h, {1}, {2}); }},
      {"softmax", [](Tensor const& h, Tensor const& g) { return h + g * torch::softmax(h, -2); }},
      {"flip", [](Tensor const& h, Tensor const&) { return h + h.flip({2}); }},
      {"cumsum", [](Tensor const& h, Tensor const&) { return torch::cumsum(h, -2); }},
      {"upsample",
       [](Tensor const& h, Tensor const&) {
         return F::interpolate(h, F::InterpolateFuncOptions()
                                      .scale_factor(std::vector<double>{2, 2})
                                      .mode(torch::kBilinear)
                                      .align_corners(false));
       }},
      {"constant_pad_nd",
       [](Tensor const& h, Tensor const&) {
         return torch::constant_pad_nd(h, {1, 1, 1, 1});
       }},
      {"_pad_circular",
       [](Tensor const& h, Tensor const&) {
         return F::pad(h, F::PadFuncOptions({0, 0, 1, 1}).mode(torch::kCircular));
       }},
      {"avg_pool2d", [](Tensor const& h,
                        Tensor const&) { return F::avg_pool2d(h, F::AvgPool2dFuncOptions(3).stride(1).padding(1)); }},
      {"conv2d",
       [](Tensor const& h, Tensor const&) {
         return F::conv2d(h, torch::ones({4, 4, 3, 3}, torch::kDouble), F::Conv2dFuncOptions().padding(1));
       }},
      {"arange",
       [](Tensor const& h, Tensor const&) {
         return h + torch::arange(h.size(2), torch::kDouble).view({-1, 1});
       }},
      {"rand",
       [](Tensor const& h, Tensor const&) {
         return h * torch::rand({h.size(0), 1, 1, 1}, torch::kDouble);
       }},
      {"dropout", [](Tensor const& h, Tensor const&) { return torch::dropout(h, 0.5, true); }},
      {"layer_norm",
       [](Tensor const& h, Tensor const&) {
         return torch::layer_norm(h, {h.size(2), h.size(3)});
       }},
      {"group_norm", [](Tensor const& h, Tensor const&) { return torch::group_norm(h, 2); }},
      {"matmul",
       [](Tensor const& h, Tensor const&) {
         return torch::matmul(torch::ones({h.size(2), h.size(2)}, torch::kDouble), h);
       }},
      {"attention",
       [](Tensor const& h, Tensor const&) {
         auto const tokens = h.flatten(2).transpose(1, 2);
         return torch::scaled_dot_product_attention(tokens, tokens, tokens).transpose(1, 2).reshape(h.sizes());
       }},
      {"slice",
       [](Tensor const& h, Tensor const&) {
         return torch::cat({h.narrow(2, 0, 1), h.narrow(2, 0, h.size(2) - 1)}, 2);
       }},
      {"sort", [](Tensor const& h, Tensor const&) { return std::get<0>(h.sort(2)); }},
      {"fft", [](Tensor const& h, Tensor const&) { return at::real(torch::fft::fft(h, {}, 2)); }},
      {"index",
       [](Tensor const& h, Tensor const&) {
         return h.index({torch::indexing::Slice(), torch::indexing::Slice(), torch::arange(h.size(2)).flip(0)});
       }},
      {"a row set to zero",
       [](Tensor const& h, Tensor const&) {
         auto result = h.clone();
         result.narrow(2, 0, 1).zero_();
         return result;
       }},
      {"a row set by indices",
       [](Tensor const& h, Tensor const&) {
         auto result = 2 * h;
         result.index_put_({torch::indexing::Slice(), torch::indexing::Slice(), 0}, 1.0);
         return result;
       }},
      {"a mean after permuting",
       [](Tensor const& h, Tensor const&) {
         auto const last = h.permute({0, 2, 3, 1});
         return (last - last.mean(1, true)).permute({0, 3, 1, 2});
       }},
  };
}

TEST(Watch, lets_code_pass_that_is_right_on_shards) {
  auto const domain = bands();
  for (auto const& line : right_code()) {
    SCOPED_TRACE(line.name);
    Net serial(line.code);
    Net net(line.code);
    std::mt19937 random(5);
    auto const x = random_tensor(random, {2, 2, 9, 8});
    test::Part const part(domain, balanced_cuts(9, domain.comm().num_ranks()), Cuts{8});
    nn::shard(*net, domain, {.watch = nn::WatchOperators::always});

    for (int call = 0; call < 2; ++call) {
      Tensor found;
      auto const thrown = thrown_by([&] { found = net->forward(part.of(x)); });

      EXPECT_EQ(thrown.rule, "nothing was thrown") << thrown.text;
      if (thrown.rule == "nothing was thrown") {
        EXPECT_LT(difference(found, part.of(serial->forward(x))), 1e-11);
      }
    }
  }
}

TEST(Watch, takes_sums_over_all_ranks_for_whole) {
  auto const domain = bands();
  Net serial([](Tensor const& h, Tensor const&) { return h - h.sum(at::IntArrayRef{2, 3}, true) / 72; });
  Net net([&](Tensor const& h, Tensor const&) {
    return h - nn::all_sum(h.sum(at::IntArrayRef{2, 3}, true), domain.comm()) / 72;
  });
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, 9, 8});
  test::Part const part(domain, test::random_cuts(random, 9, domain.grid().extent(0)), Cuts{8});
  nn::shard(*net, domain);

  EXPECT_LT(difference(net->forward(part.of(x)), part.of(serial->forward(x))), 1e-11);
}

TEST(Watch, refuses_code_that_is_wrong_on_shards_on_all_ranks) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  for (auto const& line : wrong_code()) {
    SCOPED_TRACE(line.name);
    Net net(line.code);
    std::mt19937 random(5);
    auto const x = random_tensor(random, {2, 2, 9, 8});
    test::Part const part(domain, balanced_cuts(9, domain.comm().num_ranks()), Cuts{8});
    nn::shard(*net, domain);

    auto const thrown = thrown_by([&] { (void)net->forward(part.of(x)); });

    EXPECT_EQ(thrown.rule, "NotSharded");
    EXPECT_NE(thrown.text.find("aten::"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("after layer first"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("Net"), std::string::npos) << thrown.text;
  }
}

TEST(Watch, refuses_what_is_wrong_behind_the_last_layer_in_the_loss) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  tn::Sequential net(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)));
  nn::shard(*net, domain);
  nn::MSELoss loss_of(domain);
  test::Part const part(domain, balanced_cuts(9, domain.comm().num_ranks()), Cuts{8});
  auto const x = part.of(torch::rand({2, 2, 9, 8})).clone();

  auto const y = net->forward(x);
  auto const thrown = thrown_by([&] { (void)loss_of(y - y.mean(), x); });
  auto const by_hand = thrown_by([&] { (void)nn::reduce_loss((y - y.mean(2, true)).square().sum(), domain); });

  EXPECT_EQ(thrown.rule, "NotSharded");
  EXPECT_NE(thrown.text.find("aten::mean"), std::string::npos) << thrown.text;
  EXPECT_EQ(by_hand.rule, "NotSharded");
  EXPECT_EQ(rule_of([&] { (void)nn::reduce_loss(y.square().sum(), domain); }), "nothing was thrown");
  EXPECT_EQ(rule_of([&] { (void)loss_of(y, x); }), "nothing was thrown");
  // Numbers for a log go into no layer.
  EXPECT_EQ(rule_of([&] { (void)y.abs().max().item<double>(), (void)net->forward(x); }), "nothing was thrown");
}

TEST(Watch, believes_code_that_is_examined_and_looks_at_the_first_calls_only) {
  auto const domain = bands();
  Code const vouched = [](Tensor const& h, Tensor const&) {
    nn::Examined const examined;
    return torch::roll(h, {1}, {2});
  };
  bool is_wrong = false;
  Code const later = [&](Tensor const& h, Tensor const&) { return is_wrong ? torch::roll(h, {1}, {2}) : h; };
  std::mt19937 random(5);
  test::Part const part(domain, balanced_cuts(9, domain.comm().num_ranks()), Cuts{8});
  auto const x = part.of(random_tensor(random, {2, 2, 9, 8})).clone();
  for (auto const& code : {vouched, later}) {
    Net net(code);
    nn::shard(*net, domain);
    is_wrong = false;
    for (int call = 0; call < 4; ++call) {
      EXPECT_EQ(rule_of([&] { (void)net->forward(x); }), "nothing was thrown");
      is_wrong = call >= 1;
    }
  }
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

/// Blocks within blocks, so that a text can name the one.
struct BlockImpl : tn::Module {
  BlockImpl()
      : one(register_module("one", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 1)))),
        two(register_module("two", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 1)))) {}
  Tensor forward(Tensor const& x) { return two(one(x).flip({-2})); }
  nn::Layer<tn::Conv2d> one, two;
};
TORCH_MODULE(Block);

TEST(Watch, names_the_module_whose_code_it_is) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "one rank has all cells";
  tn::Sequential net(tn::Conv2d(2, 2, 1), Block());
  nn::shard(*net, domain);

  auto const thrown = thrown_by([&] { (void)net->forward(torch::rand({1, 2, 3, 4})); });

  EXPECT_EQ(thrown.rule, "NotSharded");
  for (auto const* text : {"aten::flip", "rows", "1 (Block)", "1.one", "1.two"})
    EXPECT_NE(thrown.text.find(text), std::string::npos) << text << " in " << thrown.text;
}

/// Layers of this library between the others: their own code is theirs, and their results are shards.
struct MixedImpl : tn::Module {
  explicit MixedImpl(bool wrong)
      : is_wrong(wrong),
        enter(register_module("enter", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 4, 1)))),
        attention(register_module("attention", nn::SelfAttention(nn::SelfAttentionOptions{{4, 2}}))),
        leave(register_module("leave", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(4, 2, 1)))) {}
  Tensor forward(Tensor const& x) {
    auto h = enter(x);
    h = torch::relu(h + attention(h));
    return leave(is_wrong ? h.roll(1, 2) : h);
  }
  bool is_wrong;
  nn::Layer<tn::Conv2d> enter;
  nn::SelfAttention attention;
  nn::Layer<tn::Conv2d> leave;
};
TORCH_MODULE(Mixed);

TEST(Watch, leaves_the_code_of_layers_alone) {
  auto const domain = bands();
  for (bool const wrong : {false, true}) {
    Mixed net(wrong);
    nn::shard(*net, domain);
    bool const refused = wrong && domain.comm().num_ranks() > 1;

    EXPECT_EQ(rule_of([&] {
                (void)net->forward(torch::rand({1, 2, 3, 4}));
              }),
              refused ? "NotSharded" : "nothing was thrown");
  }
}

struct Warnings : c10::WarningHandler {
  void process(c10::Warning const& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

TEST(Watch, is_silent_about_serial_models_with_fields_of_the_same_extents) {
  auto const domain = bands();
  Warnings warnings;
  c10::WarningUtils::WarningHandlerGuard const guard(&warnings);
  std::mt19937 random(5);
  test::Part const part(domain, balanced_cuts(9, domain.comm().num_ranks()), Cuts{8});
  auto const x = part.of(random_tensor(random, {2, 2, 9, 8})).clone();
  auto const same_extents = x.clone();
  {
    tn::Sequential net(tn::Conv2d(2, 2, 1));
    net->to(torch::kDouble);
    nn::shard(*net, domain);
    (void)net->forward(x);
  }
  // Its weights are drawn while the operators are watched; attention takes its input for a field.
  tn::Sequential serial(tn::Conv2d(tn::Conv2dOptions(2, 4, 3).padding(1)),
                        nn::SelfAttention(nn::SelfAttentionOptions{{4, 2}}),
                        tn::ConvTranspose2d(tn::ConvTranspose2dOptions(4, 2, 3).padding(1)));
  serial->to(torch::kDouble);

  // Layers of the serial model have the domain of one rank.
  for (auto const& of_loss : {domain, nn::Domain()}) {
    nn::MSELoss loss_of(of_loss);
    (void)loss_of(serial->forward(domain.comm().num_ranks() == 1 ? x : same_extents), x);
  }

  for (auto const& text : warnings.texts) ADD_FAILURE() << text;
}

TEST(Watch, takes_parameters_for_the_same_on_all_ranks) {
  auto const domain = bands();
  Net watched([](Tensor const& h, Tensor const&) { return h; });
  nn::shard(*watched, domain);
  (void)watched->forward(torch::rand({1, 2, 3, 4}, torch::kDouble));
  auto const drawn = torch::rand({1, 4, 1, 1}, torch::kDouble).requires_grad_();
  Net net([&](Tensor const& h, Tensor const&) { return h * drawn; });
  nn::shard(*net, domain);

  EXPECT_EQ(rule_of([&] { (void)net->forward(torch::rand({1, 2, 3, 4}, torch::kDouble)); }), "nothing was thrown");
}

nn::Trial trial_of(Code const& code, nn::Domain const& domain, nn::FieldCuts const& cuts) {
  Net serial(code);
  Net net(code);
  nn::shard(*net, domain);
  std::mt19937 random(5);
  auto const x = random_tensor(random, {2, 2, 9, 8});
  auto const before = net->gamma.clone();
  auto trial = nn::try_sharded([&](Tensor const& in) { return serial->forward(in); },
                               [&](Tensor const& in) { return net->forward(in); }, x, domain, cuts);
  EXPECT_TRUE(torch::equal(net->gamma, before));
  EXPECT_TRUE(torch::equal(serial->gamma, before));
  for (auto const& parameter : net->named_parameters())
    EXPECT_TRUE(torch::equal(parameter.value(), serial->named_parameters()[parameter.key()])) << parameter.key();
  return trial;
}

TEST(TrySharded, compares_the_gradients_of_parameters_that_are_zero) {
  auto const domain = bands();
  nn::FieldCuts const cuts{balanced_cuts(9, domain.comm().num_ranks()), Cuts{8}};
  Code const code = [](Tensor const& h, Tensor const& gamma) { return h + gamma * torch::softmax(h, -2); };

  auto const trial = trial_of(code, domain, cuts);

  ASSERT_EQ(trial.parameters.size(), 5U) << trial.text();
  if (domain.comm().num_ranks() == 1) {
    EXPECT_LT(trial.gradient_difference, 1e-10);
    EXPECT_EQ(trial.num_parts, 1);
    EXPECT_NE(trial.text().find("NOTHING WAS DIVIDED"), std::string::npos) << trial.text();
  } else {
    EXPECT_GT(trial.gradient_difference, 1e-3) << trial.text();
    EXPECT_GT(trial.parameters[2].difference, 1e-2) << trial.text();
    EXPECT_GT(trial.output_difference, 1e-3) << "gamma is moved";
    EXPECT_EQ(trial.text().find("NOTHING WAS DIVIDED"), std::string::npos);
  }
  EXPECT_EQ(trial.parameters[0].name, "first.weight");
  EXPECT_NE(trial.parameters[2].name.find("own code"), std::string::npos);
  ASSERT_FALSE(trial.refusals.empty());
  EXPECT_NE(trial.refusals[0].find("softmax"), std::string::npos) << trial.refusals[0];
}

TEST(TrySharded, says_that_nothing_was_divided_where_one_rank_has_all) {
  auto const domain = bands();
  std::vector<Index> rows(std::size_t(domain.comm().num_ranks()), 0);
  rows.back() = 9;
  Code const code = [](Tensor const& h, Tensor const& gamma) { return h + gamma; };

  auto const trial = trial_of(code, domain, {Cuts(rows), Cuts{8}});

  EXPECT_EQ(trial.num_parts, 1);
  EXPECT_NE(trial.text().find("NOTHING WAS DIVIDED"), std::string::npos) << trial.text();
  EXPECT_LT(trial.gradient_difference, 1e-10) << trial.text();
}

TEST(TrySharded, passes_what_is_right_and_finds_all_that_is_wrong) {
  auto const domain = bands();
  nn::FieldCuts const cuts{balanced_cuts(9, domain.comm().num_ranks()), Cuts{8}};
  for (auto const& line : right_code()) {
    SCOPED_TRACE(line.name);
    auto const trial = trial_of(line.code, domain, cuts);
    EXPECT_LT(trial.output_difference, 1e-11) << trial.text();
    EXPECT_LT(trial.gradient_difference, 1e-10) << trial.text();
    EXPECT_TRUE(trial.refusals.empty()) << trial.text();
  }
  for (auto const& line : wrong_code()) {
    SCOPED_TRACE(line.name);
    auto const trial = trial_of(line.code, domain, cuts);
    EXPECT_FALSE(trial.refusals.empty()) << trial.text();
    if (domain.comm().num_ranks() > 1) {
      EXPECT_GT(std::max(trial.output_difference, trial.gradient_difference), 1e-6) << trial.text();
    }
  }
}

TEST(TrySharded, sees_what_acts_on_the_input_before_the_first_layer) {
  auto const domain = bands();
  tn::Sequential serial(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)));
  for (auto& parameter : serial->parameters())
    domain.comm().broadcast(parameter.data_ptr(), Index(parameter.nbytes()), 0);
  tn::Sequential net(std::dynamic_pointer_cast<tn::SequentialImpl>(serial->clone()));
  nn::shard(*net, domain);
  auto const forward = [](tn::Sequential& model, Tensor const& x) { return model->forward(x - x.mean()); };

  auto const trial =
      nn::try_sharded([&](Tensor const& in) { return forward(serial, in); },
                      [&](Tensor const& in) { return forward(net, in); }, torch::ones({1, 2, 6, 4}), domain);

  ASSERT_FALSE(trial.refusals.empty());
  EXPECT_NE(trial.refusals[0].find("aten::mean"), std::string::npos);
}

}  // namespace test_watch
}  // namespace graticule
