// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/detail/daso_schedule.hpp>

#include "environment.hpp"
#include "expect_error.hpp"
#include "larger.hpp"
#include "mpi/pmpi_shim.hpp"
#include "numbers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace graticule {
namespace test_averaging {

using test::mean_over;
using test::numbers;
using test::rule_of;
using test::thrown_by;
using training::Daso;
using Action = training::DasoSchedule::Action;
using training::DasoOptions;
using training::DasoPolicy;
using training::Wire;
using Kind = Action::Kind;

/// How the ranks of a test lie on nodes: a node's number by rank.
using Placement = std::vector<int>;

/// One node, a node a rank, nodes of two ranks, and of one rank and the others; those that differ.
std::vector<Placement> placements(int num_ranks) {
  std::vector<Placement> all(4);
  for (int rank = 0; rank < num_ranks; ++rank) {
    all[0].push_back(0);
    all[1].push_back(rank);
    all[2].push_back(rank / 2);
    all[3].push_back(rank == 0 ? 0 : 1);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

torch::nn::Sequential perceptron() {
  torch::nn::Sequential model(torch::nn::Linear(3, 5), torch::nn::Tanh(), torch::nn::Linear(5, 2));
  model->to(torch::kDouble);
  torch::NoGradGuard const no_grad;
  std::uint64_t seed = 1;
  for (auto& parameter : model->parameters()) parameter.copy_(numbers(seed++, parameter.sizes().vec()));
  return model;
}

torch::Tensor loss_of(torch::nn::Sequential& model, torch::Tensor const& samples) {
  return (model->forward(samples) - samples.narrow(1, 0, 2).square()).square().mean();
}

std::vector<double> values_of(torch::nn::Module const& module) {
  std::vector<torch::Tensor> parts;
  for (auto const& parameter : module.parameters())
    parts.push_back(parameter.detach().to(torch::kDouble).reshape({-1}));
  auto const all = torch::cat(parts);
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

double largest_difference(std::vector<double> const& a, std::vector<double> const& b) {
  EXPECT_EQ(a.size(), b.size());
  double result = 0;
  for (std::size_t i = 0; i < a.size(); ++i) result = test::larger(result, std::abs(a[i] - b[i]));
  return result;
}

/// Sets the skips of an object that has not begun.
void set_skips(Daso& daso, std::array<Index, 3> const& skips) {
  auto state = daso.state();
  state["global_skip"] = skips[0];
  state["local_skip"] = skips[1];
  state["batches_to_wait"] = skips[2];
  daso.load_state(state);
}

/// Vectors of parameters of its own, each with a gradient that the test gives.
struct ParametersImpl : torch::nn::Module {
  explicit ParametersImpl(std::vector<torch::Tensor> const& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      register_parameter(std::string("p").append(std::to_string(i)), values[i].clone());
  }
};
TORCH_MODULE(Parameters);

TEST(Daso, equals_one_rank_on_the_whole_batch_while_it_blocks) {
  auto const world = Comm::world();
  for (auto const& placement : placements(world.num_ranks())) {
    auto model = perceptron();
    auto serial = perceptron();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    torch::optim::SGD reference(serial->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    if (world.rank() != 0) {
      torch::NoGradGuard const no_grad;
      for (auto& parameter : model->parameters()) parameter.zero_();  // Rank 0's values count.
    }
    Daso daso(*model, optimizer, world,
              {.schedule = {.total_epochs = 8}, .node = placement[std::size_t(world.rank())]});
    daso.set_last_batch(2);
    for (int step = 0; step < 6; ++step) {
      auto const batch = numbers(std::uint64_t(100 + step), {4 * world.num_ranks(), 3});
      daso.zero_grad();
      loss_of(model, batch.narrow(0, 4 * world.rank(), 4)).backward();
      daso.step();
      reference.zero_grad();
      loss_of(serial, batch).backward();
      reference.step();

      ASSERT_LE(largest_difference(values_of(*model), values_of(*serial)), 1e-12);
      if (daso.schedule().batch() == 0) daso.epoch_loss(1.0);
    }
    nn::require_same_bits(world, nn::parameters_of(*model));
    EXPECT_EQ(daso.schedule().phase(), training::DasoSchedule::Phase::blocking);
  }
}

/// All ranks of a world in one process, from the rules: one number a rank, x, whose gradient is x - rank.
struct Simulation {
  struct Message {
    double sum = 0;
    double num_ranks = 0;
  };
  Placement nodes;
  std::vector<double> x;
  std::deque<Message> messages;

  [[nodiscard]] std::vector<int> ranks_of(int node) const {
    std::vector<int> result;
    for (std::size_t r = 0; r < nodes.size(); ++r)
      if (nodes[r] == node) result.push_back(int(r));
    return result;
  }
  [[nodiscard]] std::vector<int> all_nodes() const {
    auto result = nodes;
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }
  [[nodiscard]] int member(int node, int group) const {
    auto const ranks = ranks_of(node);
    return ranks[std::size_t(group) % ranks.size()];
  }
  void step(bool local_sync, double rate) {
    std::vector<double> gradients;
    for (std::size_t r = 0; r < x.size(); ++r) gradients.push_back(x[r] - double(r));
    for (std::size_t r = 0; r < x.size(); ++r) {
      double gradient = gradients[r];
      if (local_sync) {
        auto const ranks = ranks_of(nodes[r]);
        gradient = 0;
        for (int const other : ranks) gradient += gradients[std::size_t(other)] / double(ranks.size());
      }
      x[r] -= rate * gradient;
    }
  }
  void perform(Action const& action) {
    auto const num_nodes = double(all_nodes().size());
    if (action.kind == Kind::send) {
      Message message{0, num_nodes};
      // A node counts by its ranks; for equal nodes this is the sum over the group.
      for (int const node : all_nodes())
        message.sum +=
            x[std::size_t(member(node, action.group))] * double(ranks_of(node).size()) * num_nodes / double(x.size());
      messages.push_back(message);
    }
    for (int const node : all_nodes()) {
      auto& own = x[std::size_t(member(node, action.group))];
      auto const n = action.weight > 0 ? 2.0 * double(action.weight) : 1.0;
      if (action.kind == Kind::merge && num_nodes > 1) own = (n * own + messages.front().sum) / (num_nodes + n);
      if (action.kind == Kind::replace) own = messages.front().sum / num_nodes;
      if (action.kind == Kind::share)
        for (int const rank : ranks_of(node)) x[std::size_t(rank)] = own;
    }
    if (action.kind == Kind::merge || action.kind == Kind::replace) messages.pop_front();
  }
};

TEST(Daso, mixes_late_messages_in_as_the_rules_say) {
  auto const world = Comm::world();
  for (auto const& placement : placements(world.num_ranks()))
    for (std::array<Index, 3> const skips : {std::array<Index, 3>{4, 1, 1}, {8, 2, 2}, {1, 1, 1}}) {
      Parameters model(std::vector<torch::Tensor>{torch::full({1}, 0.25, torch::kDouble)});
      auto x = model->parameters()[0];
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
      Daso daso(*model, optimizer, world,
                {.schedule = {.total_epochs = 9}, .node = placement[std::size_t(world.rank())]});
      set_skips(daso, skips);
      auto schedule = daso.schedule();
      Simulation all{placement, std::vector<double>(placement.size(), 0.25), {}};
      daso.set_last_batch(10);
      schedule.set_last_batch(10);
      for (int step = 0; step < 14; ++step) {
        x.mutable_grad() = (x - double(world.rank())).detach();
        bool const local_sync = schedule.local_sync();
        daso.step();
        all.step(local_sync, 0.1);
        for (auto const& action : schedule.step()) all.perform(action);

        ASSERT_NEAR(x.item<double>(), all.x[std::size_t(world.rank())], 1e-13) << "step " << step;
      }
      daso.drain();
      EXPECT_EQ(daso.stats().num_sent, daso.stats().num_merged + daso.stats().num_replaced);
    }
}

/// Several buckets of gradients, of f64.
torch::nn::Sequential wide_model() {
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 40000));
  model->to(torch::kDouble);
  return model;
}

TEST(Daso, averages_gradients_within_nodes_while_the_backward_runs) {
  auto const world = Comm::world();
  bool const several = world.num_ranks() > 1;
  torch::manual_seed(3);
  auto model = wide_model();
  auto const parameters = model->parameters();
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1));
  // Messages can be counted; what ranks write into memory that they share cannot.
  test::WithVariable const transport("GRATICULE_TRANSPORT", "p2p");
  Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = 0});
  set_skips(daso, {4, 2, 1});
  daso.set_last_batch(20);
  long sends_at_last_gradient = 0;
  // That of the first layer's weight comes after those of the last layer.
  (void)parameters[0].register_hook([&](torch::Tensor const&) { sends_at_last_gradient = test::mpi_calls().sends; });
  int num_averaged = 0;
  for (int step = 0; step < 9; ++step) {
    bool const averages = daso.schedule().local_sync();
    num_averaged += averages ? 1 : 0;
    daso.zero_grad();
    auto const loss = model->forward(numbers(std::uint64_t(10 * step + world.rank()), {2, 3})).square().mean();
    auto const own = torch::autograd::grad({loss}, parameters, {}, /*retain_graph=*/true);
    auto const before = test::mpi_calls().sends;

    loss.backward();

    EXPECT_EQ(sends_at_last_gradient > before, averages && several);
    EXPECT_EQ(test::mpi_calls().sends > before, averages && several);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto const expected = averages ? mean_over(world, own[i]) : own[i];
      EXPECT_LE((parameters[i].grad() - expected).abs().max().item<double>(), 1e-15);
    }
    daso.step();
  }
  EXPECT_GT(num_averaged, 2);
  EXPECT_LT(num_averaged, 9);
}

