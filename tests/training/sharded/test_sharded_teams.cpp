// SPDX-License-Identifier: BSD-3-Clause
// Cut parameters with replicas, other precisions, and what is refused.
#include <graticule/partition/teams.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/detail/managed.hpp>
#include <graticule/training/detail/shard_rule.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "expect_error.hpp"
#include "sharded_net.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace graticule {
namespace test_sharded_teams {

using test::ShardedNet;

/// A layer whose weight may be another one's.
struct TableImpl : torch::nn::Module {
  explicit TableImpl(torch::Tensor const& table) : weight(register_parameter("weight", table)) {}
  torch::Tensor forward(torch::Tensor const& x) { return x.matmul(weight); }
  torch::Tensor weight;
};
TORCH_MODULE(Table);

torch::Tensor make_table() { return torch::linspace(-1, 1, 25, torch::kDouble).view({5, 5}); }

/// 4 ranks cut by 2 and replicated by 2, fewer ranks as far as it goes.
Teams cut_and_replicated(Comm const& comm) {
  return Teams(comm, {{"replicas", comm.num_ranks() % 2 == 0 ? 2 : 1}, {"cut", 0}});
}

class Replicas : public testing::TestWithParam<training::Unsynchronised> {};

TEST_P(Replicas, hold_the_same_bits_and_train_as_one_rank_does) {
  if (test::make_batch(0).x.size(0) % Comm::world().num_ranks() != 0)
    GTEST_SKIP() << "the batch has no equal part for each rank: the mean of their means is another";
  auto const teams = cut_and_replicated(Comm::world());
  auto const& replicas = teams.team("replicas");
  auto serial = test::make_net();
  torch::manual_seed(40 + Comm::world().rank());
  ShardedNet net;
  {
    torch::NoGradGuard const no_grad;
    auto to = net->parameters();
    auto const from = serial->parameters();
    for (std::size_t i = 0; teams.world().rank() == 0 && i < to.size(); ++i) to[i].copy_(from[i]);
  }
  training::ShardedParameters sharded(net.ptr(), {teams.team("cut"), nn::Reduction::mean},
                                      {.replicas = {{replicas, nn::Reduction::mean}}});
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.01));
  sharded.adopt(optimizer);
  torch::optim::Adam serial_optimizer(serial->parameters(), torch::optim::AdamOptions(0.01));
  auto const backward = [&](int step) {
    auto const batch = test::make_batch(step);
    auto const mine = test::even_part(batch, teams.world());
    (serial->forward(batch.x) - batch.y).square().mean().backward();
    (sharded.forward([&] { return net->forward(mine.x); }) - mine.y).square().mean().backward();
  };

  for (int step = 0; step < 5; ++step) {
    serial_optimizer.zero_grad();
    optimizer.zero_grad();
    {
      auto const guard = sharded.no_sync(GetParam());
      backward(2 * step);
    }
    backward(2 * step + 1);
    serial_optimizer.step();
    optimizer.step();
  }

  nn::require_same_bits(replicas, sharded.named_parameters());
  EXPECT_LT(test::difference(test::whole_parameters(sharded, *net), nn::parameters_of(*serial)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(ShardedParameters, Replicas,
                         testing::Values(training::Unsynchronised::whole, training::Unsynchronised::cut));

TEST(ShardedPrecision, computes_narrow_and_keeps_rows_wide) {
  auto const comm = Comm::world();
  torch::manual_seed(2);
  nn::Unit<test::Block> serial(8);
  torch::manual_seed(2);
  nn::Unit<test::Block> block(8);
  training::ShardedParameters sharded(block.ptr(), {comm, nn::Reduction::mean},
                                      {.precision = {.parameters = torch::kBFloat16, .gradients = torch::kFloat}});
  auto const x = torch::randn({5, 8});

  auto const y = block(x);

  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::allclose(y.to(torch::kFloat), serial(x), 0.05, 0.05));
  serial(x).square().sum().backward();
  y.to(torch::kFloat).square().sum().backward();
  auto const expected = test::rows_of(nn::parameters_of(*serial), comm);
  auto const whole = nn::parameters_of(*serial);
  nn::NamedTensors gradients;
  for (auto const& [name, tensor] : whole) gradients.emplace_back(name, tensor.grad());
  auto const rows = test::rows_of(gradients, comm);
  auto const found = sharded.named_parameters();
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(torch::equal(found[i].second, expected[i].second)) << found[i].first;
    EXPECT_EQ(found[i].second.grad().scalar_type(), torch::kFloat);
    auto const size = rows[i].second.abs().sum().item<double>() + 1;
    EXPECT_LT((found[i].second.grad() - rows[i].second).abs().sum().item<double>(), 0.05 * size) << found[i].first;
  }
}

