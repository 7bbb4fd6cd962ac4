// SPDX-License-Identifier: BSD-3-Clause
// Training on a device: losses, gradients of replicated and of sharded parameters, and the moves of a network, on the
// guarded device or on a GPU, in order of LibTorch's streams.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/data_parallel/join.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/replicas/sync_batch_norm.hpp>
#include <graticule/training/state/training.hpp>

#include "data_parallel/team_sum.hpp"
#include "devices/faulty_device.hpp"
#include "expect_error.hpp"
#include "guarded_torch.hpp"
#include "mpi/pmpi_shim.hpp"
#include "numbers.hpp"
#include "replicated_net.hpp"
#include "shards.hpp"
#include "shared_folder.hpp"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace graticule {
namespace test_device {

using nn::Reduction;
using test::difference;
using test::expect_no_host_access;
using test::gpu_is_wanted;
using test::GuardedDevice;
using test::needs_guarded_device;
using test::new_test_stream;
using test::peers_read_device;
using test::random_tensor;
using test::same_bits;
using test::StreamScope;
using test::test_torch_device;
using torch::Tensor;

/// What `make` gives on the host and, in a stream of its own, on the device.
void expect_as_on_host(std::function<std::vector<Tensor>(torch::Device const&)> const& make) {
  auto const expected = make(torch::kCPU);
  StreamScope const scope(new_test_stream());

  std::vector<Tensor> found;
  ASSERT_NO_THROW(found = make(test_torch_device()));

  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(difference(found[i].detach().cpu(), expected[i].detach()), 1e-12) << "result " << i;
}

TEST(DeviceTraining, losses_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  std::mt19937 random(4);
  test::Part const part(domain, test::random_field_cuts(domain, random, {7, 6}));
  auto const p = part.of(random_tensor(random, {2, 3, 7, 6}));
  auto const t = part.of(random_tensor(random, {2, 3, 7, 6}));
  using Loss = std::function<Tensor(Tensor const&, Tensor const&)>;
  nn::LossOptions const weighted{.row_weights = std::vector<double>(std::size_t(part.num_rows), 0.5)};
  std::vector<std::pair<std::string, std::function<Loss()>>> const losses{
      {"L1Loss", [&] { return [l = nn::L1Loss(domain)](auto const& a, auto const& b) mutable { return l(a, b); }; }},
      {"MSELoss",
       [&] { return [l = nn::MSELoss(domain, weighted)](auto const& a, auto const& b) mutable { return l(a, b); }; }},
      {"HuberLoss",
       [&] { return [l = nn::HuberLoss(0.5, domain)](auto const& a, auto const& b) mutable { return l(a, b); }; }},
      {"CrossEntropyLoss", [&] {
         return [l = nn::CrossEntropyLoss(domain)](auto const& a, auto const& b) mutable { return l(a, b.argmax(1)); };
       }}};
  for (auto const& [name, make] : losses) {
    SCOPED_TRACE(name);
    expect_as_on_host([&, &make = make](torch::Device const& device) {
      auto const loss = make();
      auto const x = p.clone().to(device).requires_grad_();
      auto const value = loss(x, t.to(device));
      value.backward();
      return std::vector{value, x.grad()};
    });
  }
}

TEST(DeviceTraining, repartitions_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  int const num_ranks = domain.comm().num_ranks();
  auto const own = torch::arange(24.0 * num_ranks, torch::kDouble)
                       .view({2 * num_ranks, 3, 4})
                       .narrow(0, 2 * domain.comm().rank(), 2);
  expect_as_on_host([&](torch::Device const& device) {
    nn::RepartitionOptions options{{{-3}, {num_ranks}}, {{-1}, {num_ranks}}};
    nn::Repartition move(options, domain);
    auto const x = own.clone().to(device).requires_grad_();
    auto const y = move(x + 1);
    (y * y).sum().backward();
    return std::vector{y, x.grad(), move->back(y.detach())};
  });
}

TEST(DeviceTraining, steps_of_a_sharded_network_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  std::mt19937 random(2);
  test::Part const part(domain, test::random_field_cuts(domain, random, {7, 6}));
  auto const x = part.of(random_tensor(random, {2, 1, 7, 6}));
  auto const target = part.of(random_tensor(random, {2, 1, 7, 6}));
  auto const weights = std::vector{random_tensor(random, {4, 1, 3, 3}), random_tensor(random, {1, 4, 3, 3})};
  expect_as_on_host([&](torch::Device const& device) {
    torch::nn::Sequential net;
    for (auto const& weight : weights) {
      nn::Conv2d layer(
          nn::ConvOptions(torch::nn::Conv2dOptions(weight.size(1), weight.size(0), 3).padding(1).bias(false),
                          nn::Padding::by_domain),
          domain);
      layer->to(torch::kDouble);
      torch::NoGradGuard const no_grad;
      layer->weight.copy_(weight);
      net->push_back(layer);
      if (net->size() > 1) continue;
      nn::GroupNorm norm(torch::nn::GroupNormOptions(2, 4), domain);
      norm->to(torch::kDouble);
      net->push_back(norm);
      net->push_back(torch::nn::GELU());
    }
    test::move_to(*net, device);
    nn::MSELoss loss(domain);
    nn::GradientSync const sync(*net, {{domain.comm(), Reduction::sum}});
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.05));
    std::vector<Tensor> results;
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      auto const value = loss(net->forward(x.to(device)), target.to(device));
      value.backward();
      sync.reduce();
      optimizer.step();
      results.push_back(value.detach().clone());
    }
    for (auto const& parameter : net->parameters()) results.push_back(parameter);
    return results;
  });
}

