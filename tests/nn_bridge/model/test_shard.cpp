// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/examined.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/shard.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace graticule {
namespace test_shard {

namespace tn = torch::nn;
using test::difference;
using test::Part;
using test::random_tensor;

using test::bands;

nn::Verdict verdict_of(nn::ShardReport const& report, std::string const& path) {
  for (auto const& module : report.modules)
    if (module.path == path) return module.verdict;
  ADD_FAILURE() << "no module " << path << " in\n" << report.text();
  return nn::Verdict::refused;
}

std::string reason_of(nn::ShardReport const& report, std::string const& path) {
  for (auto const& module : report.modules)
    if (module.path == path) return module.reason;
  return "";
}

/// A Sequential that can stand in another one, which LibTorch's own cannot.
struct BlockImpl : tn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  torch::Tensor forward(torch::Tensor const& x) { return SequentialImpl::forward(x); }
  std::shared_ptr<Module> clone(std::optional<torch::Device> const& device = {}) const override {
    auto copy = std::make_shared<BlockImpl>();
    for (auto const& layer : *this) copy->push_back(layer.clone(device));
    return copy;
  }
};
TORCH_MODULE(Block);

tn::Sequential mixed_model() {
  return tn::Sequential(
      tn::Conv2d(tn::Conv2dOptions(3, 4, 3).padding(1)), tn::BatchNorm2d(4), tn::GELU(),
      Block(tn::Conv2d(tn::Conv2dOptions(4, 4, 5).padding(2).padding_mode(torch::kCircular)), tn::GroupNorm(2, 4)),
      tn::Conv2d(4, 2, 1));
}

/// A model as users write it: a class with members.
struct NetImpl : tn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    enter = register_module("enter", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 4, 3).padding(1)));
    norm = register_module("norm", nn::Layer<tn::BatchNorm2d>(4));
    blocks = register_module("blocks", tn::ModuleList(tn::Conv2d(tn::Conv2dOptions(4, 4, 3).padding(1)),
                                                      tn::Conv2d(tn::Conv2dOptions(4, 4, 3).padding(1))));
    leave = register_module("leave", tn::Sequential(tn::Conv2d(4, 1, 1)));
  }
  torch::Tensor forward(torch::Tensor const& x) {
    auto h = torch::relu(norm(enter(x)));
    for (auto const& block : *blocks) h = h + torch::gelu(run(*block, h));
    return leave->forward(h);
  }
  static torch::Tensor run(tn::Module& block, torch::Tensor const& h) {
    if (auto* layer = dynamic_cast<nn::LayerImpl<tn::Conv2dImpl>*>(&block)) return layer->forward(h);
    return block.as<tn::Conv2d>()->forward(h);
  }
  nn::Layer<tn::Conv2d> enter{nullptr};
  nn::Layer<tn::BatchNorm2d> norm{nullptr};
  tn::ModuleList blocks{nullptr};
  tn::Sequential leave{nullptr};
};
TORCH_MODULE(Net);

/// Calls a convolution by its own type, out of reach.
struct ClosedImpl : tn::Module {
  ClosedImpl() : conv(register_module("conv", tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)))) {}
  torch::Tensor forward(torch::Tensor const& x) { return conv(x); }
  tn::Conv2d conv;
};
TORCH_MODULE(Closed);

template <class Model>
Model clone_of(Model const& model) {
  return Model(std::dynamic_pointer_cast<typename Model::ContainedType>(model->clone()));
}