TEST(ShardedPrecision, sums_narrow_gradients_wide) {
  auto const comm = Comm::world();
  nn::Unit<torch::nn::Linear> layer(torch::nn::LinearOptions(3, 5).bias(false));
  training::ShardedParameters sharded(layer.ptr(), {comm, nn::Reduction::sum},
                                      {.precision = {.gradients = torch::kBFloat16}});
  // 256 and 1 are bfloat16, 257 is not.
  auto const x = torch::full({1, 3}, comm.rank() == 0 ? 256.0 : 1.0);

  layer(x).sum().backward();

  auto const shard = sharded.parameters().front();
  EXPECT_TRUE(torch::equal(shard.grad(), torch::full_like(shard, 255.0 + comm.num_ranks())));
}

TEST(ShardedParameters, refuse_what_cannot_be_cut) {
  auto const comm = Comm::world();
  auto const rule = [&](std::shared_ptr<torch::nn::Module> const& model,
                        training::ShardedParametersOptions const& options = {}) {
    return test::rule_of([&] {
      training::ShardedParameters const sharded(model, {comm, nn::Reduction::mean}, options);
    });
  };
  EXPECT_EQ(rule(torch::nn::Tanh().ptr()), "NoParameters");
  EXPECT_EQ(rule(nullptr), "NoParameters");
  EXPECT_EQ(rule(test::make_net().ptr(), {.num_prefetched = -1}), "BadOption");
  EXPECT_EQ(rule(test::make_net().ptr(), {.precision = {.parameters = torch::kLong}}), "BadOption");
  EXPECT_EQ(rule(test::make_net().ptr(), {.ignored = {torch::nn::Linear(1, 1).ptr()}}), "UnknownName");
  torch::nn::Conv2d conv(2, 3, 2);
  conv->to(torch::kFloat);
  conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_EQ(rule(conv.ptr()), "UnsupportedTensor");
  auto const table = make_table();
  EXPECT_EQ(rule(torch::nn::Sequential(nn::Unit<Table>(table), nn::Unit<Table>(table)).ptr()), "WrongState");
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule(torch::nn::Linear(2, 2 + comm.rank()).ptr()), "ReplicaMismatch");
    torch::nn::Linear partly_frozen(2, 2);
    partly_frozen->bias.set_requires_grad(comm.rank() == 0);
    EXPECT_EQ(rule(partly_frozen.ptr()), "ReplicaMismatch");
    EXPECT_EQ(rule(test::make_net().ptr(), {.num_prefetched = comm.rank() == 0 ? 0 : 1}), "ArgumentDisagreement");
    auto const rank_dependent = [&](std::string const& name, std::int64_t) {
      return comm.rank() == 0 || name == "first";
    };
    EXPECT_EQ(rule(test::make_net().ptr(), {.is_unit = rank_dependent}), "ArgumentDisagreement");
    auto net = test::make_net();
    net->head->bias.set_requires_grad(comm.rank() == 0);
    EXPECT_EQ(rule(net.ptr(), {.ignored = {net->head.ptr()}}), "nothing was thrown");
  }
}