/// Gradients of a replicated network after each of some backwards.
void expect_gradients_as_on_host(training::DataParallelOptions const& options, int num_steps) {
  auto const comm = test::world();
  torch::manual_seed(7);
  test::Net const first;
  expect_as_on_host([&](torch::Device const& device) {
    auto net = test::copy_of(first);
    test::move_to(*net, device);
    training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, options);
    std::vector<Tensor> results;
    for (int step = 0; step < num_steps; ++step) {
      auto batch = test::part_of(test::whole_batch(step, 4 * comm.num_ranks()), comm);
      net->zero_grad();
      test::loss_of(net, {batch.first.to(device), batch.second.to(device)}).backward();
      if (options.wait == training::GradientWait::late) parallel.synchronize();
      for (auto const& parameter : net->parameters()) results.push_back(parameter.grad().clone());
    }
    return results;
  });
}

TEST(DeviceTraining, gradients_of_data_parallel_networks_are_those_of_the_host) {
  for (auto const order : {training::SumOrder::any, training::SumOrder::by_rank})
    for (auto const wait : {training::GradientWait::in_backward, training::GradientWait::late})
      expect_gradients_as_on_host({.wait = wait, .order = order, .buckets = test::small_buckets}, 3);
}

TEST(DeviceTraining, clipping_copies_the_norms_of_all_gradients_together) {
  auto const comm = test::world();
  torch::manual_seed(7);
  test::Net const first;
  auto const clipped = [&](torch::Device const& device, double type) {
    auto net = test::copy_of(first);
    test::move_to(*net, device);
    training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}});
    auto batch = test::part_of(test::whole_batch(0, 4 * comm.num_ranks()), comm);
    test::loss_of(net, {batch.first.to(device), batch.second.to(device)}).backward();
    (void)test::take_tensor_copies();
    std::vector<Tensor> results{torch::tensor(parallel.clip_gradients(0.01, type), torch::kDouble)};
    auto const copies = test::take_tensor_copies();
    if (!device.is_cpu() && !gpu_is_wanted()) {
      EXPECT_EQ(copies.to_host, 1);
      EXPECT_EQ(copies.bytes_pageable, 0);
    }
    for (auto const& parameter : net->parameters()) results.push_back(parameter.grad().clone());
    return results;
  };
  for (double const type : {2.0, 3.0, std::numeric_limits<double>::infinity()})
    expect_as_on_host([&](torch::Device const& device) { return clipped(device, type); });
}

TEST(DeviceTraining, gradients_as_thin_matrices_are_those_of_the_host) {
  expect_gradients_as_on_host(
      {.buckets = test::small_buckets,
       .low_rank = training::LowRankGradients{.rank = 1, .least_saving = 1, .first_iterations = 1}},
      4);
}

TEST(DeviceTraining, gradients_in_narrow_messages_are_those_of_the_host) {
  for (auto const wire : {training::Wire::bf16, training::Wire::f16})
    expect_gradients_as_on_host({.wire = wire, .buckets = test::small_buckets}, 1);
}

TEST(DeviceTraining, a_backward_that_fails_on_one_rank_is_reported_on_all) {
  auto const comm = test::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that fails";
  torch::manual_seed(7);
  test::Net net;
  auto const device = test_torch_device();
  StreamScope const scope(new_test_stream());
  test::move_to(*net, device);
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, {.buckets = test::small_buckets});
  auto const backward = [&](bool fails) {
    auto batch = test::part_of(test::whole_batch(0, 4 * comm.num_ranks()), comm);
    net->zero_grad();
    auto loss = test::loss_of(net, {batch.first.to(device), batch.second.to(device)});
    if (fails)
      parallel.run([] { throw std::runtime_error("planted"); });
    else
      parallel.run([&] { loss.backward(); });
  };

  if (comm.rank() == 0)
    EXPECT_THROW(backward(true), std::runtime_error);
  else
    EXPECT_EQ(test::rule_of([&] { backward(false); }), "PeerFailed");
  backward(false);

  for (auto const& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().isnan().any().item<bool>());
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