TEST(Shard, gives_a_sequential_the_outputs_gradients_and_statistics_of_the_serial_model) {
  auto const domain = bands();
  std::mt19937 random(5);
  for (int i = 0; i < 4; ++i) {
    torch::manual_seed(7);
    auto model = mixed_model();
    model->to(torch::kDouble);
    auto serial = clone_of(model);
    Part const part(domain, test::random_cuts(random, 7, domain.grid().extent(0)), Cuts{6});
    auto const whole = random_tensor(random, {2, 3, 7, 6}).requires_grad_();
    auto const shard = part.of(whole.detach()).clone().requires_grad_();
    auto const cotangent = random_tensor(random, {2, 2, 7, 6});

    auto const report = nn::shard(*model, domain);
    nn::GradientSync const sync(*model, {{domain.comm(), nn::Reduction::sum}});
    auto const expected = serial->forward(whole);
    auto const found = model->forward(shard);
    (expected * cotangent).sum().backward();
    nn::reduce_loss((found * part.of(cotangent)).sum(), domain).backward();
    sync.reduce();

    EXPECT_EQ(report.num(nn::Verdict::sharded), 5) << report.text();
    EXPECT_EQ(report.num(nn::Verdict::refused), 0);
    EXPECT_LT(difference(found, part.of(expected)), 1e-12);
    EXPECT_LT(difference(shard.grad(), part.of(whole.grad())), 1e-10);
    auto const parameters = serial->named_parameters();
    ASSERT_EQ(model->named_parameters().size(), parameters.size());
    for (auto const& parameter : model->named_parameters()) {
      auto const* const twin = parameters.find(parameter.key());
      ASSERT_NE(twin, nullptr) << parameter.key();
      EXPECT_LT(difference(parameter.value().grad(), twin->grad()), 1e-10) << parameter.key();
    }
    for (auto const& buffer : model->named_buffers())
      EXPECT_LT(difference(buffer.value().to(torch::kDouble), serial->named_buffers()[buffer.key()].to(torch::kDouble)),
                1e-12)
          << buffer.key();
  }
}

TEST(Shard, covers_pools_resizing_and_norms_over_the_globe) {
  auto const domain = bands();
  std::mt19937 random(6);
  torch::manual_seed(7);
  tn::Sequential model(
      tn::Conv2d(tn::Conv2dOptions(2, 4, 3).padding(1)), tn::InstanceNorm2d(tn::InstanceNorm2dOptions(4).affine(true)),
      tn::MaxPool2d(tn::MaxPool2dOptions(3).stride(2).padding(1)), tn::LayerNorm(tn::LayerNormOptions({5, 4})),
      tn::Upsample(
          tn::UpsampleOptions().size(std::vector<std::int64_t>{9, 8}).mode(torch::kBilinear).align_corners(false)),
      tn::AvgPool2d(2), tn::AdaptiveAvgPool2d(tn::AdaptiveAvgPool2dOptions({3, 2})));
  model->to(torch::kDouble);
  auto serial = clone_of(model);
  Part const part(domain, test::random_cuts(random, 9, domain.grid().extent(0)), Cuts{8});
  auto const x = random_tensor(random, {2, 2, 9, 8});

  auto const report = nn::shard(*model, domain);
  auto const trial = nn::try_sharded([&](auto const& in) { return serial->forward(in); },
                                     [&](auto const& in) { return model->forward(in); }, x, domain,
                                     {{balanced_cuts(9, domain.grid().extent(0)), Cuts{8}}});

  EXPECT_EQ(report.num(nn::Verdict::sharded), 7) << report.text();
  EXPECT_LT(trial.output_difference, 1e-12) << trial.text();
  EXPECT_LT(trial.gradient_difference, 1e-10) << trial.text();
}

TEST(Shard, covers_convolutions_and_norms_of_lengths) {
  auto const domain = bands();
  std::mt19937 random(9);
  torch::manual_seed(7);
  tn::Sequential model(tn::Conv1d(tn::Conv1dOptions(2, 4, 3).padding(1)), tn::BatchNorm1d(4), tn::GELU(),
                       tn::InstanceNorm1d(tn::InstanceNorm1dOptions(4).affine(true)));
  model->to(torch::kDouble);
  auto serial = clone_of(model);
  auto const x = random_tensor(random, {2, 2, 9, 1});
  auto const cuts = test::random_cuts(random, 9, domain.grid().extent(0));
  auto const of_columns = [](tn::Sequential& layers) {
    return [&](torch::Tensor const& in) { return layers->forward(in.squeeze(-1)).unsqueeze(-1); };
  };

  auto const report = nn::shard(*model, domain);
  auto const trial = nn::try_sharded(of_columns(serial), of_columns(model), x, domain, nn::FieldCuts{cuts, Cuts{1}});

  EXPECT_EQ(report.num(nn::Verdict::sharded), 3) << report.text();
  EXPECT_LT(trial.output_difference, 1e-12) << trial.text();
  EXPECT_LT(trial.gradient_difference, 1e-10) << trial.text();
}

