// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/teams.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>

namespace graticule {
namespace test_data_parallel_steps {

using nn::Reduction;
using test::copy_of;
using test::Holder;
using test::loss_of;
using test::Net;
using test::parameter_difference;
using test::part_of;
using test::rule_of;
using test::small_buckets;
using test::thrown_by;
using test::whole_batch;
using training::DataParallelOptions;
using training::GradientWait;
using Kind = training::DataParallel::Event::Kind;

std::unique_ptr<torch::optim::Optimizer> optimizer_for(std::string const& name, Net const& net) {
  if (name == "sgd")
    return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  return std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01).weight_decay(0.01));
}

/// Trains for some steps, with a learning rate that falls, and returns the model.
Net trained(Net const& start, std::string const& name, DataParallelOptions const& options, int num_steps) {
  auto const comm = Comm::world();
  auto net = copy_of(start);
  auto optimizer = optimizer_for(name, net);
  training::DataParallel parallel(*net, *optimizer, {{comm, Reduction::mean}}, options);
  torch::optim::StepLR scheduler(*optimizer, 10, 0.7);
  for (int step = 0; step < num_steps; ++step) {
    optimizer->zero_grad();
    loss_of(net, part_of(whole_batch(step, 2 * comm.num_ranks()), comm)).backward();
    if (step % 7 == 3) parallel.clip_gradients(0.5);
    parallel.step();
    scheduler.step();
  }
  parallel.finalize();
  EXPECT_EQ(parallel.fallback(), "");
  EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, nn::parameters_of(*net)); }), "nothing was thrown");
  return net;
}

TEST(DataParallel, keeps_replicas_equal_bit_for_bit_over_50_steps_in_every_mode) {
  auto const comm = Comm::world();
  torch::manual_seed(11);
  Net const start;
  for (std::string const name : {"sgd", "adam"}) {
    auto serial = copy_of(start);
    auto optimizer = optimizer_for(name, serial);
    torch::optim::StepLR scheduler(*optimizer, 10, 0.7);
    for (int step = 0; step < 50; ++step) {
      optimizer->zero_grad();
      loss_of(serial, whole_batch(step, 2 * comm.num_ranks())).backward();
      if (step % 7 == 3) (void)torch::nn::utils::clip_grad_norm_(serial->parameters(), 0.5);
      optimizer->step();
      scheduler.step();
    }

    auto const blocking = trained(start, name, {.buckets = small_buckets}, 50);
    auto const late = trained(start, name, {.wait = GradientWait::late, .buckets = small_buckets}, 50);
    auto const ordered = trained(start, name, {.order = training::SumOrder::by_rank}, 50);

    EXPECT_LE(parameter_difference(*blocking, *serial), 1e-10);
    EXPECT_EQ(parameter_difference(*blocking, *late), 0);
    EXPECT_LE(parameter_difference(*blocking, *ordered), 1e-10);
    EXPECT_GT(parameter_difference(*blocking, *start), 0.01);
  }
}

TEST(DataParallel, gives_the_same_bits_again_when_it_adds_by_rank) {
  Net const start;
  DataParallelOptions const options{.order = training::SumOrder::by_rank, .buckets = small_buckets};

  EXPECT_EQ(parameter_difference(*trained(start, "adam", options, 5), *trained(start, "adam", options, 5)), 0);
}

TEST(DataParallel, updates_each_unit_before_its_next_forward) {
  auto const comm = Comm::world();
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  training::DataParallel parallel(*net, sgd, {{comm, Reduction::mean}},
                                  {.wait = GradientWait::late, .buckets = {1, 1}, .record_events = true});
  auto const names = net->named_parameters().keys();
  auto const place = [&](std::string const& name) {
    return std::size_t(std::find(names.begin(), names.end(), name) - names.begin());
  };
  loss_of(net, part_of(whole_batch(0, 2 * comm.num_ranks()), comm)).backward();
  (void)parallel.events();

  parallel.step();
  auto const at_step = parallel.events();
  auto const before = net->first->weight.detach().clone();
  (void)net->first(torch::zeros({1, 100}, torch::kDouble));
  auto const at_forward = parallel.events();

  // `scale` is in no unit.
  ASSERT_EQ(at_step.size(), 2U);
  EXPECT_EQ(at_step[0].kind, Kind::bucket_waited);
  EXPECT_EQ(at_step[1].kind, Kind::updated);
  EXPECT_EQ(at_step[1].index, place("scale"));
  ASSERT_EQ(at_forward.size(), 4U);
  EXPECT_EQ(at_forward[0].kind, Kind::bucket_waited);
  EXPECT_EQ(at_forward[2].kind, Kind::updated);
  EXPECT_EQ(at_forward[2].index, place("first.weight"));
  EXPECT_EQ(at_forward[3].index, place("first.bias"));
  EXPECT_FALSE(torch::equal(before, net->first->weight));
  parallel.finalize();
  EXPECT_EQ(std::ssize(parallel.events()), 2 * (std::ssize(names) - 3));
}