/// Before MPI starts: copies that it leaves to the system need open pages of the guarded device.
[[maybe_unused]] bool const copies_by_mpi_itself = [] {
  if (!gpu_is_wanted()) setenv("UCX_TLS", "self,posix", 0);
  return true;
}();

/// Counts additions of LibTorch to host tensors in this thread, and what it copies, as long as it lives.
class HostAdditions {
 public:
  HostAdditions()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&note).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    num = 0;
  }
  ~HostAdditions() { at::removeCallback(handle_); }
  HostAdditions(HostAdditions const&) = delete;
  HostAdditions& operator=(HostAdditions const&) = delete;
  [[nodiscard]] Index count() const { return num; }

 private:
  // Kernels of the device are operators on host tensors, too, in its memory.
  static std::unique_ptr<at::ObserverContext> note(at::RecordFunction const& call) {
    if (std::string_view(call.name()) != "aten::add_" || !call.inputs()[0].isTensor()) return nullptr;
    auto const& sum = call.inputs()[0].toTensor();
    if (sum.is_cpu() && (gpu_is_wanted() || !GuardedDevice::instance().owns(sum.const_data_ptr()))) ++num;
    return nullptr;
  }
  inline static Index num = 0;
  at::CallbackHandle handle_;
};

/// The ways of values from rank to rank.
enum class Travels : std::uint8_t { by_messages, on_node, from_the_device };

struct Summed {
  Tensor at_end;  ///< in the stream in which the sum ended
  Tensor values;
  Index host_additions = 0;
  test::TensorCopies copies;
};

/// Sums over all ranks what a stream has just made; the sum ends in a second stream and is read in a third.
Summed sum_on(torch::Device const& device, Travels how, torch::ScalarType type, training::Wire wire, Index numel,
              bool joined = true) {
  auto const comm = test::world();
  training::detail::TeamSum sum(comm, type, wire, training::SumOrder::by_rank, device);
  if (how == Travels::on_node) training::detail::TeamSum::share_on_node(comm, {{&sum, numel}});
  auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t(comm.rank() + 5));
  auto const own = torch::randn({numel}, generator, torch::kDouble).mul_(50).to(type);
  auto const num_data = numel - numel / 3;
  // On a GPU, LibTorch multiplies by the reciprocal, which rounds as a division does for powers of two only.
  Index const divisor = comm.num_ranks() == 1 ? 1 : gpu_is_wanted() ? 4 : 3;
  static std::array const streams{new_test_stream(), new_test_stream(), new_test_stream()};
  auto const in_stream = [&](std::size_t number, auto const& work) {
    if (device.is_cpu()) return work();
    StreamScope const scope(streams[number]);
    work();
  };
  Summed result;
  Tensor flat;
  for (int repeat = 0; repeat < 2; ++repeat) {
    in_stream(0, [&] {
      sum.stream().precede_current();
      if (!flat.defined()) flat = torch::zeros({numel}, torch::TensorOptions(type).device(device));
      flat.copy_(own.to(device) + double(repeat));
      (void)test::take_tensor_copies();
      sum.start(flat, num_data, divisor);
    });
    in_stream(1, [&] {
      HostAdditions const additions;
      while (!sum.advance()) std::this_thread::yield();
      result.host_additions += additions.count();
      result.copies = test::take_tensor_copies();
      if (joined) result.at_end = flat.cpu();
    });
  }
  in_stream(2, [&] {
    if (joined) sum.stream().precede_current();
    result.values = flat.cpu();
  });
  sum.stream().synchronize();
  return result;
}

