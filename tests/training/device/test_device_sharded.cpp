// SPDX-License-Identifier: BSD-3-Clause
// Parameters that ranks cut among themselves, on a device: training and saved states, on the guarded device or on a
// GPU.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/training/sharded/checkpoint_state.hpp>

#include "expect_error.hpp"
#include "guarded_torch.hpp"
#include "sharded_net.hpp"
#include "shared_folder.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace test_device_sharded {

using test::Folder;
using test::gpu_is_wanted;
using test::needs_guarded_device;
using test::new_test_stream;
using test::peers_read_device;
using test::StreamScope;
using test::test_torch_device;

nn::NamedTensors on_host(nn::NamedTensors const& tensors) {
  nn::NamedTensors result;
  for (auto const& [name, tensor] : tensors) result.emplace_back(name, tensor.detach().cpu());
  return result;
}

test::ShardedNet net_on(torch::Device const& device) {
  auto net = test::make_net();
  test::move_to(*net, device);
  return net;
}

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  nn::NamedTensors parameters;
};

/// Some steps on samples that ranks share unevenly.
Trained train_on(torch::Device const& device, training::ShardedParametersOptions options) {
  auto const comm = Comm::world();
  auto net = net_on(device);
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum}, std::move(options));
  torch::optim::Adam optimizer(sharded.parameters(), torch::optim::AdamOptions(0.01));
  Trained result;
  for (int step = 0; step < 3; ++step) {
    auto const mine = test::uneven_part(test::make_batch(step), comm);
    auto const x = mine.x.to(device);
    auto const loss = (sharded.forward([&] { return net->forward(x); }) - mine.y.to(device)).square().sum() / 12;
    optimizer.zero_grad();
    loss.backward();
    result.norms.push_back(sharded.clip_grad_norm(0.5));
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  result.parameters = on_host(training::full_state(sharded));
  return result;
}

void expect_as_on_host(training::ShardedParametersOptions const& options, double tolerance) {
  auto const expected = train_on(torch::kCPU, options);
  StreamScope const scope(new_test_stream());

  Trained found;
  ASSERT_NO_THROW(found = train_on(test_torch_device(), options));

  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], tolerance) << step;
    EXPECT_NEAR(found.norms[step], expected.norms[step], tolerance) << step;
  }
  EXPECT_LE(test::difference(found.parameters, expected.parameters), tolerance);
}

TEST(DeviceSharded, steps_of_cut_parameters_are_those_of_the_host) {
  expect_as_on_host({}, 1e-12);
  expect_as_on_host({.between_passes = training::BetweenPasses::kept, .num_prefetched = 0}, 1e-12);
  expect_as_on_host({.root_between_passes = training::BetweenPasses::released, .num_prefetched = 3}, 1e-12);
}

TEST(DeviceSharded, parameters_and_gradients_pass_no_pageable_memory_and_none_within_a_node) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const comm = Comm::world();
  StreamScope const scope(new_test_stream());
  auto const device = test_torch_device();
  auto net = net_on(device);
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum});
  auto const mine = test::uneven_part(test::make_batch(0), comm);
  auto const x = mine.x.to(device);
  auto const y = mine.y.to(device);
  auto const backward = [&] {
    ((sharded.forward([&] { return net->forward(x); }) - y).square().sum() / 12).backward();
  };
  backward();
  (void)test::take_tensor_copies();

  backward();

  auto const copies = test::take_tensor_copies();
  EXPECT_EQ(copies.bytes_pageable, 0);
  EXPECT_EQ(copies.bytes_to_host > 0, !peers_read_device() || comm.num_ranks() == 1);
}