TEST(Shard, covers_padding_transposed_convolutions_and_pixel_shuffles) {
  auto const domain = bands();
  std::mt19937 random(8);
  torch::manual_seed(7);
  tn::Sequential model(tn::ReflectionPad2d(1), tn::Conv2d(2, 4, 3),
                       tn::ConvTranspose2d(tn::ConvTranspose2dOptions(4, 4, 3).stride(2).padding(1).output_padding(1)),
                       tn::PixelUnshuffle(2), tn::PixelShuffle(2), tn::ZeroPad2d(tn::ZeroPad2dOptions({0, 0, 2, -1})),
                       tn::ReplicationPad2d(1), tn::ConstantPad2d(tn::ConstantPad2dOptions(-1, 0.5)));
  model->to(torch::kDouble);
  auto serial = clone_of(model);
  auto const x = random_tensor(random, {2, 2, 9, 8});
  auto const cuts = test::random_cuts(random, 9, domain.grid().extent(0));

  auto const report = nn::shard(*model, domain);
  auto const trial = nn::try_sharded([&](auto const& in) { return serial->forward(in); },
                                     [&](auto const& in) { return model->forward(in); }, x, domain, {{cuts, Cuts{8}}});

  EXPECT_EQ(report.num(nn::Verdict::sharded), 8) << report.text();
  EXPECT_LT(trial.output_difference, 1e-12) << trial.text();
  EXPECT_LT(trial.gradient_difference, 1e-10) << trial.text();
}

TEST(Shard, keeps_every_parameter_the_same_tensor_and_every_layer_its_type) {
  auto const domain = bands();
  Net net;
  auto const before = net->named_parameters();
  torch::optim::SGD optimizer(net->parameters(), 0.1);

  nn::shard(*net, domain);

  auto const after = net->named_parameters();
  ASSERT_EQ(after.keys(), before.keys());
  for (auto const& name : before.keys()) EXPECT_TRUE(after[name].is_same(before[name])) << name;
  EXPECT_NE(net->blocks[0]->as<tn::Conv2d>(), nullptr);
  EXPECT_EQ(net->blocks[0]->as<tn::Conv2d>()->options.out_channels(), 4);
  EXPECT_TRUE(net->enter->is_sharded());
}

TEST(Shard, keeps_the_random_state) {
  auto const domain = bands();
  Net net;
  torch::manual_seed(3);
  auto const expected = torch::rand({2});
  torch::manual_seed(3);

  nn::shard(*net, domain);

  EXPECT_TRUE(torch::equal(torch::rand({2}), expected));
}

TEST(Shard, serves_a_class_with_members_in_training_and_evaluation) {
  auto const domain = bands();
  Net net;
  net->to(torch::kDouble);
  auto serial = clone_of(net);
  std::mt19937 random(9);
  Part const part(domain, test::random_cuts(random, 9, domain.grid().extent(0)), Cuts{4});
  auto const whole = random_tensor(random, {2, 2, 9, 4});

  nn::shard(*net, domain);

  torch::NoGradGuard const no_grad;
  EXPECT_LT(difference(net->forward(part.of(whole)), part.of(serial->forward(whole))), 1e-12);
  net->eval();
  serial->eval();
  EXPECT_LT(difference(net->forward(part.of(whole)), part.of(serial->forward(whole))), 1e-12);
}