TEST(Daso, sums_gradients_over_a_domain_in_every_backward) {
  auto const all = Comm::world();
  // Each rank is a part of the domain, and a data team by itself.
  auto const alone = all.split(all.rank(), 0);
  auto model = perceptron();
  auto serial = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
  torch::optim::SGD reference(serial->parameters(), torch::optim::SGDOptions(0.05));
  Daso daso(*model, optimizer, alone, {.schedule = {.total_epochs = 9}, .gradient_rules = {{all, nn::Reduction::sum}}});
  set_skips(daso, {4, 2, 1});
  daso.set_last_batch(20);
  for (int step = 0; step < 9; ++step) {
    auto const batch = numbers(std::uint64_t(100 + step), {4 * all.num_ranks(), 3});
    daso.zero_grad();
    (loss_of(model, batch.narrow(0, 4 * all.rank(), 4)) / all.num_ranks()).backward();
    daso.step();
    reference.zero_grad();
    loss_of(serial, batch).backward();
    reference.step();
    ASSERT_LE(largest_difference(values_of(*model), values_of(*serial)), 1e-12);
  }
}

TEST(Daso, tells_the_ranks_of_a_node_of_a_backward_that_has_thrown) {
  auto const world = Comm::world();
  bool const odd_one = world.rank() == world.num_ranks() - 1;
  auto model = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = 0});
  daso.set_last_batch(3);
  auto const loss = [&] { return loss_of(model, numbers(std::uint64_t(world.rank()), {4, 3})); };
  auto const start = values_of(*model);

  auto const broken = model->parameters()[0].register_hook([&](torch::Tensor const&) {
    if (odd_one) throw Error("Broken", "here");
  });
  EXPECT_EQ(rule_of([&] { loss().backward(); }), odd_one ? "Broken" : "PeerFailed");
  model->parameters()[0].remove_hook(broken);
  daso.zero_grad();
  loss().backward();
  daso.step();

  nn::require_same_bits(world, nn::parameters_of(*model));
  EXPECT_GT(largest_difference(values_of(*model), start), 1e-4);
}

