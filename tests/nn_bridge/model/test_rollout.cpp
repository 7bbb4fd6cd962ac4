// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_rollout {

using test::difference;
using test::Part;
using test::random_tensor;
using test::rule_of;

/// A step of two convolutions on the sphere, and what a rollout of it gives.
struct Model {
  explicit Model(nn::Domain const& given) : domain(given), first(layer()), second(layer()) {
    std::mt19937 random(2);
    torch::NoGradGuard const no_grad;
    for (auto* l : {&first, &second}) {
      (*l)->weight.copy_(0.2 * random_tensor(random, {2, 2, 3, 3}));
      (*l)->bias.copy_(random_tensor(random, {2}));
    }
  }
  [[nodiscard]] nn::Conv2d layer() const {
    nn::Conv2d result(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);
    result->to(torch::kDouble);
    return result;
  }
  torch::Tensor step(torch::Tensor const& x) { return x + second(torch::tanh(first(x))); }

  nn::Domain domain;
  nn::Conv2d first;
  nn::Conv2d second;
};

struct Result {
  torch::Tensor loss;
  torch::Tensor input_grad;
  std::vector<torch::Tensor> parameter_grads;
};

Result run(nn::Domain const& domain, Part const& part, nn::RolloutOptions const& options) {
  std::mt19937 random(3);
  Model model(domain);
  auto x = part.of(random_tensor(random, {1, 2, 7, 6})).clone().requires_grad_();
  auto const loss = nn::rollout(
      domain, x, options, [&](torch::Tensor const& state, std::int64_t) { return model.step(state); },
      [&](torch::Tensor const& state, std::int64_t i) {
        return nn::reduce_loss(state.square().sum() * double(i + 1), domain);
      });
  loss.backward();
  Result result{loss.detach(), x.grad(), {}};
  for (auto* layer : {&model.first, &model.second}) {
    nn::GradientSync(**layer, {{domain.comm(), nn::Reduction::sum}}).reduce();
    result.parameter_grads.push_back((*layer)->weight.grad());
    result.parameter_grads.push_back((*layer)->bias.grad());
  }
  return result;
}

/// The whole field in a plain loop of LibTorch's functions, with the parameters and the input of `run`.
Result run_serial(nn::RolloutOptions const& options) {
  std::mt19937 random(2);
  std::vector<torch::Tensor> parameters;
  for (int l = 0; l < 2; ++l) {
    parameters.push_back((0.2 * random_tensor(random, {2, 2, 3, 3})).requires_grad_());
    parameters.push_back(random_tensor(random, {2}).requires_grad_());
  }
  std::mt19937 input(3);
  auto const x = random_tensor(input, {1, 2, 7, 6}).requires_grad_();
  auto const layer = [&](torch::Tensor const& field, std::size_t l) {
    auto const padded = test::pad_sphere(field, {1, 1}, {1, 1}, false, {});
    return at::conv2d(padded, parameters[2 * l], parameters[2 * l + 1]);
  };
  auto state = x;
  auto loss = torch::zeros({}, torch::kDouble);
  for (std::int64_t i = 0; i < options.num_steps; ++i) {
    if (options.gradient_steps > 0 && i > 0 && i % options.gradient_steps == 0) state = state.detach();
    state = state + layer(torch::tanh(layer(state, 0)), 1);
    loss = loss + state.square().sum() * double(i + 1);
  }
  loss.backward();
  Result result{loss.detach(), x.grad(), {}};
  for (auto const& parameter : parameters) result.parameter_grads.push_back(parameter.grad());
  return result;
}

void expect_equal(Result const& found, Result const& expected, Part const& part, double tolerance) {
  EXPECT_LE(difference(found.loss, expected.loss), tolerance);
  EXPECT_LE(difference(found.input_grad, part.of(expected.input_grad)), tolerance);
  for (std::size_t i = 0; i < expected.parameter_grads.size(); ++i)
    EXPECT_LE(difference(found.parameter_grads[i], expected.parameter_grads[i]), tolerance);
}

TEST(Rollout, equals_a_plain_loop_of_libtorch_with_and_without_checkpoints) {
  std::mt19937 random(4);
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    nn::Domain const domain(comm, grid);
    Part const part(domain, test::random_cuts(random, 7, grid.extent(0)), test::random_cuts(random, 6, grid.extent(1)));
    auto const expected = run_serial({.num_steps = 5});
    for (std::int64_t const steps : {0, 1, 2, 5})
      expect_equal(run(domain, part, {.num_steps = 5, .checkpoint_steps = steps}), expected, part, 1e-11);
  }
}