/// Gradients of a forward and backward after a backward that has failed on all ranks, not at the same time.
void expect_gradients_after_a_failure(training::ShardedParametersOptions const& options) {
  auto const comm = Comm::world();
  auto serial = test::make_net();
  auto const x = torch::arange(3);
  serial->forward(x).sum().backward();
  auto const expected = test::rows_of(test::gradients_of(nn::parameters_of(*serial)), comm);
  StreamScope const scope(new_test_stream());
  auto const device = test_torch_device();
  auto net = net_on(device);
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean}, options);
  auto const on_device = x.to(device);
  for (int time = 0; time < 2; ++time) {
    auto const y = sharded.forward([&] { return net->forward(on_device); });
    y.register_hook([](torch::Tensor const& gradient) -> torch::Tensor {
      if (gradient.defined()) throw std::runtime_error("in the backward");
      return gradient;
    });
    // The first rank has given up when the others gather ahead.
    if (comm.rank() > 0) comm.barrier();
    EXPECT_EQ(test::thrown_by([&] { y.sum().backward(); }).text.substr(0, 15), "in the backward");
    sharded.reset();
    if (comm.rank() == 0) comm.barrier();

    sharded.forward([&] { return net->forward(on_device); }).sum().backward();

    EXPECT_LT(test::difference(on_host(test::gradients_of(sharded.named_parameters())), expected), 1e-12);
    for (auto& parameter : sharded.parameters()) parameter.mutable_grad() = torch::Tensor();
  }
}

TEST(DeviceSharded, go_on_after_a_backward_that_has_failed) {
  expect_gradients_after_a_failure({.num_prefetched = 3});
  expect_gradients_after_a_failure({.between_passes = training::BetweenPasses::in_groups,
                                    .ranks_per_group = Comm::world().num_ranks(),
                                    .num_prefetched = 3});
}

TEST(DeviceSharded, name_the_unit_where_ranks_give_gradients_of_different_ones) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank gives gradients of one unit at a time";
  if (!peers_read_device()) GTEST_SKIP() << "no peer reads this device: messages of different units stall";
  StreamScope const scope(new_test_stream());
  auto const device = test_torch_device();
  nn::Unit<torch::nn::Linear> first(3, 3);
  nn::Unit<torch::nn::Linear> second(3, 3);
  torch::nn::Sequential model(first, second);
  test::move_to(*model, device);
  training::ShardedParameters sharded(
      model.ptr(), {comm, nn::Reduction::sum},
      {.between_passes = training::BetweenPasses::kept, .root_between_passes = training::BetweenPasses::kept});
  // Its gradient says when the backward of a unit has ended.
  auto const x = torch::ones({2, 3}).to(device).requires_grad_() * 2;

  auto const error = test::thrown_by([&] {
    sharded
        .forward([&] {
          auto const of_first = first->forward(x).sum();
          auto const of_second = second->forward(x).sum();
          return comm.rank() == 0 ? of_first : of_second;
        })
        .backward();
  });

  EXPECT_EQ(error.rule, "StructureDisagreement");
  EXPECT_NE(error.text.find("gives gradients of another unit than"), std::string::npos) << error.text;
}

TEST(DeviceSharded, refuse_gradients_that_some_ranks_lack) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank uses the same parameters as all ranks";
  StreamScope const scope(new_test_stream());
  auto net = net_on(test_torch_device());
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum}, {.unused = training::Unused::refused});
  auto const x = torch::arange(3).to(test_torch_device());
  auto const run = [&](bool uses_gain) {
    sharded
        .forward([&] {
          auto const y = net->head(net->first(net->words(x))).sum();
          return uses_gain ? y * net->gain.sum() : y;
        })
        .backward();
  };

  auto const error = test::thrown_by([&] { run(comm.rank() == 0); });

  EXPECT_EQ(error.rule, "UnusedParameter");
  EXPECT_EQ(error.text, "rank " + std::to_string(comm.num_ranks() - 1) + " has no gradient of gain, rank 0 has");
  sharded.reset();
  for (auto& parameter : sharded.parameters()) parameter.mutable_grad() = torch::Tensor();
  EXPECT_NO_THROW(run(true));
}