/// Trains units in turn, so that each one misses every second forward.
Net trained_in_turn(Net const& start, GradientWait wait) {
  auto const comm = Comm::world();
  auto net = copy_of(start);
  torch::optim::Adam adam(net->parameters(), 0.1);
  training::DataParallel parallel(*net, adam, {{comm, Reduction::mean}},
                                  {.wait = wait, .unused = training::Unused::allowed});
  auto const x = torch::full({1, 16}, comm.rank() + 1.0, torch::kDouble);
  for (int step = 0; step < 5; ++step) {
    auto const y = step % 2 == 0 ? net->second(x) : net->last(x);
    // Gradients of the unit that has not run are kept aside.
    adam.zero_grad();
    y.square().sum().backward();
    parallel.step();
  }
  parallel.finalize();
  return net;
}

TEST(DataParallel, leaves_reduced_gradients_and_made_steps_when_it_ends) {
  auto const comm = Comm::world();
  for (auto const wait : {GradientWait::in_backward, GradientWait::late}) {
    torch::manual_seed(5);
    Net net;
    auto serial = copy_of(net);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    torch::optim::SGD serial_sgd(serial->parameters(), 0.1);
    auto const batch = whole_batch(0, 2 * comm.num_ranks());
    for (bool const steps_itself : {true, false}) {
      sgd.zero_grad();
      {
        training::DataParallel parallel(*net, sgd, {{comm, Reduction::mean}}, {.wait = wait, .buckets = small_buckets});
        loss_of(net, part_of(batch, comm)).backward();
        if (steps_itself) parallel.step();
      }
      if (!steps_itself) sgd.step();

      serial_sgd.zero_grad();
      loss_of(serial, batch).backward();
      serial_sgd.step();
      EXPECT_LT(parameter_difference(*net, *serial), 1e-12) << steps_itself;
    }
  }
}

TEST(DataParallel, updates_what_a_forward_has_not_run_before_the_next_backward) {
  torch::manual_seed(5);
  Net const start;

  auto const blocking = trained_in_turn(start, GradientWait::in_backward);
  auto const late = trained_in_turn(start, GradientWait::late);

  EXPECT_EQ(parameter_difference(*blocking, *late), 0);
  EXPECT_GT((late->second->weight - start->second->weight).abs().max().item<double>(), 0.01);
  EXPECT_GT((late->last->weight - start->last->weight).abs().max().item<double>(), 0.01);
  EXPECT_TRUE(torch::equal(late->first->weight, start->first->weight));
}

TEST(DataParallel, falls_back_to_waiting_in_the_backward_where_steps_cannot_be_split) {
  auto const comm = Comm::world();
  std::vector<nn::TeamRule> const mean{{comm, Reduction::mean}};
  DataParallelOptions const late{.wait = GradientWait::late};
  Net net;
  torch::optim::SGD all(net->parameters(), 0.1);
  torch::optim::SGD some(net->first->parameters(), 0.1);
  torch::optim::LBFGS whole(net->parameters(), 1);
  torch::optim::SGD groups({torch::optim::OptimizerParamGroup(net->first->parameters()),
                            torch::optim::OptimizerParamGroup(net->last->parameters())},
                           torch::optim::SGDOptions(0.1));
  auto const reason = [&](std::vector<torch::optim::Optimizer*> optimizers) {
    training::DataParallel const parallel(*net, std::move(optimizers), mean, late);
    EXPECT_EQ(parallel.wait() == GradientWait::late, parallel.fallback().empty());
    return parallel.fallback();
  };

  EXPECT_EQ(reason({&all}), "");
  EXPECT_EQ(reason({}), "");
  EXPECT_EQ(reason({&all, &some}), "2 optimizers");
  EXPECT_EQ(reason({&some}), "the optimizer's parameters are not exactly those of the module");
  EXPECT_EQ(reason({&whole}), "LBFGS updates all parameters at once");
  EXPECT_EQ(reason({&groups}), "2 parameter groups");
}

