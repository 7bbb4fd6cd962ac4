// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

namespace graticule {
namespace test_data_parallel_errors {

using nn::Reduction;
using test::Holder;
using test::rule_of;
using test::thrown_by;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Identity, whose backward throws.
struct Broken : torch::autograd::Function<Broken> {
  static torch::Tensor forward(AutogradContext* /*ctx*/, torch::Tensor const& x) { return x * 1; }
  static variable_list backward(AutogradContext* /*ctx*/, variable_list const& /*grads*/) {
    throw std::runtime_error("broken");
  }
};

/// Identity, whose backward runs another one for a parameter that the graph does not know to be its input.
struct Nested : torch::autograd::Function<Nested> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor* parameter) {
    ctx->saved_data["parameter"] = std::int64_t(reinterpret_cast<std::intptr_t>(parameter));
    return x * 1;
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    torch::AutoGradMode const with_graph(true);
    auto const address = std::intptr_t(ctx->saved_data["parameter"].toInt());
    reinterpret_cast<torch::Tensor*>(address)->sum().backward();
    return {grads[0], torch::Tensor()};
  }
};

TEST(DataParallel, refuses_parameters_that_it_cannot_reduce) {
  auto const comm = Comm::world();
  auto const rule = [&](torch::Tensor const& tensor) {
    Holder holder;
    holder.add("a", tensor);
    return rule_of([&] { training::DataParallel const parallel(holder, {}, {{comm, Reduction::mean}}); });
  };

  EXPECT_EQ(rule(torch::zeros({2})), "nothing was thrown");
  EXPECT_EQ(rule(torch::empty({2}, torch::kMeta)), (test::ErrorWith{"UnsupportedTensor", "has no values"}));
  EXPECT_EQ(rule(torch::zeros({2}, torch::kComplexHalf)), (test::ErrorWith{"UnsupportedTensor", "is of type"}));
}

TEST(DataParallel, counts_a_gradient_of_a_backward_inside_as_one_of_the_outer) {
  auto const comm = Comm::world();
  Holder holder;
  auto const a = holder.add("a", torch::zeros({2}, torch::kDouble));
  auto b = holder.add("b", torch::zeros({2}, torch::kDouble));
  auto const never = holder.add("never", torch::zeros({2}, torch::kDouble));
  training::DataParallel parallel(holder, {}, {{comm, Reduction::sum}}, {.buckets = {1, 1}});
  auto const pass = [&](bool with_all) {
    holder.zero_grad();
    return rule_of([&] {
      auto const rest = with_all ? never.sum() : torch::zeros({}, torch::kDouble);
      (rest + Nested::apply(a * 2, &b).sum()).backward();  // What comes last goes back first.
    });
  };

  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(pass(true), "nothing was thrown");
    EXPECT_TRUE((b.grad() == comm.num_ranks()).all().item<bool>());
    EXPECT_TRUE((a.grad() == 2 * comm.num_ranks()).all().item<bool>());
  }
  auto const thrown = pass(false);
  EXPECT_EQ(thrown, (test::ErrorWith{"UnusedParameter", "'never' on any rank"}));
  EXPECT_EQ(thrown.text.find("'b'"), std::string::npos) << thrown.text;
}

TEST(DataParallel, refuses_a_step_without_any_gradient) {
  torch::nn::Linear layer(3, 2);
  torch::optim::SGD sgd(layer->parameters(), 0.1);
  training::DataParallel parallel(*layer, sgd, {{Comm::world(), Reduction::mean}});
  auto const other = torch::ones({2}).requires_grad_();

  other.sum().backward();
  EXPECT_EQ(rule_of([&] { parallel.step(); }), (test::ErrorWith{"UnusedParameter", "does not depend on this module"}));
  layer(torch::ones({1, 3})).sum().backward();
  EXPECT_EQ(rule_of([&] { parallel.step(); }), "nothing was thrown");
}

TEST(DataParallel, names_a_parameter_that_is_ready_twice) {
  auto const comm = Comm::world();
  Holder holder;
  auto const a = holder.add("a", torch::zeros({2}, torch::kDouble));
  auto b = holder.add("b", torch::zeros({2}, torch::kDouble));
  training::DataParallel parallel(holder, {}, {{comm, Reduction::sum}}, {.buckets = {1, 1}});

  auto const thrown = thrown_by([&] {
    parallel.run([&] {
      auto const first = Nested::apply(a * 2, &b).sum();
      (first + b.sum()).backward();  // What comes last goes back first.
    });
  });
  holder.zero_grad();
  (a.sum() + b.sum()).backward();

  EXPECT_EQ(thrown.rule, "WrongState");
  EXPECT_NE(thrown.text.find("'b'"), std::string::npos) << thrown.text;
  EXPECT_TRUE((b.grad() == comm.num_ranks()).all().item<bool>());
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

TEST(DataParallel, tells_the_others_when_it_is_destroyed_by_an_exception) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  Holder holder;
  auto const a = holder.add("a", torch::ones({2}, torch::kDouble));
  auto const b = holder.add("b", torch::ones({2}, torch::kDouble));

  auto const thrown = thrown_by([&] {
    training::DataParallel const parallel(holder, {}, {{comm, Reduction::sum}}, {.buckets = {1, 1}});
    (b.sum() + (odd_one ? Broken::apply(a * 2) : a * 2).sum()).backward();
  });

  if (odd_one) {
    EXPECT_EQ(thrown.text, "broken");
  } else {
    EXPECT_EQ(thrown.rule, "PeerFailed");
  }
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

TEST(DataParallel, tells_the_others_when_it_has_lost_a_parameter) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  torch::nn::Linear layer(3, 2);
  torch::optim::SGD sgd(layer->parameters(), 0.1);
  training::DataParallel parallel(*layer, sgd, {{comm, Reduction::mean}});
  if (odd_one) layer->to(torch::kDouble);

  auto const thrown = thrown_by([&] {
    layer(torch::ones({1, 3}, layer->weight.options())).sum().backward();
    parallel.step();
  });

  EXPECT_EQ(thrown.rule, odd_one ? "ParametersChanged" : "PeerFailed");
}