TEST(ShardedParameters, refuse_what_is_wrong_in_one_replica_in_all) {
  auto const comm = Comm::world();
  if (comm.num_ranks() % 2 != 0 || comm.num_ranks() < 4) GTEST_SKIP() << "two replicas of two ranks need 4 ranks";
  Teams const teams(comm, {{"replica", 2}, {"shard", 0}});
  bool const odd_one = comm.rank() + 1 == comm.num_ranks();
  auto const rule = [&](std::shared_ptr<torch::nn::Module> const& model, int num_prefetched) {
    return test::rule_of([&] {
      training::ShardedParameters const sharded(
          model, {teams.team("shard"), nn::Reduction::mean},
          {.replicas = {{teams.team("replica"), nn::Reduction::mean}}, .num_prefetched = num_prefetched});
    });
  };

  EXPECT_EQ(rule(test::make_net().ptr(), odd_one ? -1 : 1), "BadOption");
  auto net = test::make_net();
  net->head->bias.set_requires_grad(!odd_one);
  EXPECT_EQ(rule(net.ptr(), 1), "ReplicaMismatch");
  EXPECT_EQ(rule(test::make_net().ptr(), 1), "nothing was thrown");
}

TEST(ShardedParameters, refuse_a_parameter_that_needs_a_gradient_only_later) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  for (auto& parameter : net->layers[2]->parameters()) parameter.set_requires_grad(true);

  auto const error = test::thrown_by([&] { (void)sharded.forward([&] { return net->forward(torch::arange(3)); }); });

  EXPECT_EQ(error.rule, "ParametersChanged");
  EXPECT_EQ(error.text,
            "layers.2.weight of layers.2 required no gradient when it was sharded, and does so now: unwrap() the model "
            "and shard it again");
}

TEST(ShardedParameters, are_cut_once_and_marked) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  auto const other = test::make_net();
  {
    training::ShardedParameters const sharded(net.ptr(), {comm, nn::Reduction::mean}, {.ignored = {net->head.ptr()}});
    EXPECT_EQ(test::rule_of([&] {
                training::ShardedParameters const twice(net.ptr(), {comm, nn::Reduction::mean});
              }),
              "WrongState");
    EXPECT_EQ(test::rule_of([&] {
                training::ShardedParameters const part(net->first.ptr(), {comm, nn::Reduction::mean});
              }),
              "WrongState");
    for (auto const& module : net->modules()) {
      EXPECT_EQ(training::is_managed(*module), module != net->head.ptr()) << module->name();
      EXPECT_EQ(training::detail::uses_original_parameters(*module), module != net->head.ptr());
    }
    EXPECT_FALSE(training::is_managed(*other));
    EXPECT_EQ(sharded.parameters().size(), net->parameters().size() - 2);
    EXPECT_GT(net->head->weight.storage().nbytes(), 0U);
  }
  EXPECT_FALSE(training::is_managed(*net));
  EXPECT_EQ(test::rule_of([&] {
              training::ShardedParameters const again(net.ptr(), {comm, nn::Reduction::mean});
            }),
            "ParametersChanged");
}

TEST(ShardedParameters, are_alone_in_reducing_a_models_gradients) {
  auto const comm = Comm::world();
  std::vector<nn::TeamRule> const mean{{comm, nn::Reduction::mean}};
  training::DasoOptions const daso{.schedule = {.total_epochs = 9}};
  auto net = test::make_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto const cut = [&] { training::ShardedParameters const sharded(net.ptr(), mean.front()); };
  auto const reduce = [&] { training::DataParallel const parallel(*net, sgd, mean); };
  auto const average = [&] { training::Daso const averaged(*net, sgd, comm, daso); };
  {
    training::DataParallel const parallel(*net, sgd, mean);
    EXPECT_EQ(test::rule_of(cut), "WrongState");
  }
  {
    training::ShardedParameters sharded(net.ptr(), mean.front());
    EXPECT_EQ(test::rule_of(reduce), "WrongState");
    EXPECT_EQ(test::rule_of(average), "WrongState");
    sharded.unwrap();
    EXPECT_EQ(test::rule_of(reduce), "nothing was thrown");
    EXPECT_EQ(test::rule_of(average), "nothing was thrown");
  }
  cut();
  EXPECT_EQ(test::rule_of(reduce), "ParametersChanged");
  EXPECT_EQ(test::rule_of(average), "ParametersChanged");
}

