// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/teams.hpp>
#include <graticule/training/detail/managed.hpp>
#include <graticule/training/detail/shard_rule.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "expect_error.hpp"
#include "sharded_net.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace graticule {
namespace test_parameters {

using test::Batch;
using test::ShardedNet;

constexpr double inf = std::numeric_limits<double>::infinity();

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

MakeOptimizer sgd() {
  return [](auto parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
  };
}
MakeOptimizer adam() {
  return [](auto parameters) {
    return std::make_unique<torch::optim::Adam>(std::move(parameters), torch::optim::AdamOptions(0.01).amsgrad(true));
  };
}

/// Squared error over the number of samples of the whole batch.
torch::Tensor loss_of(torch::Tensor const& prediction, torch::Tensor const& y, std::int64_t num_samples) {
  return (prediction - y).square().sum() / double(num_samples);
}

/// Trains serially and cut, on samples that ranks share unevenly, and compares losses and parameters.
void expect_serial_training(MakeOptimizer const& make, int num_steps, training::ShardedParametersOptions options = {}) {
  auto const comm = Comm::world();
  auto serial = test::make_net();
  auto serial_optimizer = make(serial->parameters());
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum}, std::move(options));
  auto optimizer = make(sharded.parameters());

  for (int step = 0; step < num_steps; ++step) {
    auto const batch = test::make_batch(step);
    auto const expected = loss_of(serial->forward(batch.x), batch.y, 12);
    serial_optimizer->zero_grad();
    expected.backward();
    serial_optimizer->step();

    auto const mine = test::uneven_part(batch, comm);
    auto const loss = loss_of(sharded.forward([&] { return net->forward(mine.x); }), mine.y, 12);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();

    std::vector<double> sum{loss.item<double>()};
    comm.sum(sum);
    ASSERT_NEAR(sum[0], expected.item<double>(), 1e-12) << "step " << step;
  }
  EXPECT_LT(test::difference(test::whole_parameters(sharded, *net), nn::parameters_of(*serial)), 1e-12);
}

TEST(ShardedParameters, train_by_sgd_as_one_rank_does) { expect_serial_training(sgd(), 20); }
TEST(ShardedParameters, train_by_adam_as_one_rank_does) { expect_serial_training(adam(), 20); }
TEST(ShardedParameters, train_alike_when_kept_between_passes_and_not_gathered_ahead) {
  expect_serial_training(sgd(), 4, {.between_passes = training::BetweenPasses::kept, .num_prefetched = 0});
  expect_serial_training(sgd(), 4, {.root_between_passes = training::BetweenPasses::released, .num_prefetched = 3});
}
TEST(ShardedParameters, train_alike_in_one_unit) {
  expect_serial_training(sgd(), 4, {.is_unit = [](std::string const&, std::int64_t) { return false; }});
}

TEST(ShardedParameters, keep_rows_names_and_nothing_else) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  auto const before = test::rows_of(nn::parameters_of(*test::make_net()), comm);

  training::ShardedParameters const sharded(net.ptr(), {comm, nn::Reduction::mean});

  auto const shards = sharded.named_parameters();
  EXPECT_EQ(test::difference(shards, before), 0);
  EXPECT_EQ(nn::parameters_of(*net).size(), shards.size());
  Index bytes = 0;
  for (auto const& [name, tensor] : shards) {
    EXPECT_TRUE(tensor.is_leaf());
    EXPECT_EQ(tensor.requires_grad(), !name.starts_with("layers.2.")) << name;
    bytes += Index(tensor.nbytes());
  }
  EXPECT_EQ(sharded.stats().shard_bytes, bytes);
  EXPECT_EQ(sharded.stats().gathered_bytes, 0);
  for (auto const& parameter : net->parameters()) {
    EXPECT_EQ(parameter.storage().nbytes(), 0);
    EXPECT_THROW((void)parameter.sum(), c10::Error);
  }
}

TEST(ShardedParameters, take_the_values_of_the_first_rank_and_leave_random_numbers_alone) {
  auto const comm = Comm::world();
  torch::manual_seed(5 + comm.rank());
  ShardedNet net;
  auto const drawn_next = [] {
    auto generator = at::globalContext().defaultGenerator(torch::kCPU).clone();
    return torch::rand({3}, generator);
  };
  auto const expected = drawn_next();

  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});

  EXPECT_TRUE(torch::equal(drawn_next(), expected));
  torch::manual_seed(5);
  EXPECT_EQ(test::difference(test::whole_parameters(sharded, *net), nn::parameters_of(*ShardedNet())), 0);
}