TEST(Daso, is_alone_in_reducing_a_modules_gradients) {
  auto const world = Comm::world();
  auto model = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  DasoOptions const options{.schedule = {.total_epochs = 9}, .gradient_rules = {{world, nn::Reduction::sum}}};
  Daso const daso(*model, optimizer, world.split(world.rank(), 0), options);

  EXPECT_EQ(rule_of([&] { Daso(*model, optimizer, world.split(world.rank(), 0), options); }), "WrongState");
}

TEST(Daso, keeps_equal_parameters_bit_for_bit_whatever_the_wire) {
  auto const world = Comm::world();
  for (auto const wire : {Wire::automatic, Wire::own, Wire::f16}) {
    auto const values = numbers(3, {17}) / 3;
    std::vector<torch::Tensor> const all{values.to(torch::kFloat), values, values.to(torch::kBFloat16),
                                         values.to(torch::kHalf),
                                         torch::complex(values, values * 7).to(torch::kComplexFloat)};
    Parameters model(all);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    Daso daso(*model, optimizer, world,
              {.schedule = {.total_epochs = 5, .warmup_epochs = 1, .cooldown_epochs = 1, .patience = 0},
               .node = world.rank() == 0 ? 0 : 1,
               .wire = wire,
               .stale_wire = wire});
    daso.set_last_batch(3);
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (int b = 0; b < 4; ++b) daso.step();
      daso.epoch_loss(1.0);
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(torch::equal(model->parameters()[i].detach(), all[i])) << i << " by wire " << int(wire);
  }
}