TEST(DeviceSums, add_on_the_device_with_the_bits_of_the_host) {
  auto const comm = test::world();
  bool const adds = comm.num_ranks() > 1;
  struct Kind {
    torch::ScalarType type;
    training::Wire wire;
  };
  for (auto const how : {Travels::by_messages, Travels::on_node, Travels::from_the_device})
    for (auto const& [type, wire] :
         {Kind{torch::kFloat, training::Wire::own}, Kind{torch::kDouble, training::Wire::own},
          Kind{torch::kHalf, training::Wire::own}, Kind{torch::kFloat, training::Wire::bf16},
          Kind{torch::kDouble, training::Wire::f16}})
      for (Index const numel : {Index(1), Index(7), Index(40001)}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(numel) + ", way " +
                     std::to_string(int(how)));
        // An MPI library either reads the memory of a GPU or does not.
        if (how == Travels::from_the_device && gpu_is_wanted()) continue;
        auto const expected = sum_on(torch::kCPU, how, type, wire, numel);
        auto const device = test_torch_device();
        std::optional<test::FaultyDevice> mpi_that_knows;
        if (how == Travels::from_the_device) mpi_that_knows.emplace(test::DeviceFault::none).let_mpi_in();

        auto const found = sum_on(device, how, type, wire, numel);

        EXPECT_TRUE(same_bits(found.at_end, expected.values));
        EXPECT_TRUE(same_bits(found.values, expected.values));
        EXPECT_EQ(found.host_additions, 0);
        // Ranks without a number form no part.
        EXPECT_TRUE(!adds || numel < comm.num_ranks() || expected.host_additions > 0);
        bool const on_device = how == Travels::from_the_device || (how == Travels::on_node && peers_read_device());
        EXPECT_TRUE(!on_device || found.copies.bytes_to_host == 0);
        EXPECT_TRUE(gpu_is_wanted() || found.copies.bytes_pageable == 0);
        expect_no_host_access();
      }
}

TEST(DeviceSums, pass_through_the_host_where_one_rank_has_no_memory_left) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const comm = test::world();
  constexpr Index numel = 100000;
  auto const device = test_torch_device();
  training::detail::TeamSum sum(comm, torch::kFloat, training::Wire::own, training::SumOrder::by_rank, device);
  {
    test::FaultyDevice faulty(test::DeviceFault::no_memory_left);
    if (comm.rank() + 1 == comm.num_ranks()) faulty.begin();
    training::detail::TeamSum::share_on_node(comm, {{&sum, numel}});
  }

  EXPECT_FALSE(sum.shared_memory().defined());
  auto const flat = torch::full({numel}, double(comm.rank() + 1), torch::kFloat).to(device);
  sum.start(flat, numel, 1);
  while (!sum.advance()) std::this_thread::yield();
  sum.stream().synchronize();
  auto const expected = double(comm.num_ranks() * (comm.num_ranks() + 1)) / 2;
  EXPECT_TRUE(same_bits(flat.cpu(), torch::full({numel}, expected, torch::kFloat)));
}

TEST(DeviceSums, map_memory_of_peers_no_longer_than_they_live) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const comm = test::world();
  auto const& device = GuardedDevice::instance();
  auto const num_peers = peers_read_device() ? comm.num_ranks() - 1 : 0;
  auto const before = device.num_unmapped();
  {
    training::detail::TeamSum sum(comm, torch::kFloat, training::Wire::own, training::SumOrder::by_rank,
                                  test_torch_device());
    training::detail::TeamSum::share_on_node(comm, {{&sum, 100}});
    // What was tried before.
    EXPECT_EQ(device.num_unmapped() - before, num_peers);
    EXPECT_EQ(sum.shared_memory().defined(), peers_read_device() && comm.num_ranks() > 1);
  }
  EXPECT_EQ(device.num_unmapped() - before, 2 * num_peers);
}

TEST(DeviceSums, are_found_to_be_read_too_early_in_a_stream_that_does_not_wait) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const comm = test::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank sums nothing";
  auto const expected = sum_on(torch::kCPU, Travels::by_messages, torch::kDouble, training::Wire::own, 100);
  auto const device = test_torch_device();
  test::Scheduled const scheduled(test::Schedule::late);

  auto const found = sum_on(device, Travels::by_messages, torch::kDouble, training::Wire::own, 100, /*joined=*/false);

  EXPECT_FALSE(same_bits(found.values, expected.values));
}

TEST(DeviceTraining, transforms_of_the_sphere_and_their_losses_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  std::mt19937 random(6);
  test::Part const part(domain, test::random_field_cuts(domain, random, {9, 12}));
  auto const own = part.of(random_tensor(random, {2, 2, 9, 12}));
  auto const target = part.of(random_tensor(random, {2, 2, 9, 12}));
  for (auto const grid : {nn::LatitudeGrid::gaussian, nn::LatitudeGrid::both_poles}) {
    auto const rule = nn::latitude_rule(grid, 9);
    expect_as_on_host([&](torch::Device const& device) {
      nn::SphericalTransform transform(nn::SphericalTransformOptions{rule, 5, 4}, domain);
      nn::SpectralLoss loss(domain);
      auto const x = own.clone().to(device).requires_grad_();
      auto const filtered = transform->inverse(transform(x));
      auto const value = loss(filtered + x, target.to(device));
      value.backward();
      return std::vector{filtered, value, x.grad()};
    });
  }
}