TEST(ShardedParameters, mean_gradients_over_ranks_with_samples_of_their_own) {
  auto const comm = Comm::world();
  auto serial = test::make_net();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  auto const batch = test::make_batch(0);
  auto const mine = test::uneven_part(batch, comm);

  loss_of(serial->forward(batch.x), batch.y, 12).backward();
  // The mean over ranks of num_ranks times their parts of the mean over 12 samples.
  auto const loss = loss_of(sharded.forward([&] { return net->forward(mine.x); }), mine.y, 12);
  (loss * comm.num_ranks()).backward();

  auto const expected = test::gradients_of(nn::parameters_of(*serial));
  auto const found = test::gradients_of(sharded.named_parameters());
  EXPECT_LT(test::difference(found, test::rows_of(expected, comm)), 1e-14);
  for (auto const& tensor : net->parameters()) EXPECT_FALSE(tensor.grad().defined());
}

/// Gradients of a backward that does not reach all parameters, summed over two backwards.
TEST(ShardedParameters, leave_gradients_undefined_that_no_rank_has_and_add_the_others_up) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum});
  auto const x = torch::arange(3);
  bool const last = comm.rank() + 1 == comm.num_ranks();
  auto const run = [&] {
    // The gain takes part on one rank only, the head on none.
    auto const y = sharded.forward([&] {
      auto const hidden = net->first(net->words(x)).sum();
      return last ? hidden * net->gain : hidden;
    });
    y.backward();
  };
  run();
  auto const first = sharded.named_parameters();
  std::vector<torch::Tensor> once;
  for (auto const& [name, tensor] : first)
    once.push_back(tensor.grad().defined() ? tensor.grad().clone() : tensor.grad());

  run();

  for (std::size_t i = 0; i < first.size(); ++i) {
    auto const& [name, tensor] = first[i];
    bool const used = name.starts_with("words") || name.starts_with("first") || name == "gain";
    ASSERT_EQ(tensor.grad().defined(), used) << name;
    if (used) {
      EXPECT_TRUE(torch::allclose(tensor.grad(), 2 * once[i], 0, 1e-13)) << name;
    }
  }
}

TEST(ShardedParameters, refuse_parameters_that_some_ranks_do_not_use_when_asked) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank uses the same parameters as all ranks";
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum}, {.unused = training::Unused::refused});
  auto const x = torch::arange(3);
  auto const run = [&](bool uses) {
    auto const y = sharded.forward([&] {
      auto const hidden = net->forward(x).sum();
      return uses ? hidden : net->first(net->words(x)).sum() + net->head(net->first(net->words(x))).sum();
    });
    y.backward();
  };
  // All ranks run the same units; the head's gradients are everywhere, the gain's are not.
  auto const error = test::thrown_by([&] {
    sharded
        .forward([&] {
          auto const y = net->head(net->first(net->words(x))).sum();
          return comm.rank() == 0 ? y * net->gain : y;
        })
        .backward();
  });
  EXPECT_EQ(error.rule, "UnusedParameter");
  EXPECT_EQ(error.text, "rank " + std::to_string(comm.num_ranks() - 1) + " has no gradient of gain, rank 0 has");

  EXPECT_EQ(test::rule_of([&] { run(true); }), "WrongState");
  sharded.reset();
  for (auto& parameter : sharded.parameters()) parameter.mutable_grad() = torch::Tensor();
  run(true);
  for (auto const& [name, tensor] : sharded.named_parameters())
    EXPECT_EQ(tensor.grad().defined(), tensor.requires_grad()) << name;
}