TEST(Daso, loses_no_small_update_to_a_narrow_wire) {
  auto const world = Comm::world();
  for (auto const wire : {Wire::automatic, Wire::bf16, Wire::f16}) {
    Parameters model(std::vector<torch::Tensor>{torch::ones({4})});
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1));
    Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank(), .wire = wire});
    daso.set_last_batch(29);
    // Each is a 60000th of what bf16 tells from 1, and f16's smallest number.
    for (int b = 0; b < 30; ++b) {
      model->parameters()[0].mutable_grad() = torch::full({4}, 6e-8 * 2 * (world.rank() + 1) / (world.num_ranks() + 1));
      daso.step();
    }
    EXPECT_NEAR(model->parameters()[0][0].item<double>(), 1 - 30 * 6e-8, 1e-6);
    EXPECT_LT(model->parameters()[0][0].item<double>(), 1 - 9e-7);
    nn::require_same_bits(world, nn::parameters_of(*model));
  }
}

TEST(Daso, sends_narrow_differences_with_their_relative_precision) {
  auto const world = Comm::world();
  for (auto const wire : {Wire::f32, Wire::bf16, Wire::f16}) {
    Parameters model(std::vector<torch::Tensor>{torch::full({1000}, 1e5, torch::kDouble)});
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1));
    Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank(), .wire = wire});
    daso.set_last_batch(0);
    torch::Tensor mean = torch::zeros({1000}, torch::kDouble);
    for (int r = 0; r < world.num_ranks(); ++r) mean += numbers(std::uint64_t(r), {1000}) / world.num_ranks();
    model->parameters()[0].mutable_grad() = numbers(std::uint64_t(world.rank()), {1000});

    daso.step();

    auto const error = (model->parameters()[0].detach() - (1e5 - mean)).abs().max().item<double>();
    EXPECT_LE(error, wire == Wire::bf16 ? 0.02 : wire == Wire::f16 ? 0.003 : 1e-6);
    if (world.num_ranks() > 1 && wire == Wire::bf16) {
      EXPECT_GT(error, 1e-6);
      auto const parts = 2 * 1000 / world.num_ranks() * (world.num_ranks() - 1);
      EXPECT_NEAR(double(daso.stats().bytes_sent), 2.0 * parts, 8.0 * world.num_ranks());
    }
  }
}

TEST(Daso, gives_the_same_bits_in_pieces_of_any_size) {
  auto const world = Comm::world();
  std::vector<std::vector<double>> found;
  for (Index const chunk : {Index(1) << 30, Index(7), Index(1)}) {
    auto model = perceptron();
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank(), .chunk = chunk});
    set_skips(daso, {3, 1, 1});
    daso.set_last_batch(6);
    for (int b = 0; b < 7; ++b) {
      daso.zero_grad();
      loss_of(model, numbers(std::uint64_t(10 * b + world.rank()), {4, 3})).backward();
      daso.step();
    }
    found.push_back(values_of(*model));
    if (world.num_ranks() > 1) {
      // 32 parameters; the first piece holds what the others leave.
      EXPECT_EQ(daso.stats().num_pieces, daso.stats().num_sent * (chunk == 7 ? 5 : chunk == 1 ? 32 : 1));
    }
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