TEST(DeviceTraining, convolutions_by_waves_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  std::mt19937 random(7);
  test::Part const part(domain, test::random_field_cuts(domain, random, {8, 12}));
  auto const own = part.of(random_tensor(random, {1, 2, 8, 12}));
  auto const run = [&](auto const& make, torch::Device const& device) {
    torch::manual_seed(3);
    auto layer = make();
    layer->to(torch::kDouble);
    test::move_to(*layer, device);
    auto const x = own.clone().to(device).requires_grad_();
    auto const y = layer(x);
    (y * y).sum().backward();
    std::vector<Tensor> results{y, x.grad()};
    for (auto const& parameter : layer->parameters()) results.push_back(parameter.grad());
    return results;
  };
  expect_as_on_host([&](torch::Device const& device) {
    return run(
        [&] {
          return nn::SphericalConvolution(
              nn::SphericalConvolutionOptions{
                  .in_channels = 2, .out_channels = 3, .rows = nn::latitude_rule(nn::LatitudeGrid::gaussian, 8)},
              domain);
        },
        device);
  });
}

TEST(DeviceTraining, rollouts_with_and_without_checkpoints_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  std::mt19937 random(8);
  test::Part const part(domain, test::random_field_cuts(domain, random, {7, 6}));
  auto const own = part.of(random_tensor(random, {1, 2, 7, 6}));
  auto const weight = random_tensor(random, {2, 2, 3, 3}) * 0.2;
  for (int const steps_together : {0, 2})
    expect_as_on_host([&](torch::Device const& device) {
      nn::Conv2d layer(
          nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1).bias(false), nn::Padding::by_domain), domain);
      layer->to(torch::kDouble);
      {
        torch::NoGradGuard const no_grad;
        layer->weight.copy_(weight);
      }
      test::move_to(*layer, device);
      auto const x = own.clone().to(device).requires_grad_();
      auto const loss = nn::rollout(
          domain, x, {.num_steps = 4, .checkpoint_steps = steps_together},
          [&](Tensor const& state, std::int64_t) { return state + torch::tanh(layer(state)); },
          [&](Tensor const& state, std::int64_t) { return nn::reduce_loss(state.square().sum(), domain); });
      loss.backward();
      nn::GradientSync(*layer, {{domain.comm(), Reduction::sum}}).reduce();
      return std::vector{loss, x.grad(), layer->weight.grad()};
    });
}

TEST(DeviceTraining, gradients_in_step_are_added_on_the_device) {
  auto const comm = test::world();
  Index const numel = 40001;
  std::vector<Tensor> by_rank;
  for (int r = 0; r < comm.num_ranks(); ++r) {
    std::mt19937 random(31 + unsigned(r));
    by_rank.push_back(random_tensor(random, {numel}));
  }
  auto const expected = nn::detail::sum_in_order(by_rank);
  for (auto const type : {torch::kDouble, torch::kFloat}) {
    // On the second, a rank has its parameters on the host: all sum there.
    for (bool const all_on_device : {true, false}) {
      SCOPED_TRACE(std::string(c10::toString(type)) + (all_on_device ? "" : ", one rank on the host"));
      bool const on_host = !all_on_device && comm.rank() == 0;
      auto const device = on_host ? torch::Device(torch::kCPU) : test_torch_device();
      torch::nn::Linear layer(torch::nn::LinearOptions(numel, 1).bias(false));
      layer->to(type);
      test::move_to(*layer, device);
      nn::GradientSync const sync(*layer, {{comm, Reduction::sum}});
      std::optional<StreamScope> scope;
      if (!on_host) scope.emplace(new_test_stream());
      layer->weight.mutable_grad() = by_rank[std::size_t(comm.rank())].to(type).view({1, numel}).clone().to(device);
      (void)test::take_tensor_copies();

      sync.reduce();

      auto const copies = test::take_tensor_copies();
      auto const sum = layer->weight.grad().view({-1}).cpu();
      if (comm.num_ranks() == 1 || !all_on_device) {
        EXPECT_LE(difference(sum.to(torch::kDouble), expected), type == torch::kDouble ? 1e-12 : 1e-5);
        continue;
      }
      std::vector<Tensor> terms;
      for (auto const& term : by_rank) terms.push_back(term.to(type));
      EXPECT_TRUE(same_bits(sum, nn::detail::sum_in_order(terms)));
      expect_no_host_access();
      EXPECT_TRUE(gpu_is_wanted() || copies.bytes_pageable == 0);
      // The parts of the others and the sums of theirs come back, where a sum on the host would come back once.
      bool const can_tell = comm.num_ranks() > 2 && !gpu_is_wanted();
      EXPECT_TRUE(!can_tell || double(copies.bytes_to_device) > 1.2 * double(sum.nbytes()));
    }
  }
}

