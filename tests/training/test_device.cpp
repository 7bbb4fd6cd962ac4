// SPDX-License-Identifier: BSD-3-Clause
// Training on a device: losses, gradients of replicated and of sharded parameters, and the moves of a network, on the
// guarded device, in order of LibTorch's streams.
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "guarded_torch.hpp"
#include "replicated_net.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace {

using nn::Reduction;
using test::difference;
using test::guarded_torch_device;
using test::GuardedDevice;
using test::new_guarded_stream;
using test::random_tensor;
using test::StreamScope;
using torch::Tensor;

/// What `make` gives on the host and, in a stream of its own, on the guarded device.
void expect_as_on_host(std::function<std::vector<Tensor>(torch::Device const&)> const& make) {
  auto const expected = make(torch::kCPU);
  StreamScope const scope(new_guarded_stream());

  std::vector<Tensor> found;
  ASSERT_NO_THROW(found = make(guarded_torch_device()));

  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(difference(found[i].detach().cpu(), expected[i].detach()), 1e-12) << "result " << i;
}

nn::Domain bands() {
  auto const comm = test::world();
  return {comm, ProcessGrid{comm.num_ranks(), 1}};
}

TEST(DeviceTraining, losses_are_those_of_the_host) {
  auto const domain = bands();
  std::mt19937 random(4);
  auto const rows = test::random_cuts(random, 7, domain.grid().extent(0));
  test::Part const part(domain, rows, Cuts{6});
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
  auto const domain = bands();
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

/// Losses and parameters of some steps.
TEST(DeviceTraining, steps_of_a_sharded_network_are_those_of_the_host) {
  auto const domain = bands();
  std::mt19937 random(2);
  auto const rows = test::random_cuts(random, 7, domain.grid().extent(0));
  test::Part const part(domain, rows, Cuts{6});
  auto const x = part.of(random_tensor(random, {2, 1, 7, 6}));
  auto const target = part.of(random_tensor(random, {2, 1, 7, 6}));
  auto const weights = std::vector{random_tensor(random, {4, 1, 3, 3}), random_tensor(random, {1, 4, 3, 3})};
  expect_as_on_host([&](torch::Device const& device) {
    torch::nn::Sequential net;
    for (auto const& weight : weights) {
      nn::Conv2d layer(
          nn::Conv2dOptions(torch::nn::Conv2dOptions(weight.size(1), weight.size(0), 3).padding(1).bias(false),
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

TEST(DeviceTraining, gradients_of_data_parallel_networks_are_those_of_the_host) {
  auto const comm = test::world();
  torch::manual_seed(7);
  test::Net const first;
  for (auto const order : {training::SumOrder::any, training::SumOrder::by_rank})
    expect_as_on_host([&](torch::Device const& device) {
      auto net = test::copy_of(first);
      test::move_to(*net, device);
      training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}},
                                      {.order = order, .buckets = test::small_buckets});
      std::vector<Tensor> results;
      for (int step = 0; step < 3; ++step) {
        auto batch = test::part_of(test::whole_batch(step, 4 * comm.num_ranks()), comm);
        net->zero_grad();
        test::loss_of(net, {batch.first.to(device), batch.second.to(device)}).backward();
        for (auto const& parameter : net->parameters()) results.push_back(parameter.grad().clone());
      }
      return results;
    });
}

}  // namespace
}  // namespace graticule