TEST(Daso, leaves_frozen_parameters_alone_and_their_neighbours_in_place) {
  auto const world = Comm::world();
  auto const rank = double(world.rank());
  Parameters model(std::vector<torch::Tensor>{torch::zeros({3}, torch::kDouble), torch::full({5}, 7.0, torch::kDouble),
                                              torch::zeros({2}, torch::kDouble)});
  auto const p = model->parameters();
  p[1].set_requires_grad(false);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1));
  Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank()});
  daso.set_last_batch(0);
  auto const mean = (world.num_ranks() - 1) / 2.0;
  auto const step = [&] {
    for (auto const i : {0U, 1U, 2U}) {
      auto parameter = p[i];
      if (parameter.requires_grad()) parameter.mutable_grad() = torch::full_like(parameter, -rank - double(i)).detach();
    }
    daso.step();
  };
  step();
  EXPECT_TRUE(torch::allclose(p[0].detach(), torch::full({3}, mean, torch::kDouble)));
  EXPECT_TRUE(torch::equal(p[1].detach(), torch::full({5}, 7.0, torch::kDouble)));
  EXPECT_TRUE(torch::allclose(p[2].detach(), torch::full({2}, mean + 2, torch::kDouble)));

  // Between epochs it may be thawed.
  p[1].set_requires_grad(true);
  daso.epoch_loss(1.0);
  step();
  EXPECT_TRUE(torch::allclose(p[1].detach(), torch::full({5}, 8 + mean, torch::kDouble)));
}

/// A parameter and two buffers, one of them a counter.
struct WithBuffersImpl : torch::nn::Module {
  explicit WithBuffersImpl(double value) {
    p = register_parameter("p", torch::zeros({2}, torch::kDouble));
    mean = register_buffer("mean", torch::full({3}, value, torch::kDouble));
    count = register_buffer("count", torch::full({}, 5, torch::kLong));
  }
  torch::Tensor p, mean, count;
};
TORCH_MODULE(WithBuffers);

TEST(Daso, leaves_averages_or_takes_buffers_and_moments_as_told) {
  auto const world = Comm::world();
  auto const rank = double(world.rank());
  auto const num = double(world.num_ranks());
  for (auto const policy : {DasoPolicy::leave, DasoPolicy::average, DasoPolicy::copy_sender})
    for (bool const one_node : {false, true}) {
      WithBuffers model(0.0);
      torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
      Daso daso(
          *model, optimizer, world,
          {.schedule = {.total_epochs = 9}, .node = one_node ? 0 : world.rank(), .buffers = policy, .moments = policy});
      daso.set_last_batch(9);
      model->mean.fill_(rank);
      model->count.fill_(world.rank());
      model->p.mutable_grad() = torch::full({2}, rank, torch::kDouble);

      daso.step();

      auto const& moments = static_cast<torch::optim::AdamParamState const&>(*optimizer.state().begin()->second);
      // Within a node gradients are averaged before; every rank of it keeps the same moments.
      auto const averaged = 0.1 * (num - 1) / 2;
      bool const from_sender = policy == DasoPolicy::copy_sender && one_node;
      bool const own = policy == DasoPolicy::leave || (policy == DasoPolicy::copy_sender && !one_node);
      EXPECT_NEAR(moments.exp_avg()[0].item<double>(), own && !one_node ? 0.1 * rank : averaged, 1e-12);
      // A message over one node is that of its first rank.
      double const expected = own ? rank : from_sender || one_node ? 0 : (num - 1) / 2;
      EXPECT_NEAR(model->mean[0].item<double>(), expected, 1e-12) << int(policy) << one_node;
      EXPECT_EQ(model->count.item<std::int64_t>(), one_node && policy != DasoPolicy::leave ? 0 : world.rank());
    }
}