/// Buffers of several types, of other values on each rank.
struct Statistics : torch::nn::Module {
  explicit Statistics(int rank) {
    std::mt19937 random(17 + unsigned(rank));
    register_parameter("weight", torch::zeros({1}, torch::kDouble));
    for (auto const type : {torch::kDouble, torch::kFloat, torch::kDouble, torch::kHalf})
      register_buffer("real" + std::to_string(buffers().size()), random_tensor(random, {5, 7}).to(type));
    register_buffer("complex", torch::complex(random_tensor(random, {3}), random_tensor(random, {3})));
    register_buffer("large", random_tensor(random, {40001}));
  }
};

TEST(DeviceTraining, buffers_are_averaged_where_they_are) {
  auto const comm = test::world();
  bool const sums = comm.num_ranks() > 1;
  std::vector<std::vector<Tensor>> by_rank;
  for (int r = 0; r < comm.num_ranks(); ++r) by_rank.push_back(Statistics(r).buffers());
  // On the second, a rank has its buffers on the host.
  for (bool const all_on_device : {true, false}) {
    SCOPED_TRACE(all_on_device ? "" : "one rank on the host");
    bool const on_host = !all_on_device && comm.rank() == 0;
    auto const device = on_host ? torch::Device(torch::kCPU) : test_torch_device();
    Statistics module(comm.rank());
    // Three buckets: the large one, what is added in f64, and what is added in f32.
    training::DataParallel parallel(
        module, {}, {{comm, Reduction::mean}},
        {.buckets = {.first_bytes = 4096, .bytes = 4096}, .buffers = training::BufferPolicy::mean});
    std::optional<StreamScope> scope;
    if (!on_host) scope.emplace(new_test_stream());
    test::move_to(module, device);
    auto const buffers = module.buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      // What the stream has just made.
      auto const own = by_rank[std::size_t(comm.rank())][i].to(device);
      buffers[i].copy_(own * 2);
      buffers[i].mul_(0.5);
    }
    (void)test::take_tensor_copies();
    (void)test::take_host_waits();
    HostAdditions const additions;

    parallel.sync_buffers();

    auto const added_on_host = additions.count();
    auto const copies = test::take_tensor_copies();
    auto const waits = test::take_host_waits();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      auto const real = [](Tensor const& x) { return x.is_complex() ? torch::view_as_real(x) : x; };
      std::vector<Tensor> terms;
      for (auto const& of_rank : by_rank) terms.push_back(real(of_rank[i]));
      auto const expected = (nn::detail::sum_in_order(terms) / comm.num_ranks()).to(terms[0].scalar_type());
      auto const found = real(buffers[i].cpu());
      // A GPU divides otherwise.
      if (gpu_is_wanted())
        EXPECT_LE(difference(found, expected), found.element_size() == 2 ? 1e-2 : 1e-6) << "buffer " << i;
      else
        EXPECT_TRUE(same_bits(found, expected)) << "buffer " << i;
    }
    if (on_host) continue;
    EXPECT_EQ(added_on_host, 0);
    expect_no_host_access();
    if (gpu_is_wanted()) continue;
    EXPECT_EQ(copies.bytes_pageable, 0);
    // Before the values and before the sums are sent, for each bucket.
    EXPECT_EQ(waits.synchronized, sums ? 2 * 3 : 0);
    EXPECT_EQ(waits.copies, 0);
  }
}

TEST(DeviceTraining, values_of_a_replica_come_from_its_device_alone_and_by_pinned_memory) {
  auto const comm = test::world();
  int const root = comm.num_ranks() - 1;
  auto const device = test_torch_device();
  StreamScope const scope(new_test_stream());
  Statistics module(comm.rank());
  test::move_to(module, device);
  auto tensors = nn::detail::buffers_of(module);
  tensors.emplace_back("transposed", torch::full({3, 2}, comm.rank(), torch::kDouble).to(device).t());
  Statistics const expected(root);
  // What the stream has just made.
  for (auto const& [name, tensor] : tensors) tensor.mul_(2).mul_(0.5);
  (void)test::take_tensor_copies();

  nn::detail::broadcast_replicas(comm, tensors, root);

  auto const copies = test::take_tensor_copies();
  auto const buffers = expected.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    EXPECT_TRUE(same_bits(tensors[i].second.cpu(), buffers[i])) << tensors[i].first;
  EXPECT_TRUE(torch::equal(tensors.back().second.cpu(), torch::full({2, 3}, root, torch::kDouble)));
  expect_no_host_access();
  if (gpu_is_wanted()) return;
  EXPECT_EQ(copies.bytes_pageable, 0);
  EXPECT_EQ(copies.bytes_to_host > 0, comm.rank() == root && comm.num_ranks() > 1);
}