/// Losses of a few steps of two backwards each. @param forwards, backwards that run in streams of their own
template <class Forward>
std::vector<double> losses_in_streams(torch::optim::Optimizer& optimizer, torch::Device const& device, bool forwards,
                                      bool backwards, Forward const& forward) {
  std::vector<c10::Stream> streams;
  if (!device.is_cpu()) streams = {new_test_stream(), new_test_stream()};
  auto const in_stream = [&](std::size_t stream, bool is_wanted, auto const& action) {
    if (is_wanted && !device.is_cpu())
      test::run_in(streams[stream], action);
    else
      action();
  };
  std::vector<double> losses;
  auto const x = torch::arange(4).to(device);
  for (int step = 0; step < 4; ++step) {
    // Gradients are given back to the streams in which they were made, after the step that has read them.
    in_stream(0, forwards, [&] { in_stream(1, backwards, [&] { optimizer.zero_grad(); }); });
    for (int part = 0; part < 2; ++part) {
      torch::Tensor loss;
      in_stream(0, forwards, [&] { loss = forward(x).square().mean(); });
      in_stream(1, backwards, [&] { loss.backward(); });
      losses.push_back(loss.item<double>());
    }
    optimizer.step();
  }
  return losses;
}

TEST(DeviceSharded, forwards_and_backwards_in_streams_of_their_own_are_those_of_the_host) {
  auto const comm = Comm::world();
  test::Scheduled const scheduled(test::Schedule::at_random);
  StreamScope const scope(new_test_stream());
  for (int const which : {0, 1, 2, 3}) {
    SCOPED_TRACE(which);
    auto const losses_on = [&](torch::Device const& device) {
      auto net = net_on(device);
      training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
      torch::optim::SGD optimizer(sharded.parameters(), torch::optim::SGDOptions(0.01));
      return losses_in_streams(optimizer, device, which % 2 == 1, which > 1, [&](torch::Tensor const& x) {
        return sharded.forward([&] { return net->forward(x); });
      });
    };
    auto const expected = losses_on(torch::kCPU);

    auto const found = losses_on(test_torch_device());

    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  }
}

/// How two branches of units run beside each other.
struct Branching {
  bool is_shared;  ///< the first unit is in both
  bool together;   ///< one backward of the sum; otherwise one of each branch, in its stream
  std::size_t first_backward = 0;
};

/// Two branches of units, each in a stream of its own, and a parameter of the model itself.
struct BranchesImpl : torch::nn::Module {
  BranchesImpl(torch::Device const& where, Branching const& how) : device(where), branching(how) {
    for (int i = 0; i < 2 && !device.is_cpu(); ++i) streams.push_back(new_test_stream());
  }
  /// Both streams go on after the current one.
  void begin() const {
    if (device.is_cpu()) return;
    c10::Event begun(device.type());
    begun.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    for (auto const& stream : streams) begun.block(stream);
  }
  /// The current stream goes on after both.
  void end() const {
    if (device.is_cpu()) return;
    auto const current = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    for (auto const& stream : streams) {
      c10::Event ended(device.type());
      ended.record(stream);
      ended.block(current);
    }
  }
  template <class Action>
  auto in_branch(std::size_t branch, Action const& action) const {
    std::optional<StreamScope> scope;
    if (!device.is_cpu()) scope.emplace(streams[branch]);
    return action();
  }
  std::vector<torch::Tensor> forward(torch::Tensor const& x) {
    begin();
    auto const a = in_branch(0, [&] { return (first(x) * gain).square().mean(); });
    auto const b = in_branch(1, [&] {
      auto const y = second(torch::tanh(branching.is_shared ? first(x) : x));
      // Whoever adds gradients of two backwards to one parameter orders them.
      return (branching.together ? y * gain : y).square().mean();
    });
    end();
    return {a, b};
  }
  torch::Device device;
  Branching branching;
  std::vector<c10::Stream> streams;
  nn::Unit<test::Block> first = register_module("first", nn::Unit<test::Block>(4));
  nn::Unit<test::Block> second = register_module("second", nn::Unit<test::Block>(4));
  torch::Tensor gain = register_parameter("gain", torch::linspace(0.5, 1.5, 4));
};
TORCH_MODULE(Branches);