TEST(Daso, knows_the_moments_of_each_optimizer) {
  auto const world = Comm::world();
  namespace t = torch::optim;
  std::vector<torch::Tensor> const one{torch::ones({12}, torch::kDouble)};
  auto const spread = [&](auto make) {
    Parameters model(one);
    auto optimizer = make(model->parameters());
    Daso daso(*model, optimizer, world,
              {.schedule = {.total_epochs = 9}, .node = world.rank(), .moments = DasoPolicy::average});
    daso.set_last_batch(99);
    for (int step = 0; step < 3; ++step) {
      model->parameters()[0].mutable_grad() = torch::full({12}, double(world.rank() + step), torch::kDouble);
      daso.step();
    }
    // With the same moments on all ranks, the same gradient is the same step.
    model->parameters()[0].mutable_grad() = torch::full({12}, 0.5, torch::kDouble);
    optimizer.step();
    nn::require_same_bits(world, nn::parameters_of(*model));
    // Of all ranks: parts of a message are of equal sizes only where the ranks divide it.
    Index bytes = daso.stats().bytes_sent;
    world.sum(std::span(&bytes, 1));
    return bytes;
  };
  auto const plain = spread([](auto p) { return t::SGD(p, t::SGDOptions(0.1)); });
  EXPECT_EQ(spread([](auto p) { return t::SGD(p, t::SGDOptions(0.1).momentum(0.9)); }), 2 * plain);
  EXPECT_EQ(spread([](auto p) { return t::Adam(p, t::AdamOptions(0.1)); }), 3 * plain);
  EXPECT_EQ(spread([](auto p) { return t::AdamW(p, t::AdamWOptions(0.1).amsgrad(true)); }), 4 * plain);
  EXPECT_EQ(spread([](auto p) { return t::RMSprop(p, t::RMSpropOptions(0.1).momentum(0.5).centered(true)); }),
            4 * plain);
  EXPECT_EQ(spread([](auto p) { return t::Adagrad(p, t::AdagradOptions(0.1)); }), 2 * plain);
  Parameters model(one);
  t::LBFGS lbfgs(model->parameters());
  EXPECT_EQ(rule_of([&] { Daso(*model, lbfgs, world, {.schedule = {.total_epochs = 9}}); }), "Unsupported");
  struct Own : t::Optimizer {
    using Optimizer::Optimizer;
    torch::Tensor step(LossClosure /*closure*/) override { return {}; }
  };
  Own own(model->parameters(), std::make_unique<t::SGDOptions>(0.1));
  EXPECT_EQ(
      rule_of([&] { Daso(*model, own, world, {.schedule = {.total_epochs = 9}, .moments = DasoPolicy::average}); }),
      "Unsupported");
}

/// Trains `num_epochs` more, from wherever it is.
void train(Daso& daso, torch::nn::Sequential& model, Comm const& world, int num_epochs) {
  for (int e = 0; e < num_epochs; ++e) {
    auto const epoch = daso.schedule().epoch();
    daso.set_last_batch(4);
    while (daso.schedule().epoch() == epoch) {
      daso.zero_grad();
      auto const seed = std::uint64_t(1000 * daso.schedule().epoch() + 10 * daso.schedule().batch() + world.rank());
      loss_of(model, numbers(seed, {4, 3})).backward();
      daso.step();
    }
    daso.epoch_loss(1.0);
  }
}

TEST(Daso, resumes_between_epochs_bit_for_bit) {
  auto const world = Comm::world();
  DasoOptions const options{.schedule = {.total_epochs = 12, .warmup_epochs = 1, .cooldown_epochs = 2, .patience = 0},
                            .node = world.rank() / 2};
  auto whole = perceptron();
  torch::optim::SGD optimizer(whole->parameters(), torch::optim::SGDOptions(0.01));
  Daso daso(*whole, optimizer, world, options);
  for (int const cut : {1, 4}) {
    train(daso, whole, world, cut - int(daso.schedule().epoch()));
    nn::require_same_bits(world, nn::parameters_of(*whole));
    auto resumed = perceptron();
    {
      torch::NoGradGuard const no_grad;
      for (std::size_t i = 0; i < resumed->parameters().size(); ++i)
        resumed->parameters()[i].copy_(whole->parameters()[i]);
    }
    torch::optim::SGD again(resumed->parameters(), torch::optim::SGDOptions(0.01));
    Daso second(*resumed, again, world, options);
    second.load_state(daso.state());
    train(second, resumed, world, 2);
    train(daso, whole, world, 2);
    EXPECT_EQ(values_of(*resumed), values_of(*whole)) << "saved after epoch " << cut;
    EXPECT_EQ(second.state(), daso.state());
  }
}