TEST(DeviceTraining, replicas_that_end_at_different_times_have_the_values_of_the_last) {
  auto const comm = test::world();
  torch::manual_seed(7);
  test::Net const first;
  expect_as_on_host([&](torch::Device const& device) {
    auto net = test::copy_of(first);
    test::move_to(*net, device);
    training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}});
    training::Join join(parallel);
    for (int step = 0; step < 2 + comm.rank(); ++step) {
      auto batch = test::part_of(test::whole_batch(step, 4 * comm.num_ranks()), comm);
      net->zero_grad();
      test::loss_of(net, {batch.first.to(device), batch.second.to(device)}).backward();
      torch::NoGradGuard const no_grad;
      for (auto const& parameter : net->parameters()) parameter.sub_(0.1 * parameter.grad());
    }
    join.finish();
    nn::require_same_bits(comm, nn::parameters_of(*net));
    return net->parameters();
  });
}

TEST(DeviceTraining, gradients_of_several_backwards_in_streams_of_their_own_are_those_of_the_host) {
  auto const comm = test::world();
  torch::manual_seed(7);
  test::Net const first;
  test::Scheduled const scheduled(test::Schedule::at_random);
  expect_as_on_host([&](torch::Device const& device) {
    auto net = test::copy_of(first);
    test::move_to(*net, device);
    training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, {.buckets = test::small_buckets});
    std::vector<Tensor> results;
    for (int part = 0; part < 4; ++part) {
      auto batch = test::part_of(test::whole_batch(part, 4 * comm.num_ranks()), comm);
      auto const backward = [&] { test::loss_of(net, {batch.first.to(device), batch.second.to(device)}).backward(); };
      if (device.is_cpu())
        backward();
      else
        test::run_in(new_test_stream(), backward);
      for (auto const& parameter : net->parameters()) results.push_back(parameter.grad().clone());
    }
    return results;
  });
}

TEST(DeviceTraining, gradients_by_rules_of_their_own_are_those_of_the_host) {
  auto const comm = test::world();
  torch::manual_seed(7);
  test::Net const first;
  auto const other = comm.split(0, comm.rank());
  expect_as_on_host([&](torch::Device const& device) {
    auto net = test::copy_of(first);
    test::move_to(*net, device);
    nn::GradientSync sync(*net, {{comm, Reduction::mean}});
    auto const parameters = nn::parameters_of(*net);
    sync.set_rules(parameters.front().first, {{comm, Reduction::sum}});
    sync.set_rules(parameters.back().first, {{other, Reduction::sum}, {comm, Reduction::mean}});
    auto batch = test::part_of(test::whole_batch(0, 4 * comm.num_ranks()), comm);
    test::loss_of(net, {batch.first.to(device), batch.second.to(device)}).backward();
    (void)test::take_tensor_copies();
    sync.reduce();
    EXPECT_TRUE(gpu_is_wanted() || test::take_tensor_copies().bytes_pageable == 0);
    std::vector<Tensor> results;
    for (auto const& [name, parameter] : parameters) results.push_back(parameter.grad().clone());
    return results;
  });
}

