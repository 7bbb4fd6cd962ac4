// SPDX-License-Identifier: BSD-3-Clause
// Losses, spectral layers, layers with cut features and moves between cuts on a device: values and gradients are those
// of the host, in order of a stream; spectral layers keep their fields there.
#include <graticule/nn_bridge/collective/fields.hpp>
#include <graticule/nn_bridge/collective/linear.hpp>
#include <graticule/nn_bridge/collective/match_cuts.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>
#include <graticule/nn_bridge/stencil/channel_split_conv.hpp>

#include "devices/faulty_device.hpp"
#include "guarded_torch.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace test_device_values {

using nn::LossPer;
using test::DeviceFault;
using test::difference;
using test::expect_no_host_access;
using test::FaultyDevice;
using test::gpu_is_wanted;
using test::guarded_torch_device;
using test::GuardedDevice;
using test::leaf_of;
using test::needs_guarded_device;
using test::new_guarded_stream;
using test::new_test_stream;
using test::Part;
using test::random_field_cuts;
using test::random_tensor;
using test::Schedule;
using test::Scheduled;
using test::StreamScope;
using test::test_torch_device;
using torch::Tensor;

/// What a call gives, and its gradients in all that it depends on; where they were computed.
using Results = std::vector<Tensor>;
using Call = std::function<Results()>;

/// A call that can be made on any device, any number of times.
struct Case {
  std::string name;
  std::function<Call(torch::Device const&)> on;
};

Results with_gradients(Tensor const& y, std::vector<Tensor> const& leaves) {
  auto const real = y.is_complex() ? torch::view_as_real(y) : y;
  auto const gradients = torch::autograd::grad({(real * real).sum()}, leaves, {}, /*retain_graph=*/std::nullopt,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  Results results{y.detach()};
  for (std::size_t i = 0; i < leaves.size(); ++i)
    results.push_back(gradients[i].defined() ? gradients[i] : torch::zeros_like(leaves[i]));
  return results;
}

/// Calls a new module with this rank's `shard`. @param make gives the module, the same on all devices
template <class Make, class Forward>
Case of_module(std::string name, Tensor const& shard, Make make, Forward forward) {
  return {std::move(name), [=](torch::Device const& device) -> Call {
            torch::manual_seed(3);
            auto module = make();
            module->to(torch::kDouble);
            test::move_to(*module, device);
            auto const x = shard.clone().to(device).requires_grad_();
            auto leaves = module->parameters();
            leaves.insert(leaves.begin(), x);
            return [=]() mutable { return with_gradients(forward(module, x), leaves); };
          }};
}

template <class Make>
Case of_module(std::string name, Tensor const& shard, Make make) {
  return of_module(std::move(name), shard, make, [](auto& module, Tensor const& x) { return module(x); });
}

/// Largest difference from `expected`, wherever the results are.
double difference_of(Results const& found, Results const& expected) {
  double most = found.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    auto const one = difference(found[i].cpu(), expected[i]);
    if (std::isnan(one)) return one;
    most = std::max(most, one);
  }
  return most;
}

/// Each case twice in a stream, so that memory, plans and tables of the first call serve another one.
void expect_values_of_the_host(std::vector<Case> const& cases) {
  for (auto const& [name, on] : cases) {
    SCOPED_TRACE(name);
    auto const expected = on(torch::kCPU)();
    for (auto const schedule : {Schedule::late, Schedule::soon}) {
      Scheduled const scheduled(schedule);
      StreamScope const scope(new_test_stream());
      auto const call = on(test_torch_device());

      auto const first = call();
      auto const second = call();

      EXPECT_LE(difference_of(first, expected), 1e-12) << "schedule " << int(schedule);
      EXPECT_LE(difference_of(second, expected), 1e-12) << "schedule " << int(schedule);
      expect_no_host_access();
      if (gpu_is_wanted()) break;  // it has no schedule
    }
  }
}

using Loss = std::function<Tensor(Tensor const& prediction, Tensor const& target, Tensor const& mask)>;