std::vector<double> losses_of_branches(torch::Device const& device, training::BetweenPasses between,
                                       Branching const& branching) {
  auto const comm = Comm::world();
  torch::manual_seed(3);
  Branches net(device, branching);
  net->to(torch::kDouble);
  test::move_to(*net, device);
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean},
                                      {.between_passes = between,
                                       .root_between_passes = between,
                                       .ranks_per_group = comm.num_ranks() % 2 == 0 ? 2 : 1});
  torch::optim::SGD optimizer(sharded.parameters(), torch::optim::SGDOptions(0.01));
  auto const x = torch::linspace(-1, 1, 12, torch::kDouble).view({3, 4}).to(device);
  std::vector<double> losses;
  for (int step = 0; step < 6; ++step) {
    // Gradients go back to the streams in which they were made, after the step that has read them.
    net->begin();
    optimizer.zero_grad();
    auto const parts = sharded.forward([&] { return net->forward(x); });
    if (!branching.together)
      for (auto const branch : {branching.first_backward, 1 - branching.first_backward})
        net->in_branch(branch, [&] { parts[branch].backward(); });
    net->end();
    auto const loss = parts[0] + parts[1];
    if (branching.together) loss.backward();
    losses.push_back(loss.item<double>());
    optimizer.step();
  }
  return losses;
}

TEST(DeviceSharded, units_that_run_beside_each_other_are_those_of_the_host) {
  test::Scheduled const scheduled(test::Schedule::at_random);
  StreamScope const scope(new_test_stream());
  for (auto const& branching :
       {Branching{true, true}, Branching{false, true}, Branching{false, false, 0}, Branching{false, false, 1}})
    for (auto const between :
         {training::BetweenPasses::released, training::BetweenPasses::kept, training::BetweenPasses::in_groups}) {
      SCOPED_TRACE(testing::Message() << "between passes " << int(between) << ", shared " << branching.is_shared
                                      << ", together " << branching.together << ", backward of "
                                      << branching.first_backward << " first");
      auto const expected = losses_of_branches(torch::kCPU, between, branching);

      auto const found = losses_of_branches(test_torch_device(), between, branching);

      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
    }
}

TEST(DeviceSharded, a_parameter_that_one_rank_freezes_later_contributes_no_gradient_there) {
  auto const comm = Comm::world();
  bool const freezes = comm.num_ranks() > 1 && comm.rank() == 0;
  StreamScope const scope(new_test_stream());
  for (auto const& device : {torch::Device(torch::kCPU), test_torch_device()}) {
    SCOPED_TRACE(device.str());
    auto net = net_on(device);
    training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum});
    auto const x = torch::arange(3).to(device);
    auto const gradients = [&] {
      for (auto& parameter : sharded.parameters()) parameter.mutable_grad() = torch::Tensor();
      sharded.forward([&] { return net->forward(x); }).sum().backward();
      return on_host(test::gradients_of(sharded.named_parameters()));
    };
    auto expected = gradients();
    for (auto& [name, gradient] : expected)
      if (name == "head.weight") gradient.mul_(double(std::max(1, comm.num_ranks() - 1)) / comm.num_ranks());
    if (freezes) net->head->weight.set_requires_grad(false);

    EXPECT_LT(test::difference(gradients(), expected), 1e-12);
  }
}