TEST(DeviceTraining, sums_in_pieces_have_the_same_bits) {
  auto const comm = test::world();
  auto const device = test_torch_device();
  StreamScope const scope(new_test_stream());
  auto const values_of = [](int rank, torch::ScalarType type) {
    std::mt19937 random(13 + unsigned(rank));
    auto const real = random_tensor(random, {1001});
    return (type == torch::kComplexDouble ? torch::complex(real, random_tensor(random, {1001})) : real).to(type);
  };
  for (auto const type : {torch::kDouble, torch::kFloat, torch::kBFloat16, torch::kComplexDouble}) {
    std::vector<Tensor> by_rank;
    for (int r = 0; r < comm.num_ranks(); ++r) by_rank.push_back(values_of(r, type));
    auto const& own = by_rank[std::size_t(comm.rank())];
    auto whole = own.to(device, type, /*non_blocking=*/false, /*copy=*/true);
    nn::detail::sum_by_rank(comm, whole);
    EXPECT_TRUE(torch::equal(whole.cpu(), nn::detail::sum_in_order(by_rank).to(type))) << type;

    for (Index const bytes : {Index(100), Index(2000), Index(whole.nbytes())}) {
      auto pieces = own.to(device, own.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
      nn::detail::sum_by_rank(comm, pieces, bytes);
      EXPECT_TRUE(torch::equal(pieces.cpu(), whole.cpu())) << own.scalar_type() << ", pieces of " << bytes << " bytes";
    }
  }
  auto flags = torch::ones({3}, torch::dtype(torch::kBool).device(device));
  for (auto const on : {nn::detail::AddedOn::host, nn::detail::AddedOn::device})
    EXPECT_EQ(test::rule_of([&] { nn::detail::sum_in_place(comm, flags, on); }), "UnsupportedTensor");
}

TEST(DeviceTraining, norms_over_replicas_are_those_of_the_host) {
  auto const comm = test::world();
  std::mt19937 random(9 + unsigned(comm.rank()));
  auto const own = random_tensor(random, {2 + comm.rank(), 3, 4});
  expect_as_on_host([&](torch::Device const& device) {
    training::SyncBatchNorm1d norm(torch::nn::BatchNormOptions(3));
    norm->to(torch::kDouble);
    test::move_to(*norm, device);
    (void)training::replicate(*norm, comm);
    auto const x = own.clone().to(device).requires_grad_();
    auto const y = norm->forward(x);
    (y * y * y).sum().backward();
    return std::vector{y, x.grad(), norm->weight.grad(), norm->bias.grad(), norm->running_mean, norm->running_var};
  });
}

/// Parameters after some steps of `Daso`, whose messages are taken late: nodes of one rank each.
std::vector<Tensor> averaged_on(torch::Device const& device) {
  auto const comm = test::world();
  torch::manual_seed(5);
  auto const first = torch::randn({4, 3}, torch::kDouble);
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Tanh());
  model->to(torch::kDouble);
  {
    torch::NoGradGuard const no_grad;
    model->parameters()[0].copy_(first);
    model->parameters()[1].zero_();
  }
  test::move_to(*model, device);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  training::Daso daso(*model, optimizer, comm,
                      {.schedule = {.total_epochs = 6, .warmup_epochs = 1, .cooldown_epochs = 1}, .node = comm.rank()});
  daso.set_last_batch(3);
  for (int step = 0; step < 16; ++step) {
    torch::manual_seed(100 + step);
    auto const batch = torch::randn({4 * comm.num_ranks(), 3}, torch::kDouble).narrow(0, 4 * comm.rank(), 4).to(device);
    daso.zero_grad();
    (model->forward(batch) - batch.sum(-1, true)).square().mean().backward();
    daso.step();
    if (daso.schedule().batch() == 0) daso.epoch_loss(1.0 / (1 + step));
  }
  daso.synchronize();
  return model->parameters();
}

TEST(DeviceTraining, averages_of_nodes_are_those_of_the_host) { expect_as_on_host(averaged_on); }

TEST(DeviceTraining, a_saved_training_goes_on_with_the_same_bits_on_the_host_and_on_the_device) {
  auto const comm = test::world();
  test::Folder const folder(comm);
  auto const train = [](torch::nn::Linear& net, torch::optim::Optimizer& optimizer, int seed) {
    torch::manual_seed(seed);
    optimizer.zero_grad();
    net(torch::randn({4, 3}, torch::kDouble).to(net->weight.device())).square().mean().backward();
    optimizer.step();
  };
  auto const device = test_torch_device();
  StreamScope const scope(new_test_stream());
  // A GPU adds up in another order than the host.
  double const tolerance = gpu_is_wanted() ? 1e-12 : 1e-14;
  for (auto const& [from, to] :
       {std::pair(device, torch::Device(torch::kCPU)), std::pair(torch::Device(torch::kCPU), device)}) {
    torch::manual_seed(2);
    torch::nn::Linear net(3, 2);
    net->to(torch::kDouble);
    test::move_to(*net, from);
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.1));
    training::TrainingState state(comm, *net);
    state.add("optimizer", optimizer);
    train(net, optimizer, 1);
    CheckpointStore store(comm, folder / (from.is_cpu() ? "host" : "device"));
    auto writer = store.begin(1);
    state.save(writer);
    Checkpoint const checkpoint(comm, writer.commit());
    train(net, optimizer, 2);

    torch::nn::Linear other(3, 2);
    other->to(torch::kDouble);
    test::move_to(*other, to);
    torch::optim::Adam other_optimizer(other->parameters(), torch::optim::AdamOptions(0.3));
    training::TrainingState other_state(comm, *other);
    other_state.add("optimizer", other_optimizer);
    other_state.load(checkpoint);
    train(other, other_optimizer, 2);

    EXPECT_EQ(other->weight.device(), to);
    EXPECT_LE(difference(other->weight.detach().cpu(), net->weight.detach().cpu()), tolerance);
  }
}

}  // namespace test_device
}  // namespace graticule