TEST(Rollout, stops_gradients_where_asked) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Part const part(domain, balanced_cuts(7, comm.num_ranks()), Cuts{6});
  auto const all = run_serial({.num_steps = 4});
  auto const truncated = run_serial({.num_steps = 4, .gradient_steps = 2});
  EXPECT_GT(difference(truncated.input_grad, all.input_grad), 1e-3);
  EXPECT_LE(difference(truncated.loss, all.loss), 1e-14);
  for (std::int64_t const steps : {0, 1, 3})
    expect_equal(run(domain, part, {.num_steps = 4, .checkpoint_steps = steps, .gradient_steps = 2}), truncated, part,
                 1e-11);
}

TEST(Rollout, refuses_options_without_sense) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const same = [](torch::Tensor const& x, std::int64_t) { return x; };

  EXPECT_THROW((void)nn::rollout(domain, torch::zeros({1}), {.num_steps = 0}, same, same), Error);
  EXPECT_THROW((void)nn::rollout(domain, torch::zeros({1}), {.checkpoint_steps = -1}, same, same), Error);
}

TEST(Checkpoint, frees_what_the_segment_made_until_the_backward) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Model model(domain);
  Part const part(domain, balanced_cuts(7, comm.num_ranks()), Cuts{6});
  auto x = part.of(torch::ones({1, 2, 7, 6}, torch::kDouble)).clone().requires_grad_();
  int num_runs = 0;
  c10::weak_intrusive_ptr<c10::TensorImpl> inner(torch::zeros({1}).getIntrusivePtr());
  auto const outputs = nn::checkpoint(domain,
                                      [&](nn::Tensors const& inputs) -> nn::Tensors {
                                        ++num_runs;
                                        auto const middle = torch::tanh(model.first(inputs[0]));
                                        inner = c10::weak_intrusive_ptr<c10::TensorImpl>(middle.getIntrusivePtr());
                                        return {model.second(middle), inputs[0] * 2};
                                      },
                                      {x});

  EXPECT_TRUE(inner.expired());
  nn::reduce_loss(outputs[0].sum() + outputs[1].sum(), domain).backward();
  EXPECT_EQ(num_runs, 2);
  EXPECT_TRUE(model.first->weight.grad().defined());
}

TEST(Checkpoint, refuses_a_backward_that_is_differentiated) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto x = torch::ones({1, 2, 3, 6}, torch::kDouble).requires_grad_();
  auto const y = nn::checkpoint(domain, [](nn::Tensors const& in) -> nn::Tensors { return {in[0].square()}; }, {x})[0];

  EXPECT_THROW((void)torch::autograd::grad({y.sum()}, {x}, {}, true, true), Error);
}

TEST(Checkpoint, refuses_a_segment_without_outputs) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const x = torch::ones({3}).requires_grad_();

  EXPECT_EQ(rule_of([&] { (void)nn::checkpoint(domain, [](nn::Tensors const&) { return nn::Tensors{}; }, {x}); }),
            "Unsupported");
}

TEST(Checkpoint, one_rank_that_uses_no_output_of_it_does_not_hang) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Model model(domain);
  Part const part(domain, balanced_cuts(7, comm.num_ranks()), Cuts{6});
  auto x = part.of(torch::ones({1, 2, 7, 6}, torch::kDouble)).clone().requires_grad_();
  auto const y =
      nn::checkpoint(domain, [&](nn::Tensors const& in) -> nn::Tensors { return {model.step(in[0])}; }, {x})[0];
  auto const partial = comm.rank() == 0 ? y.sum() : x.sum();

  nn::reduce_loss(partial, domain).backward();

  EXPECT_TRUE(model.first->weight.grad().defined());
}

TEST(Checkpoint, a_call_inside_that_reaches_no_output_of_one_rank_does_not_hang) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Model model(domain);
  Part const part(domain, balanced_cuts(7, comm.num_ranks()), Cuts{6});
  auto x = part.of(torch::ones({1, 2, 7, 6}, torch::kDouble)).clone().requires_grad_();
  torch::Tensor kept;
  auto const segment = [&](nn::Tensors const& in) -> nn::Tensors {
    kept = model.step(in[0]);
    return {comm.rank() == 0 ? in[0].square() : kept};
  };
  auto const gradient = [&](nn::Tensors const& outputs) {
    return torch::autograd::grad({nn::reduce_loss(outputs[0].square().sum(), domain)}, {x})[0];
  };

  auto const expected = gradient(segment({x}));
  auto const found = gradient(nn::checkpoint(domain, segment, {x}));

  EXPECT_LE(difference(found, expected), 1e-13);
}

}  // namespace test_rollout
}  // namespace graticule