TEST(Daso, makes_replicas_within_an_epoch_when_asked) {
  auto const world = Comm::world();
  auto model = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank()});
  set_skips(daso, {8, 2, 2});
  daso.set_last_batch(20);
  for (int b = 0; b < 10; ++b) {
    daso.zero_grad();
    loss_of(model, numbers(std::uint64_t(10 * b + world.rank()), {4, 3})).backward();
    daso.step();
    EXPECT_EQ(rule_of([&] { (void)daso.state(); }), b % 8 < 2 ? "WrongState" : "nothing was thrown");
  }
  if (world.num_ranks() > 1) {
    EXPECT_EQ(rule_of([&] { nn::require_same_bits(world, nn::parameters_of(*model)); }), "ReplicaMismatch");
  }

  daso.synchronize();

  nn::require_same_bits(world, nn::parameters_of(*model));
  EXPECT_EQ(std::get<Index>(daso.state().at("batch")), 10);
}

TEST(Daso, tells_all_ranks_what_one_rank_must_not_send) {
  auto const world = Comm::world();
  int const odd_one = world.num_ranks() - 1;
  for (auto const& placement : placements(world.num_ranks()))
    for (bool const blocking : {true, false}) {
      auto model = perceptron();
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
      Daso daso(*model, optimizer, world,
                {.schedule = {.total_epochs = 9}, .node = placement[std::size_t(world.rank())]});
      if (!blocking) set_skips(daso, {4, 1, 1});
      auto const good = daso.state();
      daso.set_last_batch(40);
      auto const thrown = thrown_by([&] {
        for (int b = 0; b < 24; ++b) {
          // Again each time: others of the node may have given it theirs.
          if (b >= 9 && world.rank() == odd_one) {
            torch::NoGradGuard const no_grad;
            model->parameters()[2][1].fill_(std::numeric_limits<double>::quiet_NaN());
          }
          daso.step();
        }
      });
      EXPECT_EQ(thrown.rule, "NotFinite");
      EXPECT_NE(thrown.text.find("2.weight holds NaN"), std::string::npos) << thrown.text;
      EXPECT_EQ(rule_of([&] { daso.step(); }), (test::ErrorWith{"WrongState", "an earlier message of DASO failed"}));

      {
        torch::NoGradGuard const no_grad;
        for (auto& parameter : model->parameters()) parameter.zero_();
      }
      daso.load_state(good);
      daso.set_last_batch(2);
      for (int b = 0; b < 3; ++b) daso.step();
      EXPECT_EQ(daso.schedule().epoch(), 1);
    }
}

TEST(Daso, finds_infinity_when_asked_and_changed_flags_within_an_epoch) {
  auto const world = Comm::world();
  auto const rule_after = [&](training::DasoCheck check, auto change) {
    auto model = perceptron();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank(), .check = check});
    daso.set_last_batch(40);
    daso.step();
    torch::NoGradGuard const no_grad;
    if (world.rank() == world.num_ranks() - 1) change(model->parameters()[0]);
    return rule_of([&] { daso.step(); });
  };
  auto const to_infinity = [](torch::Tensor parameter) { parameter[0].fill_(std::numeric_limits<double>::infinity()); };
  EXPECT_EQ(rule_after(training::DasoCheck::finite, to_infinity), "NotFinite");
  EXPECT_EQ(rule_after(training::DasoCheck::nan, to_infinity), "nothing was thrown");
  EXPECT_EQ(rule_after(training::DasoCheck::nan, [](torch::Tensor parameter) { parameter.set_requires_grad(false); }),
            "ParametersChanged");
}