struct LossKind {
  std::string name;
  std::function<Loss(nn::Domain const&, nn::LossOptions const&)> make;
  Tensor prediction, target;  ///< whole ones
  bool has_channels = true;
};

/// A kind of a loss that is made as `make(domain, options)`.
template <class Make>
LossKind kind(std::string name, Make make, Tensor prediction, Tensor target, bool has_channels = true) {
  return {std::move(name),
          [make](nn::Domain const& domain, nn::LossOptions const& options) -> Loss {
            return [loss = make(domain, options)](Tensor const& p, Tensor const& t, Tensor const& mask) mutable {
              return loss(p, t, mask);
            };
          },
          std::move(prediction), std::move(target), has_channels};
}

std::vector<std::int64_t> const cells{2, 3, 4, 7, 6};

std::vector<LossKind> loss_kinds() {
  using nn::LossOptions;
  std::mt19937 random(4);
  auto const p = random_tensor(random, cells);
  auto const t = random_tensor(random, cells);
  auto const missing = torch::where(t > 0.5, torch::full_like(t, std::nan("")), t);
  auto const probabilities = torch::sigmoid(t);
  auto const counts = (t.abs() * 3).floor();
  auto classes = t.argmax(1);
  classes.masked_fill_(p.select(1, 0) > 1, -100);
  auto const members = random_tensor(random, {2, 3, 5, 4, 7, 6});
  members.select(2, 1).copy_(members.select(2, 3));
  nn::ClassOptions const weighted{.class_weights = {1, 2, 0.5}};
  nn::ClassOptions const smooth{.class_weights = {1, 2, 0.5}, .label_smoothing = 0.1};
  using Domain = nn::Domain;
  return {
      kind(
          "L1", [](Domain const& d, LossOptions const& o) { return nn::L1Loss(d, o); }, p, missing),
      kind(
          "MSE", [](Domain const& d, LossOptions const& o) { return nn::MSELoss(d, o); }, p, missing),
      kind(
          "Huber", [](Domain const& d, LossOptions const& o) { return nn::HuberLoss(0.7, d, o); }, p, missing),
      kind(
          "SmoothL1", [](Domain const& d, LossOptions const& o) { return nn::SmoothL1Loss(0.7, d, o); }, p, missing),
      kind(
          "BCEWithLogits",
          [](Domain const& d, LossOptions const& o) {
            return nn::BCEWithLogitsLoss(d, o, std::vector<double>{1, 2, 0.5});
          },
          p, probabilities),
      kind(
          "KLDiv", [](Domain const& d, LossOptions const& o) { return nn::KLDivLoss(d, o); }, p, probabilities),
      kind(
          "KLDiv of logarithms",
          [](Domain const& d, LossOptions const& o) { return nn::KLDivLoss(d, o, nn::TargetIs::log_probability); }, p,
          missing),
      kind(
          "PoissonNLL", [](Domain const& d, LossOptions const& o) { return nn::PoissonNLLLoss(d, o); }, p, counts),
      kind(
          "PoissonNLL of rates, full",
          [](Domain const& d, LossOptions const& o) {
            return nn::PoissonNLLLoss(d, o, nn::PoissonNLLOptions{.log_input = false, .full = true});
          },
          p.abs() + 0.1, counts),
      kind(
          "NLL", [=](Domain const& d, LossOptions const& o) { return nn::NLLLoss(d, o, weighted); }, p.log_softmax(1),
          classes, false),
      kind(
          "CrossEntropy", [=](Domain const& d, LossOptions const& o) { return nn::CrossEntropyLoss(d, o, smooth); }, p,
          classes, false),
      kind(
          "CrossEntropy of probabilities",
          [=](Domain const& d, LossOptions const& o) { return nn::CrossEntropyLoss(d, o, smooth); }, p, t.softmax(1),
          false),
      kind(
          "CRPS",
          [](Domain const& d, LossOptions const& o) {
            return nn::CRPSLoss(d, o, nn::CRPSOptions{.ensemble_axis = 2, .fairness = 0.9});
          },
          members, missing),
  };
}