TEST(ShardedParameters, stay_whole_where_an_ignored_module_has_them_too) {
  auto const table = make_table();
  Table first(table);
  Table second(table);
  torch::nn::Sequential const model(first, second, torch::nn::Linear(5, 1));
  training::ShardedParameters const sharded(model.ptr(), {Comm::world(), nn::Reduction::mean},
                                            {.ignored = {second.ptr()}});
  ASSERT_EQ(sharded.notes().size(), 1U);
  EXPECT_EQ(sharded.notes().front(), "0.weight stays whole, because an ignored module has it too");
  EXPECT_EQ(sharded.parameters().size(), 2U);
  EXPECT_EQ(table.storage().nbytes(), 25 * sizeof(double));
}

TEST(ShardedParameters, take_gradients_from_all_modules_of_a_unit_that_share_them) {
  auto const comm = Comm::world();
  auto const make = [] {
    auto const table = make_table();
    return torch::nn::Sequential(Table(table), torch::nn::Tanh(), Table(table));
  };
  auto serial = make();
  auto model = make();
  training::ShardedParameters sharded(model.ptr(), {comm, nn::Reduction::mean});
  auto const x = torch::eye(5, torch::kDouble);

  serial->forward(x).square().sum().backward();
  sharded.forward([&] { return model->forward(x); }).square().sum().backward();

  ASSERT_EQ(sharded.parameters().size(), 1U);
  auto const rows = training::detail::shard_rows(5, comm.num_ranks(), comm.rank());
  auto const expected = serial->parameters().front().grad().narrow(0, rows.lo, rows.size());
  EXPECT_TRUE(torch::allclose(sharded.parameters().front().grad(), expected, 1e-13));
}

/// A backward that fails while parameters are gathered, a reset, and new teams that could get what was on its way.
void expect_no_message_after_a_reset(training::ShardedParametersOptions const& options) {
  auto const world = Comm::world();
  auto const x = torch::arange(3);
  {
    Comm const team(MPI_COMM_WORLD);
    auto net = test::make_net();
    training::ShardedParameters sharded(net.ptr(), {team, nn::Reduction::mean}, options);
    auto const y = sharded.forward([&] { return net->forward(x); });
    y.register_hook([](torch::Tensor const& gradient) -> torch::Tensor {
      if (gradient.defined()) throw std::runtime_error("in the backward");
      return gradient;
    });
    // What the others gather ahead is sent to a rank that has given up.
    if (world.rank() > 0) world.barrier();
    EXPECT_EQ(test::thrown_by([&] { y.sum().backward(); }).text.substr(0, 15), "in the backward");
    sharded.reset();
    if (world.rank() == 0) world.barrier();
    sharded.forward([&] { return net->forward(x); }).sum().backward();
  }
  // Communicators like the one before, whose first messages have the tags of those.
  for (int later = 0; later < 3; ++later) {
    Comm const team(MPI_COMM_WORLD);
    auto net = test::make_net();
    auto serial = test::make_net();
    for (auto const& model : {net, serial}) {
      torch::NoGradGuard const no_grad;
      for (auto& parameter : model->parameters()) parameter.mul_(2);
    }
    training::ShardedParameters sharded(net.ptr(), {team, nn::Reduction::mean}, options);

    sharded.forward([&] { return net->forward(x); }).sum().backward();

    serial->forward(x).sum().backward();
    auto const expected = test::rows_of(test::gradients_of(nn::parameters_of(*serial)), team);
    EXPECT_LT(test::difference(test::gradients_of(sharded.named_parameters()), expected), 1e-12);
  }
}

TEST(ShardedParameters, leave_no_message_to_later_teams_after_a_reset) {
  expect_no_message_after_a_reset({.num_prefetched = 3});
}
TEST(ShardedParameters, leave_no_message_within_groups_after_a_reset) {
  expect_no_message_after_a_reset({.between_passes = training::BetweenPasses::in_groups,
                                   .ranks_per_group = Comm::world().num_ranks(),
                                   .num_prefetched = 3});
}