TEST(Shard, clones_moves_saves_and_loads_as_the_serial_model) {
  auto const domain = bands();
  Net net;
  nn::shard(*net, domain);
  net->to(torch::kDouble);
  std::mt19937 random(4);
  Part const part(domain, balanced_cuts(6, domain.grid().extent(0)), Cuts{4});
  auto const whole = random_tensor(random, {2, 2, 6, 4});
  torch::NoGradGuard const no_grad;
  (void)net->forward(part.of(whole));  // moves the running statistics
  net->eval();
  auto const expected = net->forward(part.of(whole));

  auto copy = clone_of(net);
  std::stringstream file;
  torch::save(net, file);
  Net serial;
  serial->to(torch::kDouble);
  torch::load(serial, file);
  serial->eval();
  net->enter->weight.zero_();

  EXPECT_TRUE(copy->enter->is_sharded());
  EXPECT_LT(difference(copy->forward(part.of(whole)), expected), 1e-14);
  EXPECT_FALSE(serial->enter->is_sharded());
  EXPECT_LT(difference(part.of(serial->forward(whole)), expected), 1e-12);
  std::stringstream back;
  torch::save(serial, back);
  torch::load(net, back);
  EXPECT_LT(difference(net->forward(part.of(whole)), expected), 1e-12);
}

TEST(Shard, a_module_that_two_parents_share_stays_shared) {
  auto const domain = bands();
  tn::Conv2d conv(tn::Conv2dOptions(2, 2, 3).padding(1));
  tn::ModuleList model;
  model->push_back(tn::Sequential{conv});
  model->push_back(tn::Sequential{conv});
  auto const num_parameters = conv->parameters().size();

  nn::shard(*model, domain);

  auto const first = model[0]->children()[0];
  auto const second = model[1]->children()[0];
  EXPECT_EQ(first, second);
  EXPECT_EQ(num_parameters, 2U);
  EXPECT_NE(first->as<nn::LayerImpl<tn::Conv2dImpl>>(), nullptr);
}

TEST(Shard, refuses_by_name_and_leaves_the_model_as_it_was) {
  auto const domain = bands();
  tn::Sequential model(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)), Closed(),
                       tn::MultiheadAttention(tn::MultiheadAttentionOptions(4, 2)), tn::Flatten());

  auto const thrown = test::thrown_by([&] { nn::shard(*model, domain); });

  EXPECT_EQ(thrown.rule, "NotSharded");
  for (auto const* text : {"1.conv (Conv2d)", "Layer<torch::nn::Conv2d>", "2 (MultiheadAttention)", "3 (Flatten)"})
    EXPECT_NE(thrown.text.find(text), std::string::npos) << text << " in " << thrown.text;
  EXPECT_EQ(model[0]->as<nn::LayerImpl<tn::Conv2dImpl>>(), nullptr);
}

TEST(Shard, errors_of_its_layers_have_their_paths) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  tn::Sequential model(Block(tn::Conv2d(2, 2, 1), tn::Tanh()), tn::Conv2d(2, 2, 1));
  nn::shard(*model, domain);
  auto const x = torch::ones({1, 2, 3, 6});
  if (domain.comm().rank() == 1)
    for (auto& parameter : model->parameters()) parameter.set_requires_grad(false);
  auto const y = model->forward(x);

  auto const frozen = test::thrown_by([&] { (void)nn::reduce_loss(y.sum(), domain); });
  auto const shape = test::thrown_by([&] { (void)model->forward(torch::ones({1, 2, 3, 6 + domain.comm().rank()})); });

  EXPECT_EQ(frozen.rule, "UnusedOnSomeRanks");
  EXPECT_NE(frozen.text.find("(0.0, Conv2d)"), std::string::npos) << frozen.text;
  EXPECT_NE(shape.text.find("Conv2d"), std::string::npos) << shape.text;
}

TEST(Shard, takes_what_the_caller_vouches_for) {
  auto const domain = bands();
  tn::Sequential model(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)), Closed(), tn::Flatten());

  auto const report = nn::shard(*model, domain, {.local = {"Closed", "2"}});

  EXPECT_EQ(verdict_of(report, "0"), nn::Verdict::sharded);
  EXPECT_EQ(verdict_of(report, "1"), nn::Verdict::local);
  EXPECT_EQ(verdict_of(report, "2"), nn::Verdict::local);
}