TEST(DeviceValues, of_losses_and_their_gradients_are_those_of_the_host) {
  nn::Domain const domain = test::domains().back();
  std::mt19937 random(8);
  Part const part(domain, random_field_cuts(domain, random, {7, 6}));
  auto const weights = torch::relu(part.of(random_tensor(random, {7, 6})) + 1);
  std::vector<Case> cases;
  for (auto const& kind : loss_kinds())
    for (auto const per : {LossPer::domain, LossPer::level}) {
      nn::LossOptions options{.per = per, .global_row_weights = test::row_weights(), .level_weights = {1, 2, 0.5, 1}};
      if (kind.has_channels) options.channel_weights = {1, 0.5, 3};
      auto const mask = per == LossPer::level ? weights : Tensor();
      cases.push_back({kind.name + " per " + std::to_string(int(per)), [=](torch::Device const& device) -> Call {
                         auto const loss = kind.make(domain, options);
                         auto const p = leaf_of(part.of(kind.prediction).to(device));
                         auto const t = part.of(kind.target).to(device);
                         auto const on_device = mask.defined() ? mask.to(device) : mask;
                         return [=] { return with_gradients(loss(p, t, on_device), {p}); };
                       }});
    }

  expect_values_of_the_host(cases);
}

constexpr std::int64_t num_rows = 8;
constexpr std::int64_t num_columns = 12;

/// On one grid of ranks, with cuts of its own.
std::vector<Case> spectral_cases(nn::Domain const& domain) {
  std::mt19937 random(5);
  auto const shard = Part(domain, random_field_cuts(domain, random, {num_rows, num_columns}))
                         .of(random_tensor(random, {2, 4, num_rows, num_columns}));
  auto const rows = nn::latitude_rule(nn::LatitudeGrid::gaussian, num_rows);
  auto const fourier = [domain](nn::FourierAxes axes, Index num_waves) {
    return
        [=] { return nn::FourierTransform(nn::FourierTransformOptions{.axes = axes, .num_waves = num_waves}, domain); };
  };
  auto const spherical = [=] {
    return nn::SphericalTransform(nn::SphericalTransformOptions{.rows = rows, .num_degrees = 5, .num_orders = 4},
                                  domain);
  };
  auto const and_back = [](auto& transform, Tensor const& x) { return transform->inverse(transform(x)); };
  using enum nn::FourierAxes;
  return {
      of_module("FourierTransform of columns", shard, fourier(columns, 0)),
      of_module("FourierTransform of rows and columns and back", shard, fourier(rows_and_columns, 4), and_back),
      of_module("FourierConvolution", shard,
                [=] {
                  return nn::FourierConvolution(
                      nn::FourierConvolutionOptions{
                          .in_channels = 4, .out_channels = 3, .row_modes = 3, .column_modes = 4},
                      domain);
                }),
      of_module("SphericalTransform and back", shard, spherical, and_back),
      of_module("SphericalConvolution", shard,
                [=] {
                  return nn::SphericalConvolution(
                      nn::SphericalConvolutionOptions{.in_channels = 4, .out_channels = 3, .rows = rows, .bias = true},
                      domain);
                }),
  };
}

TEST(DeviceValues, of_spectral_layers_and_their_gradients_are_those_of_the_host) {
  for (auto const& domain : test::domains()) {
    SCOPED_TRACE(to_string(domain.grid()));
    expect_values_of_the_host(spectral_cases(domain));
  }
}

TEST(DeviceCopies, of_spectral_layers_are_none) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  for (auto const& domain : test::domains())
    for (auto const& [name, on] : spectral_cases(domain)) {
      SCOPED_TRACE(name + " on " + to_string(domain.grid()));
      auto const call = on(device);
      // The first one makes tables.
      (void)call();
      (void)test::take_tensor_copies();

      (void)call();

      // By LibTorch: what the engine stages for messages is not among them.
      auto const copies = test::take_tensor_copies();
      EXPECT_EQ(copies.bytes_to_host, 0);
      EXPECT_EQ(copies.bytes_to_device, 0);
    }
}