TEST(ShardedParameters, refuse_changes_that_would_give_wrong_gradients) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  auto const x = torch::arange(3);
  auto const loss = [&] { return sharded.forward([&] { return net->forward(x); }).sum(); };
  auto const change = [&] {
    torch::NoGradGuard const no_grad;
    for (auto& shard : sharded.parameters()) shard.mul_(1.5);
  };

  auto const first = loss();
  change();
  EXPECT_EQ(test::rule_of([&] { first.backward(); }),
            (test::ErrorWith{"ParametersChanged", "between its forward and its backward"}));
  sharded.reset();
  EXPECT_EQ(test::rule_of([&] { loss().backward({}, true, /*create_graph=*/true); }), "Unsupported");
  sharded.reset();
  {
    auto const whole = sharded.gathered();
    (void)loss();
    change();
    EXPECT_EQ(test::rule_of([&] { (void)loss(); }), (test::ErrorWith{"ParametersChanged", "within gathered()"}));
  }
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  {
    auto const whole = sharded.gathered();
    for (auto& parameter : net->parameters()) parameter.mutable_grad() = torch::ones_like(parameter);
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_EQ(test::rule_of([&] { sharded.adopt(optimizer); }), "WrongState");
  loss().backward();
  net->gain.set_data(torch::zeros({}, torch::kDouble));
  EXPECT_EQ(test::rule_of([&] { (void)loss(); }),
            (test::ErrorWith{"ParametersChanged", "has been given other memory"}));
}

TEST(ShardedParameters, are_adopted_by_an_optimizer_that_begins_with_state) {
  auto const comm = Comm::world();
  auto const options = torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.5);
  auto net = test::make_net();
  auto serial = test::make_net();
  torch::optim::Adagrad optimizer(net->parameters(), options);
  torch::optim::Adagrad serial_optimizer(serial->parameters(), options);
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  auto const x = torch::arange(3);

  sharded.adopt(optimizer);

  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    serial_optimizer.zero_grad();
    sharded.forward([&] { return net->forward(x); }).sum().backward();
    serial->forward(x).sum().backward();
    optimizer.step();
    serial_optimizer.step();
  }
  EXPECT_LT(test::difference(test::whole_parameters(sharded, *net), nn::parameters_of(*serial)), 1e-12);
  EXPECT_EQ(test::rule_of([&] { sharded.adopt(optimizer); }), "WrongState");
}

struct OpaqueImpl : torch::nn::Module {
  struct Result {
    torch::Tensor y;
  };
  OpaqueImpl() : layer(register_module("layer", torch::nn::Linear(2, 2))) {}
  Result forward(torch::Tensor const& x) { return {layer(x)}; }
  torch::nn::Linear layer;
};
TORCH_MODULE(Opaque);

TEST(ShardedParameters, refuse_an_optimizer_that_takes_all_for_one_vector) {
  auto net = test::make_net();
  torch::optim::LBFGS lbfgs(net->parameters(), 1);
  training::ShardedParameters const sharded(net.ptr(), {Comm::world(), nn::Reduction::mean});

  EXPECT_EQ(test::rule_of([&] { sharded.adopt(lbfgs); }), "Unsupported");
}

/// One of a user's own.
class OwnOptimizer : public torch::optim::SGD {
 public:
  using SGD::SGD;
};

TEST(ShardedParameters, refuse_an_optimizer_that_is_not_known_to_act_element_by_element) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  auto serial = test::make_net();
  OwnOptimizer optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD serial_optimizer(serial->parameters(), torch::optim::SGDOptions(0.1));
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  auto const x = torch::arange(3);

  EXPECT_EQ(test::rule_of([&] { sharded.adopt(optimizer); }), (test::ErrorWith{"Unsupported", "OwnOptimizer"}));
  sharded.adopt(optimizer, training::ElementwiseOptimizer::vouched);

  sharded.forward([&] { return net->forward(x); }).sum().backward();
  serial->forward(x).sum().backward();
  optimizer.step();
  serial_optimizer.step();
  EXPECT_LT(test::difference(test::whole_parameters(sharded, *net), nn::parameters_of(*serial)), 1e-12);
}