TEST(Shard, reports_instead_of_failing_when_asked) {
  auto const domain = bands();
  tn::Sequential model(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)), tn::Softmax(1), tn::Softmax(-2),
                       tn::Linear(4, 4));

  auto const report = nn::shard(*model, domain, {.on_refusal = nn::OnRefusal::report});

  EXPECT_EQ(verdict_of(report, "1"), nn::Verdict::local);
  EXPECT_EQ(verdict_of(report, "2"), domain.comm().num_ranks() > 1 ? nn::Verdict::refused : nn::Verdict::local);
  EXPECT_EQ(verdict_of(report, "3"), nn::Verdict::local);
  EXPECT_NE(reason_of(report, "1").find("axis 1"), std::string::npos);
}

TEST(Shard, refuses_models_that_differ_between_ranks) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  tn::Sequential model(tn::Conv2d(2, domain.comm().rank() == 0 ? 2 : 3, 1));

  EXPECT_EQ(test::rule_of([&] { nn::shard(*model, domain); }), "ArgumentDisagreement");
}

/// Pads the rows of its shard between its layers, which is wrong, and says that it is right.
struct SelfPaddedImpl : tn::Module {
  SelfPaddedImpl()
      : first(register_module("first", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 3).padding(1)))),
        second(register_module("second", nn::Layer<tn::Conv2d>(tn::Conv2dOptions(2, 2, 3)))) {}
  torch::Tensor forward(torch::Tensor const& x) { return second(padded(first(x))); }
  static torch::Tensor padded(torch::Tensor const& h) {
    nn::Examined const examined;  // which it should not say
    return torch::constant_pad_nd(h, {1, 1, 1, 1});
  }
  nn::Layer<tn::Conv2d> first;
  nn::Layer<tn::Conv2d> second;
};
TORCH_MODULE(SelfPadded);

TEST(TrySharded, agrees_for_a_model_that_is_right) {
  auto const domain = bands();
  torch::manual_seed(1);
  auto model = mixed_model();
  model->to(torch::kDouble);
  auto serial = clone_of(model);
  nn::shard(*model, domain);
  std::mt19937 random(2);
  auto const x = random_tensor(random, {1, 3, 8, 6});

  auto const trial = nn::try_sharded([&](auto const& in) { return serial->forward(in); },
                                     [&](auto const& in) { return model->forward(in); }, x, domain);

  EXPECT_LT(trial.output_difference, 1e-12) << trial.text();
  EXPECT_LT(trial.gradient_difference, 1e-10);
  ASSERT_EQ(trial.calls.size(), 5U);
  EXPECT_EQ(trial.calls[0].path, "0");
  EXPECT_EQ(trial.calls[0].sizes, (std::vector<std::int64_t>{1, 4, 8, 6}));
  EXPECT_EQ(std::ssize(trial.calls[0].rows), domain.comm().num_ranks());
  EXPECT_EQ(trial.calls[0].num_messages > 0, domain.comm().num_ranks() > 1);
}

TEST(TrySharded, names_the_first_layer_that_differs) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  torch::manual_seed(1);
  auto const alone = domain.comm().split(domain.comm().rank(), 0);
  SelfPadded model;
  model->to(torch::kDouble);
  SelfPadded reference;
  reference->to(torch::kDouble);
  nn::shard(*reference, nn::Domain(alone, ProcessGrid{1, 1}));
  nn::shard(*model, domain);
  {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : reference->named_parameters())
      parameter.value().copy_(model->named_parameters()[parameter.key()]);
  }
  std::mt19937 random(2);
  auto const x = random_tensor(random, {1, 2, 12, 6});

  auto const trial = nn::try_sharded([&](auto const& in) { return reference->forward(in); },
                                     [&](auto const& in) { return model->forward(in); }, x, domain);

  EXPECT_GT(trial.output_difference, 1e-3);
  ASSERT_EQ(trial.calls.size(), 2U);
  EXPECT_LT(trial.calls[0].difference.value(), 1e-12);
  EXPECT_GT(trial.calls[1].difference.value(), 1e-3);
  EXPECT_NE(trial.text().find("second: "), std::string::npos);
  EXPECT_LT(trial.text().find("second: "), trial.text().find("<- the first that differs"));
}