namespace {

/// Searches of ranks whose closures return `returned(part)` of their parts of a loss.
void expect_searches_of_one_rank(Comm const& comm, std::initializer_list<Reduction> reductions,
                                 std::function<torch::Tensor(torch::Tensor const&)> const& returned) {
  for (auto const reduction : reductions)
    for (std::string const search : {"", "strong_wolfe"}) {
      auto options = torch::optim::LBFGSOptions(0.1).max_iter(6);
      if (!search.empty()) options.line_search_fn(search);
      torch::manual_seed(7);
      Net net;
      auto serial = copy_of(net);
      torch::optim::LBFGS lbfgs(net->parameters(), options);
      torch::optim::LBFGS serial_lbfgs(serial->parameters(), options);
      training::DataParallel parallel(*net, lbfgs, {{comm, reduction}}, {.wait = GradientWait::late});
      double const share = reduction == Reduction::sum ? 1.0 / comm.num_ranks() : 1;
      auto const batch = whole_batch(0, 2 * comm.num_ranks());
      int num_calls = 0;
      int num_serial_calls = 0;
      for (int step = 0; step < 3; ++step) {
        double const loss = parallel.step([&] {
          ++num_calls;
          lbfgs.zero_grad();
          auto const part = loss_of(net, part_of(batch, comm)) * share;
          part.backward();
          return returned(part);
        });

        auto const expected = serial_lbfgs.step([&] {
          ++num_serial_calls;
          serial_lbfgs.zero_grad();
          auto const whole = loss_of(serial, batch);
          whole.backward();
          return whole;
        });
        EXPECT_NEAR(loss, expected.item<double>(), 1e-9) << search << step;
        EXPECT_EQ(num_calls, num_serial_calls) << search;
        EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, nn::parameters_of(*net)); }), "nothing was thrown");
      }
      EXPECT_LT(parameter_difference(*net, *serial), 1e-8) << search;
    }
}

}  // namespace

TEST(DataParallel, searches_by_lbfgs_as_one_rank_on_the_whole_batch) {
  expect_searches_of_one_rank(Comm::world(), {Reduction::mean, Reduction::sum},
                              [](torch::Tensor const& part) { return part; });
}

TEST(DataParallel, searches_by_losses_that_are_whole_on_each_rank) {
  auto const comm = Comm::world();
  expect_searches_of_one_rank(comm, {Reduction::sum}, [&](torch::Tensor const& part) {
    std::array<double, 1> whole{part.item<double>()};
    comm.sum(whole);
    return torch::tensor(whole[0], torch::kDouble);
  });
}

TEST(DataParallel, runs_closures_of_any_optimizer_and_tells_all_ranks_of_one_that_throws) {
  auto const comm = Comm::world();
  std::vector<nn::TeamRule> const mean{{comm, Reduction::mean}};
  for (auto const wait : {GradientWait::in_backward, GradientWait::late}) {
    torch::manual_seed(7);
    Net net;
    auto serial = copy_of(net);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    torch::optim::SGD serial_sgd(serial->parameters(), 0.1);
    training::DataParallel parallel(*net, sgd, mean, {.wait = wait});
    auto const batch = whole_batch(0, 2 * comm.num_ranks());
    auto const closure = [&](bool throws) {
      sgd.zero_grad();
      auto const loss = loss_of(net, part_of(batch, comm));
      loss.backward();
      if (throws) throw Error("OwnFailure", "after its backward");
      return loss;
    };

    parallel.step([&] { return closure(false); });
    auto const error = rule_of([&] { parallel.step([&] { return closure(comm.rank() == 0); }); });

    EXPECT_EQ(error, comm.rank() == 0 ? "OwnFailure" : "PeerFailed");
    parallel.finalize();
    loss_of(serial, batch).backward();
    serial_sgd.step();
    EXPECT_LT(parameter_difference(*net, *serial), 1e-12);
  }
}

TEST(DataParallel, refuses_steps_that_lbfgs_cannot_make) {
  auto const comm = Comm::world();
  std::vector<nn::TeamRule> const mean{{comm, Reduction::mean}};
  Net net;
  torch::optim::LBFGS lbfgs(net->parameters(), 1);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto const nothing = [] { return torch::zeros({}); };
  {
    training::DataParallel parallel(*net, lbfgs, mean);
    EXPECT_EQ(rule_of([&] { parallel.step(); }), "WrongState");
    EXPECT_EQ(rule_of([&] { parallel.step([] { return torch::Tensor(); }); }), "BadOption");
  }
  {
    training::DataParallel parallel(*net, lbfgs, mean, {.own_rules = {{"scale", {}}}});
    auto const error = thrown_by([&] { parallel.step(nothing); });
    EXPECT_EQ(error.rule, "BadOption");
    EXPECT_NE(error.text.find("'scale'"), std::string::npos) << error.text;
  }
  training::DataParallel parallel(*net, {&lbfgs, &sgd}, mean);
  EXPECT_EQ(rule_of([&] { parallel.step(nothing); }), "BadOption");
}