TEST(DeviceSharded, clipping_copies_the_sizes_of_all_gradients_together) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const comm = Comm::world();
  StreamScope const scope(new_test_stream());
  auto const device = test_torch_device();
  auto net = net_on(device);
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::sum});
  auto const mine = test::uneven_part(test::make_batch(0), comm);
  auto const x = mine.x.to(device);
  (sharded.forward([&] { return net->forward(x); }) - mine.y.to(device)).square().sum().backward();
  (void)test::take_tensor_copies();

  (void)sharded.clip_grad_norm(0.5);

  auto const copies = test::take_tensor_copies();
  EXPECT_EQ(copies.to_host, 1);
  EXPECT_EQ(copies.bytes_pageable, 0);
}

TEST(DeviceSharded, gradients_of_further_replicas_are_added_on_the_device) {
  auto const comm = Comm::world();
  Teams const teams(comm, {{"replicas", comm.num_ranks() % 2 == 0 ? 2 : comm.num_ranks()}, {"cut", 0}});
  auto const gradients_on = [&](torch::Device const& device) {
    auto net = net_on(device);
    training::ShardedParameters sharded(net.ptr(), {teams.team("cut"), nn::Reduction::sum},
                                        {.replicas = {{teams.team("replicas"), nn::Reduction::mean}}});
    auto const mine = test::uneven_part(test::make_batch(0), comm);
    auto const x = mine.x.to(device);
    auto const y = mine.y.to(device);
    (void)test::take_tensor_copies();
    ((sharded.forward([&] { return net->forward(x); }) - y).square().sum() / 12).backward();
    auto const copies = test::take_tensor_copies();
    EXPECT_TRUE(device.is_cpu() || gpu_is_wanted() || copies.bytes_pageable == 0);
    nn::NamedTensors result;
    for (auto const& [name, parameter] : sharded.named_parameters())
      if (parameter.grad().defined()) result.emplace_back(name, parameter.grad().cpu());
    return result;
  };
  auto const expected = gradients_on(torch::kCPU);
  StreamScope const scope(new_test_stream());

  auto const found = gradients_on(test_torch_device());

  ASSERT_EQ(found.size(), expected.size());
  EXPECT_LE(test::difference(found, expected), 1e-12);
}

TEST(DeviceSharded, steps_in_several_units_kept_in_groups_are_those_of_the_host) {
  if (Comm::world().num_ranks() % 2 != 0) GTEST_SKIP() << "groups of two need an even number of ranks";
  expect_as_on_host({.between_passes = training::BetweenPasses::in_groups, .ranks_per_group = 2}, 1e-12);
}

TEST(DeviceSharded, narrow_messages_round_as_on_the_host) {
  expect_as_on_host({.precision = {.gradients = torch::kBFloat16}}, 1e-12);
}

TEST(DeviceSharded, a_state_that_a_device_saves_is_loaded_by_the_host_and_back) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const device = test_torch_device();
  auto const expected = on_host(nn::parameters_of(*test::make_net()));
  StreamScope const scope(new_test_stream());
  for (auto const& [from, to] :
       {std::pair(device, torch::Device(torch::kCPU)), std::pair(torch::Device(torch::kCPU), device)}) {
    auto net = net_on(from);
    training::ShardedParameters const sharded(net.ptr(), {comm, nn::Reduction::mean});
    CheckpointStore store(comm, folder / (from.is_cpu() ? "host" : "device"));
    auto writer = store.begin(1);
    training::save_model(writer, sharded, comm);
    Checkpoint const checkpoint(comm, writer.commit());
    auto other = net_on(to);
    {
      torch::NoGradGuard const no_grad;
      for (auto& parameter : other->parameters()) parameter.zero_();
    }
    training::ShardedParameters loaded(other.ptr(), {comm, nn::Reduction::mean});

    training::load_model(comm, checkpoint, loaded);

    EXPECT_EQ(test::difference(on_host(training::full_state(loaded)), expected), 0);
    for (auto const& [name, shard] : loaded.named_parameters()) EXPECT_EQ(shard.device(), to) << name;
  }
}

}  // namespace test_device_sharded
}  // namespace graticule