TEST(DeviceValues, of_layers_with_cut_features_are_those_of_the_host) {
  auto const domain = test::bands(test::world());
  auto const& comm = domain.comm();
  auto const cuts = balanced_cuts(4, comm.num_ranks());
  std::mt19937 random(6);
  auto const field = random_tensor(random, {2, 4, 7, 6});
  auto const features = random_tensor(random, {6, 4});
  // Features of the input that this rank is called with.
  auto const given = [&](Tensor const& whole, nn::FeatureSplit split) {
    if (split == nn::FeatureSplit::output) return whole;
    return whole.narrow(1, cuts.lo(comm.rank()), cuts.size(comm.rank()));
  };
  std::vector<Case> cases;
  using enum nn::FeatureSplit;
  for (auto const split : {input, output, both}) {
    auto const suffix = ", split " + std::to_string(int(split));
    nn::SplitOptions const options{.split = split};
    cases.push_back(of_module("ChannelSplitConv2d" + suffix, given(field, split), [=] {
      return nn::ChannelSplitConv2d(torch::nn::Conv2dOptions(4, 5, 3).padding(1), options, domain);
    }));
    cases.push_back(of_module("Linear" + suffix, given(features, split), [=] {
      return nn::Linear(torch::nn::LinearOptions(4, 5), options, domain,
                        nn::Sharding{{-1}, ProcessGrid{domain.comm().num_ranks()}});
    }));
  }

  expect_values_of_the_host(cases);
}

std::vector<Case> cases_of_moves(nn::Domain const& domain) {
  std::mt19937 random(7);
  at::IntArrayRef const space(cells.data() + 3, 2);
  auto const whole = random_tensor(random, cells);
  auto const cuts = random_field_cuts(domain, random, space);
  auto other_cuts = cuts;
  while (domain.comm().num_ranks() > 1 && other_cuts.rows == cuts.rows && other_cuts.columns == cuts.columns)
    other_cuts = random_field_cuts(domain, random, space);
  auto const shard = Part(domain, cuts).of(whole);
  auto const other = Part(domain, other_cuts).of(whole);
  return {
      of_module(
          "MatchCuts", shard, [=] { return nn::MatchCuts(domain); },
          [=](nn::MatchCuts& match, Tensor const& x) { return match(x, other.to(x.device())); }),
      {"whole_field",
       [=](torch::Device const& device) -> Call {
         auto const x = shard.clone().to(device).requires_grad_();
         return [=] { return with_gradients(nn::whole_field(x, domain), {x}); };
       }},
  };
}

TEST(DeviceValues, of_moves_between_cuts_are_those_of_the_host) {
  for (auto const& domain : test::domains()) {
    SCOPED_TRACE(to_string(domain.grid()));
    expect_values_of_the_host(cases_of_moves(domain));
  }
}

TEST(DeviceValues, are_found_to_differ_when_kernels_run_elsewhere) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank moves no cells";
  Scheduled const scheduled(Schedule::late);
  auto const device = guarded_torch_device();
  nn::Domain const domain(test::world(), ProcessGrid{1, test::world().num_ranks()});
  auto cases = cases_of_moves(domain);
  for (auto& of_spectrum : spectral_cases(domain)) cases.push_back(std::move(of_spectrum));
  for (auto const& [name, on] : cases) {
    SCOPED_TRACE(name);
    auto const expected = on(torch::kCPU)();
    StreamScope const scope(new_guarded_stream());
    FaultyDevice faulty(DeviceFault::kernels_in_own_queue);
    auto const call = on(device);
    faulty.begin();

    auto const found = call();

    std::vector<Index> wrong{difference_of(found, expected) <= 1e-12 ? 0 : 1};
    GuardedDevice::instance().fence_all(guarded_torch_device().index());
    domain.comm().sum(wrong);
    EXPECT_GT(wrong[0], 0);
  }
}

}  // namespace test_device_values
}  // namespace graticule