TEST(DataParallel, refuses_to_step_with_gradients_of_this_rank_alone) {
  auto const comm = Comm::world();
  for (auto const wait : {training::GradientWait::in_backward, training::GradientWait::late}) {
    torch::nn::Linear layer(3, 2);
    torch::optim::SGD sgd(layer->parameters(), 0.1);
    training::DataParallel parallel(*layer, sgd, {{comm, Reduction::mean}}, {.wait = wait});
    {
      auto const local = parallel.no_sync();
      layer(torch::ones({1, 3})).sum().backward();
    }

    EXPECT_EQ(rule_of([&] { parallel.step(); }), "WrongState");

    parallel.reduce();
    EXPECT_EQ(rule_of([&] { parallel.step(); }), "nothing was thrown");
    layer(torch::ones({1, 3})).sum().backward();
    EXPECT_EQ(rule_of([&] { parallel.step(); }), "nothing was thrown");
    parallel.finalize();
  }
}

TEST(DataParallel, refuses_to_step_when_some_sums_were_made_before_a_failure) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  Holder holder;
  auto const a = holder.add("a", torch::ones({2}, torch::kDouble));
  auto const b = holder.add("b", torch::ones({2}, torch::kDouble));
  torch::optim::SGD sgd(holder.parameters(), 0.1);
  training::DataParallel parallel(holder, sgd, {{comm, Reduction::mean}}, {.buckets = {1, 1}});
  auto const pass = [&](bool fails) {
    parallel.run([&] {
      auto const first = a * 2;
      (b.sum() + (fails ? Broken::apply(first) : first).sum()).backward();
    });
  };

  EXPECT_NE(rule_of([&] { pass(odd_one); }), "nothing was thrown");

  EXPECT_EQ(rule_of([&] { parallel.step(); }), "WrongState");
  EXPECT_TRUE((b == 1).all().item<bool>());
  holder.zero_grad();
  pass(false);
  EXPECT_EQ(rule_of([&] { parallel.step(); }), "nothing was thrown");
  EXPECT_TRUE((b != 1).all().item<bool>());
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

TEST(DataParallel, applies_nothing_late_of_an_iteration_that_failed_on_one_rank) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  torch::nn::Sequential net(nn::Unit<torch::nn::Linear>(3, 3), nn::Unit<torch::nn::Linear>(3, 2));
  torch::optim::SGD sgd(net->parameters(), 0.1);
  training::DataParallel parallel(*net, sgd, {{comm, Reduction::mean}}, {.wait = training::GradientWait::late});
  std::vector<torch::Tensor> before;
  for (auto const& parameter : net->parameters()) before.push_back(parameter.detach().clone());
  auto const pass = [&](bool fails) {
    net->zero_grad();
    parallel.run([&] {
      auto const y = net->forward(torch::full({1, 3}, comm.rank() + 1.0));
      if (fails) throw std::runtime_error("in the forward");
      y.sum().backward();
    });
  };

  auto const thrown = thrown_by([&] {
    pass(odd_one);
    parallel.step();
    parallel.finalize();
  });

  EXPECT_EQ(odd_one ? thrown.text : thrown.rule, odd_one ? "in the forward" : "PeerFailed");
  parallel.finalize();
  auto const parameters = net->parameters();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(parameters[i], before[i])) << i;
  pass(false);
  parallel.step();
  parallel.finalize();
  EXPECT_FALSE(torch::equal(parameters.front(), before.front()));
  EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, nn::parameters_of(*net)); }), "nothing was thrown");
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

TEST(DataParallel, fails_late_in_the_iteration_in_which_one_rank_failed_and_in_no_other) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  constexpr int failing = 2;
  torch::nn::Sequential net(nn::Unit<torch::nn::Linear>(3, 3), nn::Unit<torch::nn::Linear>(3, 2));
  torch::optim::SGD sgd(net->parameters(), 0.1);
  training::DataParallel parallel(*net, sgd, {{comm, Reduction::mean}},
                                  {.wait = training::GradientWait::late, .buckets = {1, 1}});
  std::vector<int> failed;
  for (int step = 0; step < 6; ++step) {
    auto const rule = rule_of([&] {
      parallel.run([&] {
        net->zero_grad();
        auto const x = torch::full({1, 3}, comm.rank() + step + 1.0).requires_grad_();
        auto const first = net[0]->as<nn::Unit<torch::nn::Linear>>()->forward(x);
        auto const y = net[1]->as<nn::Unit<torch::nn::Linear>>()->forward(
            odd_one && step == failing ? Broken::apply(first) : first);
        y.sum().backward();
      });
      parallel.step();
    });
    if (rule != "nothing was thrown") failed.push_back(step);
  }
  parallel.finalize();

  EXPECT_EQ(failed, std::vector{failing});
  EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, nn::parameters_of(*net)); }), "nothing was thrown");
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

}  // namespace test_data_parallel_errors
}  // namespace graticule