TEST(TrySharded, blames_no_layer_for_what_is_done_to_its_output_in_place) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  nn::Domain const alone(domain.comm().split(domain.comm().rank(), 0), ProcessGrid{1, 1});
  tn::Sequential model(tn::Conv2d(tn::Conv2dOptions(2, 2, 3).padding(1)));
  model->to(torch::kDouble);
  for (auto& parameter : model->parameters())
    domain.comm().broadcast(parameter.data_ptr(), Index(parameter.nbytes()), 0);
  tn::Sequential reference(std::dynamic_pointer_cast<tn::SequentialImpl>(model->clone()));
  nn::shard(*reference, alone);
  nn::shard(*model, domain);
  std::mt19937 random(2);
  // A mean over the rows of a shard, which is not the mean over those of the field.
  auto const forward = [](tn::Sequential& net, torch::Tensor const& in) {
    auto h = net->forward(in);
    nn::Examined const local;
    return h.sub_(h.mean(-2, true));
  };

  auto const trial =
      nn::try_sharded([&](auto const& in) { return forward(reference, in); },
                      [&](auto const& in) { return forward(model, in); }, random_tensor(random, {1, 2, 9, 6}), domain);

  EXPECT_GT(trial.output_difference, 1e-3);
  EXPECT_LT(trial.calls.at(0).difference.value(), 1e-12);
}

TEST(TrySharded, sees_a_gradient_that_is_lost) {
  auto const domain = bands();
  auto const x = torch::ones({1, 2, 8, 6}, torch::kDouble);

  auto const trial =
      nn::try_sharded([](auto const& in) { return 2 * in; }, [](auto const& in) { return 2 * in.detach(); }, x, domain);

  EXPECT_EQ(trial.output_difference, 0);
  EXPECT_GT(trial.gradient_difference, 1);
}

TEST(Shard, local_layers_take_ranks_without_cells) {
  auto const domain = bands();
  tn::Sequential model(tn::LocalResponseNorm(2), tn::CrossMapLRN2d(3), tn::Softmax2d(), tn::PReLU(), tn::GLU(1),
                       tn::Softmin(1), tn::LogSoftmax(1), tn::Mish(), tn::Softshrink(), tn::Hardshrink());
  model->to(torch::kDouble);
  auto serial = clone_of(model);
  nn::shard(*model, domain);
  std::mt19937 random(3);
  // Two rows: on three ranks one has none.
  Part const part(domain, balanced_cuts(2, domain.grid().extent(0)), Cuts{6});
  Part const first(
      domain,
      [&] {
        std::vector<Index> sizes(std::size_t(domain.grid().extent(0)), 0);
        sizes.back() = 2;
        return Cuts(sizes);
      }(),
      Cuts{6});
  auto const x = random_tensor(random, {1, 4, 2, 6});

  for (auto const& own : {part, first}) {
    auto whole = x.clone().requires_grad_();
    auto shard = own.of(x).clone().requires_grad_();
    auto const expected = serial->forward(whole);
    auto const found = model->forward(shard);
    expected.square().sum().backward();
    found.square().sum().backward();
    EXPECT_LE(difference(found, own.of(expected)), 1e-12);
    EXPECT_LE(difference(shard.grad(), own.of(whole.grad())), 1e-12);
  }
}

TEST(Shard, gives_dropout_the_masks_of_one_rank_at_every_path) {
  auto const domain = bands();
  nn::Domain const alone(domain.comm().split(domain.comm().rank(), 0), ProcessGrid{1, 1});
  std::mt19937 random(9);
  tn::Sequential model(tn::Dropout(0.5), tn::Dropout(0.5), tn::Dropout2d(0.3), tn::AlphaDropout(0.2));
  tn::Sequential serial(tn::Dropout(0.5), tn::Dropout(0.5), tn::Dropout2d(0.3), tn::AlphaDropout(0.2));
  nn::ShardOptions options;
  options.random.seed = 4;
  (void)nn::shard(*model, domain, options);
  (void)nn::shard(*serial, alone, options);
  Part const part(domain, test::random_cuts(random, 7, domain.grid().extent(0)), Cuts{6});
  auto const x = random_tensor(random, {2, 8, 7, 6}).abs() + 1;

  for (int call = 0; call < 2; ++call)
    EXPECT_TRUE(torch::equal(model->forward(part.of(x)), part.of(serial->forward(x))));
  auto const kept_by = [&](std::size_t layer) {
    alone.set_num_draws(0);
    return std::dynamic_pointer_cast<nn::LayerImpl<tn::DropoutImpl>>(serial->ptr(layer))->forward(x) != 0;
  };
  EXPECT_FALSE(torch::equal(kept_by(0), kept_by(1)));
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(part.of(x)), part.of(x)));
}