TEST(Daso, refuses_what_differs_among_ranks_and_bad_options_on_all_of_them) {
  auto const world = Comm::world();
  bool const odd_one = world.rank() == world.num_ranks() - 1;
  bool const several = world.num_ranks() > 1;
  auto const rule = [&](DasoOptions const& options, std::int64_t width = 5) {
    torch::nn::Linear model(width, 2);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    return rule_of([&] { Daso(*model, optimizer, world, options); });
  };
  DasoOptions good{.schedule = {.total_epochs = 9}};
  EXPECT_EQ(rule(good), "nothing was thrown");
  auto bad = good;
  bad.chunk = odd_one ? 0 : 7;
  EXPECT_EQ(rule(bad), "BadOption");
  bad.chunk = (Index(1) << 30) + 1;
  EXPECT_EQ(rule(bad), "BadOption");
  bad = good;
  bad.node = odd_one ? -1 : 0;
  EXPECT_EQ(rule(bad), "BadOption");
  EXPECT_EQ(rule({}), "BadOption");
  bad = good;
  bad.node = world.rank() == 0 ? 1 : 0;
  bad.unequal_nodes = training::UnequalNodes::refuse;
  EXPECT_EQ(rule(bad), world.num_ranks() > 2 ? "BadProcessGrid" : "nothing was thrown");
  bad = good;
  bad.schedule.warmup_epochs = odd_one ? 3 : 2;
  EXPECT_EQ(rule(bad), several ? "ArgumentDisagreement" : "nothing was thrown");
  EXPECT_EQ(rule(good, odd_one ? 4 : 5), several ? "ReplicaMismatch" : "nothing was thrown");

  auto model = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  Daso daso(*model, optimizer, world, good);
  EXPECT_EQ(rule_of([&] { daso.step(); }), (test::ErrorWith{"WrongState", "before its first step"}));
  EXPECT_EQ(rule_of([&] { daso.set_last_batch(odd_one ? 3 : 4); }),
            several ? (test::ErrorWith{"ArgumentDisagreement", "last batch 4"})
                    : (test::ErrorWith{"nothing was thrown", ""}));
  daso.set_last_batch(0);
  daso.step();
  if (odd_one) model->parameters()[0].set_requires_grad(false);
  EXPECT_EQ(rule_of([&] { daso.epoch_loss(1.0); }), several ? "ArgumentDisagreement" : "nothing was thrown");
  for (auto& parameter : model->parameters()) parameter.set_requires_grad(false);
  EXPECT_EQ(rule_of([&] { Daso(*model, optimizer, world, good); }), "NoParameters");
}

TEST(Daso, averages_losses_over_ranks_for_the_plateau) {
  auto const world = Comm::world();
  auto model = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 20, .warmup_epochs = 1, .cooldown_epochs = 0}});
  daso.set_last_batch(0);
  daso.step();
  daso.epoch_loss(double(world.rank()));
  EXPECT_EQ(std::get<double>(daso.state().at("plateau/best")), (world.num_ranks() - 1) / 2.0);
  daso.step();
  daso.epoch_loss(-3.0, training::LossIs::averaged);
  EXPECT_EQ(std::get<double>(daso.state().at("plateau/best")), -3.0);
}

// The code of docs/daso.md.
TEST(Daso, runs_and_resumes_as_documented) {
  auto const world = Comm::world();
  auto model = perceptron();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  int const num_batches = 5;
  auto const samples = [&](int epoch, int batch) {
    return numbers(std::uint64_t(100 * epoch + 10 * batch + world.rank()), {4, 3});
  };
  auto const folder = std::filesystem::temp_directory_path() / ("graticule_daso_" + std::to_string(world.num_ranks()));

  training::Daso daso(*model, optimizer, world,
                      {.schedule = {.total_epochs = 20, .warmup_epochs = 2, .cooldown_epochs = 2}});
  daso.set_last_batch(num_batches - 1);
  for (int epoch = 0; epoch < 20; ++epoch) {
    double sum = 0;
    for (int batch = 0; batch < num_batches; ++batch) {
      daso.zero_grad();
      torch::Tensor const loss = loss_of(model, samples(epoch, batch));
      loss.backward();
      daso.step();
      sum += loss.item<double>();
    }
    daso.epoch_loss(sum / num_batches);
  }

  CheckpointStore store(world, folder);
  Index const step = 100;
  {
    daso.synchronize();
    auto writer = store.begin(step);
    for (auto const& [name, value] : daso.state()) writer.add_value("daso/" + name, value);
    writer.commit();
  }
  auto const before = daso.state();
  auto const found = store.newest();
  ASSERT_TRUE(found);
  training::Values values;
  for (auto const& name : found->value_names())
    if (name.starts_with("daso/")) values.emplace(name.substr(5), found->value(name));
  daso.load_state(values);
  EXPECT_EQ(daso.state(), before);
  EXPECT_EQ(daso.schedule().epoch(), 20);
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove_all(folder);
}

TEST(Daso, may_end_with_messages_on_their_way) {
  auto const world = Comm::world();
  auto model = perceptron();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 9}, .node = world.rank()});
  set_skips(daso, {8, 1, 5});
  daso.set_last_batch(40);
  for (int b = 0; b < 10; ++b) daso.step();
  EXPECT_FALSE(daso.schedule().drained());
}

}  // namespace test_averaging
}  // namespace graticule