TEST(DataParallel, counts_what_it_sends) {
  auto const comm = Comm::world();
  Net net;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, {.order = training::SumOrder::any});
  auto const before = test::mpi_calls();

  loss_of(net, part_of(whole_batch(0, comm.num_ranks()), comm)).backward();

  Index numel = 0;
  for (auto const& parameter : net->parameters()) numel += parameter.numel();
  auto const num_collectives = comm.num_ranks() > 1 ? Index(parallel.buckets().size()) : 0;
  EXPECT_EQ(parallel.traffic()[0].collectives, num_collectives);
  EXPECT_EQ(test::mpi_calls().collectives - before.collectives, num_collectives);
  EXPECT_GE(parallel.traffic()[0].bytes, comm.num_ranks() > 1 ? 8 * numel : 0);
}

TEST(DataParallel, hands_gradients_over_in_memory_that_the_ranks_of_a_node_share) {
  auto const comm = Comm::world();
  auto const* const transport = std::getenv("GRATICULE_TRANSPORT");
  bool const by_messages = comm.num_nodes() > 1 || (transport != nullptr && std::string(transport) == "p2p");
  if (std::getenv("GRATICULE_CHECK") != nullptr) GTEST_SKIP() << "calls are compared by messages in check mode";
  Net net;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, {.buckets = small_buckets});
  // In the second one buckets are made anew.
  for (int step = 0; step < 4; ++step) {
    net->zero_grad();
    auto const before = test::mpi_calls();
    loss_of(net, part_of(whole_batch(step, comm.num_ranks()), comm)).backward();

    if (step == 1) continue;
    EXPECT_EQ(test::mpi_calls().collectives, before.collectives);
    EXPECT_EQ(test::mpi_calls().sends > before.sends, by_messages && comm.num_ranks() > 1);
    EXPECT_EQ(parallel.traffic()[0].messages > 0, comm.num_ranks() > 1);
  }
}

TEST(DataParallel, keeps_buffers_equal_by_policy) {
  auto const comm = Comm::world();
  struct Stats : torch::nn::Module {
    Stats() {
      weight = register_parameter("weight", torch::zeros({1}));
      mean = register_buffer("mean", torch::zeros({2}, torch::kDouble));
      first = register_buffer("first", torch::zeros({2}));
      own = register_buffer("own", torch::zeros({2}));
      count = register_buffer("count", torch::zeros({}, torch::kLong));
    }
    torch::Tensor weight, mean, first, own, count;
  } stats;
  torch::optim::SGD sgd(stats.parameters(), 0.1);
  training::DataParallel parallel(
      stats, sgd, {{comm, Reduction::mean}},
      {.buffers = training::BufferPolicy::mean,
       .own_buffers = {{"first", training::BufferPolicy::broadcast}, {"own", training::BufferPolicy::leave}}});
  for (auto* buffer : {&stats.mean, &stats.first, &stats.own, &stats.count}) buffer->fill_(comm.rank() + 1);

  stats.weight.sum().backward();
  parallel.step();

  EXPECT_TRUE((stats.mean == (comm.num_ranks() + 1) / 2.0).all().item<bool>());
  EXPECT_TRUE((stats.first == 1).all().item<bool>());
  EXPECT_TRUE((stats.own == comm.rank() + 1).all().item<bool>());
  EXPECT_EQ(stats.count.item<int>(), 1);
}

TEST(DataParallel, says_on_stderr_what_it_waits_for) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  if (std::getenv("GRATICULE_CHECK") != nullptr) GTEST_SKIP() << "an error in check mode";
  bool const late_one = comm.rank() == comm.num_ranks() - 1;
  Net net;
  training::DataParallel const parallel(*net, {}, {{comm, Reduction::mean}}, {.patience_seconds = 0.3});
  comm.barrier();
  testing::internal::CaptureStderr();

  if (late_one) std::this_thread::sleep_for(std::chrono::seconds(1));
  loss_of(net, part_of(whole_batch(0, comm.num_ranks()), comm)).backward();

  auto const said = testing::internal::GetCapturedStderr();
  if (late_one) return;
  EXPECT_NE(said.find("waits in iteration 1, bucket 0 (gradients of 'last."), std::string::npos) << said;
  EXPECT_NE(said.find("for rank " + std::to_string(comm.num_ranks() - 1)), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(DataParallel, names_a_parameter_that_has_changed_its_shape) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  Holder holder;
  auto const a = holder.add("a", torch::zeros({4}, torch::kDouble));
  training::DataParallel parallel(holder, {}, {{comm, Reduction::mean}});
  if (odd_one) a.set_data(torch::zeros({2}, torch::kDouble));

  auto const thrown = thrown_by([&] { parallel.run([&] { a.sum().backward(); }); });

  if (odd_one) {
    EXPECT_NE(thrown.rule, "nothing was thrown");
  } else {
    EXPECT_EQ(thrown.rule, "PeerFailed");
  }
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

}  // namespace test_data_parallel_steps
}  // namespace graticule