/// Each kind of layer that `shard` converts and that takes [1, 4, rows, 6].
std::vector<tn::AnyModule> one_of_each() {
  namespace F = torch::nn::functional;
  return {
      tn::AnyModule(tn::Conv2d(tn::Conv2dOptions(4, 4, 3).padding(1))),
      tn::AnyModule(tn::ConvTranspose2d(tn::ConvTranspose2dOptions(4, 4, 2).stride(2))),
      tn::AnyModule(tn::BatchNorm2d(4)),
      tn::AnyModule(tn::InstanceNorm2d(4)),
      tn::AnyModule(tn::GroupNorm(2, 4)),
      tn::AnyModule(tn::LayerNorm(tn::LayerNormOptions({6}))),
      tn::AnyModule(tn::MaxPool2d(3)),
      tn::AnyModule(tn::AvgPool2d(tn::AvgPool2dOptions(3).stride(1).padding(1))),
      tn::AnyModule(tn::LPPool2d(2, 2)),
      tn::AnyModule(tn::AdaptiveAvgPool2d(3)),
      tn::AnyModule(tn::AdaptiveMaxPool2d(3)),
      tn::AnyModule(tn::Upsample(tn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest))),
      tn::AnyModule(tn::PixelShuffle(2)),
      tn::AnyModule(tn::PixelUnshuffle(1)),
      tn::AnyModule(tn::ZeroPad2d(1)),
      tn::AnyModule(tn::ReflectionPad2d(1)),
      tn::AnyModule(tn::Dropout(0.5)),
      tn::AnyModule(tn::Dropout2d(0.5)),
      tn::AnyModule(tn::AlphaDropout(0.5))};
}

TEST(Shard, every_layer_of_a_model_takes_new_cuts_after_reset_structure) {
  auto const domain = bands();
  bool const is_last = domain.comm().rank() == domain.comm().num_ranks() - 1;
  // One rank's shard changes, which is a fault unless the structure is reset.
  auto const before = torch::ones({1, 4, 4, 6});
  auto const after = torch::ones({1, 4, is_last ? 5 : 4, 6});
  for (auto const& layer : one_of_each()) {
    tn::Sequential model;
    model->push_back(layer);
    (void)nn::shard(*model, domain);
    auto const name = layer.ptr()->name();

    (void)model->forward(before);
    if (domain.comm().num_ranks() > 1) {
      EXPECT_EQ(test::rule_of([&] { (void)model->forward(after); }), "StructureDisagreement") << name;
    }
    nn::reset_structure(*model);
    EXPECT_EQ(test::rule_of([&] { (void)model->forward(after); }), "nothing was thrown") << name;
  }
}

TEST(Shard, a_model_is_that_of_one_rank_for_new_cuts_after_reset_structure) {
  auto const domain = bands();
  std::mt19937 random(15);
  torch::manual_seed(15);
  Net serial;
  serial->to(torch::kDouble);
  auto model = clone_of(serial);
  auto const rows = domain.grid().extent(0);
  (void)nn::shard(*model, domain);

  for (int cut = 0; cut < 4; ++cut) {
    Part const part(domain, test::random_cuts(random, 7, rows), Cuts{6});
    auto const x = random_tensor(random, {2, 2, 7, 6});
    nn::reset_structure(*model);
    auto const expected = serial->forward(x);
    EXPECT_LE(difference(model->forward(part.of(x)), part.of(expected)), 1e-12);
  }
}

}  // namespace test_shard
}  // namespace graticule