TEST(ShardedParameters, refuse_tensors_without_values_on_all_ranks) {
  auto const comm = Comm::world();
  for (int odd_one : {-1, 0, comm.num_ranks() - 1}) {
    auto const net = std::make_shared<torch::nn::Module>();
    bool const odd = odd_one < 0 || odd_one == comm.rank();
    net->register_parameter("weight", torch::zeros({3, 2}, odd ? torch::kMeta : torch::kCPU));

    EXPECT_EQ(test::rule_of([&] {
                training::ShardedParameters const sharded(net, {comm, nn::Reduction::mean});
              }),
              (test::ErrorWith{"UnsupportedTensor", "'weight' has no values"}));
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    EXPECT_EQ(test::rule_of([&] { training::Daso(*net, optimizer, comm, {.schedule = {.total_epochs = 9}}); }),
              (test::ErrorWith{"UnsupportedTensor", "'weight' has no values"}));
  }
}

TEST(ShardedParameters, refuse_units_whose_outputs_cannot_be_seen) {
  nn::Unit<Opaque> unit;
  training::ShardedParameters const sharded(unit.ptr(), {Comm::world(), nn::Reduction::mean});
  EXPECT_EQ(test::rule_of([&] { (void)unit->forward(torch::ones({1, 2})); }), "Unsupported");
  torch::NoGradGuard const no_grad;
  EXPECT_TRUE(unit->forward(torch::ones({1, 2})).y.defined());
}

TEST(ShardedParameters, name_ranks_that_use_other_units_when_they_compare) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean}, {.checks = training::CheckedCalls::on});
  auto const x = torch::arange(3);
  bool const last = comm.rank() + 1 == comm.num_ranks();

  auto const error = test::thrown_by([&] {
    (void)sharded.forward([&] {
      auto const words = net->words(x);
      return last ? net->layers->forward(words) : net->first(words);
    });
  });

  EXPECT_EQ(error.rule, "CallDisagreement");
  EXPECT_NE(error.text.find("the forward of first"), std::string::npos) << error.text;
  EXPECT_NE(error.text.find("the forward of layers.0"), std::string::npos) << error.text;
  sharded.forward([&] { return net->forward(x); }).sum().backward();
  EXPECT_TRUE(sharded.parameters().front().grad().defined());
}

TEST(ShardedParameters, name_ranks_without_the_backward_of_a_unit_when_they_compare) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean},
                                      {.num_prefetched = 0, .checks = training::CheckedCalls::on});
  auto const run = [&] { sharded.forward([&] { return net->forward(torch::arange(3)); }).sum().backward(); };
  // Its input needs no gradient: the first unit that has a backward is the next one.
  net->words->weight.set_requires_grad(comm.rank() != 0);

  EXPECT_EQ(test::thrown_by(run).rule, "CallDisagreement");

  sharded.reset();
  net->words->weight.set_requires_grad(true);
  EXPECT_NO_THROW(run());
}

TEST(ShardedParameters, tell_all_ranks_of_an_exception_on_one_when_they_compare) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "there is no other rank to tell";
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean}, {.checks = training::CheckedCalls::on});
  auto const x = torch::arange(3);
  for (int i = 0; i < 2; ++i) {
    auto const run = [&] {
      return sharded.forward([&] {
        auto const words = net->words(x);
        if (comm.rank() == 1) throw std::runtime_error("no more");
        return net->first(words);
      });
    };
    if (comm.rank() == 1) {
      EXPECT_THROW((void)run(), std::runtime_error);
    } else {
      auto const error = test::thrown_by(run);
      EXPECT_EQ(error.rule, "CallDisagreement");
      EXPECT_NE(error.text.find("an exception in a forward"), std::string::npos) << error.text;
    }
    EXPECT_EQ(sharded.stats().gathered_bytes, 0);
    sharded.forward([&] { return net->forward(x); }).sum().backward();
  }
}

}  // namespace test_sharded_teams
}  // namespace graticule