TEST(ShardedParameters, clip_to_the_serial_norms) {
  auto const comm = Comm::world();
  for (double const type : {1.0, 2.0, 3.5, inf}) {
    for (double const max_norm : {0.01, 1e6}) {
      auto serial = test::make_net();
      auto net = test::make_net();
      training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum}, {.ignored = {net->head.ptr()}});
      auto const batch = test::make_batch(3);
      loss_of(serial->forward(batch.x), batch.y, 1).backward();
      auto const mine = test::uneven_part(batch, comm);
      loss_of(sharded.forward([&] { return net->forward(mine.x); }), mine.y, 1).backward();
      // The ignored head is whole, and its gradients are the user's to sum.
      nn::GradientSync(*net->head, {{comm, nn::Reduction::sum}}).reduce();
      std::vector<torch::Tensor> with_gradient;
      for (auto const& parameter : serial->parameters())
        if (parameter.grad().defined()) with_gradient.push_back(parameter);

      auto const norm = sharded.clip_grad_norm(max_norm, {.norm_type = type});

      auto const expected = torch::nn::utils::clip_grad_norm_(with_gradient, max_norm, type);
      EXPECT_NEAR(norm, expected, 1e-12 * expected) << type;
      nn::NamedTensors whole;
      for (auto const& [name, tensor] : nn::parameters_of(*serial))
        if (tensor.grad().defined()) whole.emplace_back(name, tensor.grad());
      auto found = nn::NamedTensors();
      auto wanted = nn::NamedTensors();
      for (auto const& [name, gradient] : whole)
        (name.starts_with("head") ? found : wanted).emplace_back(name, gradient);
      for (auto const& [name, gradient] : found)
        EXPECT_LT((gradient - net->named_parameters()[name].grad()).abs().max().item<double>(), 1e-12);
      found.clear();
      for (auto const& [name, tensor] : sharded.named_parameters())
        if (tensor.grad().defined()) found.emplace_back(name, tensor.grad());
      EXPECT_LT(test::difference(found, test::rows_of(wanted, comm)), 1e-12);
    }
  }
}

TEST(ShardedParameters, refuse_norms_that_are_not_finite_when_asked) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum});
  for (double const type : {2.0, inf}) {
    for (auto& parameter : sharded.parameters()) parameter.mutable_grad() = torch::ones_like(parameter);
    auto first = sharded.parameters()[1];
    if (comm.rank() == 0) first.mutable_grad().fill_(std::nan(""));
    EXPECT_EQ(test::rule_of([&] {
                (void)sharded.clip_grad_norm(1, {.norm_type = type, .non_finite = training::NonFinite::refused});
              }),
              "NotFinite");
    EXPECT_TRUE(std::isnan(sharded.clip_grad_norm(1, {.norm_type = type})));
  }
  EXPECT_EQ(test::rule_of([&] { (void)sharded.clip_grad_norm(1, {.norm_type = 0}); }), "BadOption");
}

class NoSync : public testing::TestWithParam<training::Unsynchronised> {};

TEST_P(NoSync, gathers_gradients_for_the_next_synchronised_backward) {
  auto const comm = Comm::world();
  auto serial = test::make_net();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum});
  auto const backward = [&](int step, bool whole_model) {
    auto const batch = test::make_batch(step);
    auto const mine = test::uneven_part(batch, comm);
    auto const run = [&](ShardedNet& model, Batch const& part) {
      auto const y = whole_model ? model->forward(part.x) : model->head(model->first(model->words(part.x)));
      return loss_of(y, part.y, 12);
    };
    run(serial, batch).backward();
    sharded.forward([&] { return run(net, mine); }).backward();
  };
  {
    auto const guard = sharded.no_sync(GetParam());
    sharded.reset_stats();
    backward(0, true);
    backward(1, true);
    for (auto const& parameter : sharded.parameters()) EXPECT_FALSE(parameter.grad().defined());
    EXPECT_EQ(sharded.stats().scatters > 0, GetParam() == training::Unsynchronised::cut);
  }
  // What the last backward does not reach waits no longer.
  backward(2, false);

  auto const expected = test::gradients_of(nn::parameters_of(*serial));
  auto const found = test::gradients_of(sharded.named_parameters());
  EXPECT_LT(test::difference(found, test::rows_of(expected, comm)), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(ShardedParameters, NoSync,
                         testing::Values(training::Unsynchronised::whole, training::Unsynchronised::cut));

TEST(ShardedParameters, give_the_model_back_whole) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  {
    training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
    EXPECT_TRUE(training::is_managed(*net));
    EXPECT_TRUE(training::detail::uses_original_parameters(*net->first->enter));
    sharded.unwrap();
  }

  EXPECT_FALSE(training::is_managed(*net->first));
  EXPECT_EQ(test::difference(nn::parameters_of(*net), nn::parameters_of(*test::make_net())), 0);
  net->forward(torch::arange(3)).sum().backward();
  EXPECT_TRUE(net->gain.grad().defined());
}

}  // namespace test_parameters
}  // namespace graticule
