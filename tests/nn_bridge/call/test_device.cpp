// SPDX-License-Identifier: BSD-3-Clause
// Sharded layers on a device, in order of LibTorch's streams: on the guarded device, which no host code can touch and
// whose work runs as late as its stream allows, or on a GPU.
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/model/embeddings.hpp>
#include <graticule/nn_bridge/norm/conservation.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>

#include "devices/faulty_device.hpp"
#include "environment.hpp"
#include "expect_error.hpp"
#include "guarded_torch.hpp"
#include "layer_table.hpp"
#include "move/tensor_pull.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#if __has_include(<c10/core/CachingDeviceAllocator.h>)
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace graticule {
namespace test_device {

using test::DeviceFault;
using test::difference;
using test::domain_of;
using test::expect_no_host_access;
using test::FaultyDevice;
using test::gpu_is_wanted;
using test::guarded_torch_device;
using test::GuardedDevice;
using test::layer_table;
using test::needs_guarded_device;
using test::new_guarded_stream;
using test::new_test_stream;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::Schedule;
using test::Scheduled;
using test::StreamScope;
using test::test_torch_device;
using test::WithVariable;
using torch::Tensor;

constexpr std::array schedules{Schedule::late, Schedule::at_random, Schedule::soon};

/// The ways between ranks of a node, for plans that are made while the variable has this value.
constexpr char const* transport_name = "GRATICULE_TRANSPORT";
constexpr std::array transports{"auto", "p2p"};

TEST(GuardedTorch, runs_operators_late_and_keeps_the_host_out) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  Scheduled const scheduled(Schedule::late);
  auto const device = guarded_torch_device();
  auto const x = torch::arange(6, torch::dtype(torch::kFloat)).to(device);

  auto y = x * 2;
  y.add_(1);
  auto const pending = GuardedDevice::instance().num_pending();
  auto const before = *static_cast<float const volatile*>(y.const_data_ptr());
  auto const accesses = GuardedDevice::instance().take_accesses();

  EXPECT_GT(pending, 0U);
  EXPECT_TRUE(std::isnan(before));
  EXPECT_EQ(accesses.size(), 1U);
  EXPECT_TRUE(torch::equal(y.cpu(), torch::arange(6, torch::kFloat) * 2 + 1));
  EXPECT_TRUE(
      torch::equal(y.view({2, 3}).t().contiguous().cpu(), (torch::arange(6, torch::kFloat) * 2 + 1).view({2, 3}).t()));
  EXPECT_EQ(y.sum().item<double>(), 36);
}

TEST(GuardedTorch, orders_streams_by_events_only) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  Scheduled const scheduled(Schedule::late);
  auto const device = guarded_torch_device();
  auto const x = torch::zeros({4}, device);
  (void)x.cpu();
  auto const producer = new_guarded_stream();
  {
    StreamScope const scope(producer);
    x.add_(1);
  }

  auto const early = x.cpu();
  c10::Event event(device.type());
  event.record(producer);
  event.block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  auto const late = x.cpu();

  EXPECT_TRUE(torch::equal(early, torch::zeros({4})));
  EXPECT_TRUE(torch::equal(late, torch::ones({4})));
}

void move_to(test::MadeLayer const& made, torch::Device const& device) {
  for (auto const* const list : {&made.sharded_parameters, &made.sharded_buffers})
    for (auto tensor : *list) test::move_to(tensor, device);
}

/// This rank's shard of a random input of a layer.
Tensor random_shard(test::TableLayer const& layer, nn::Domain const& domain) {
  std::mt19937 random(5);
  return random_part(domain, random, layer.sizes).of(random_tensor(random, layer.sizes));
}

/// Forwards and backwards of a layer on a device.
class Pass {
 public:
  /// Runs a forward.
  Pass(test::TableLayer const& layer, nn::Domain const& domain, torch::Device const& device)
      : made_(layer.make(domain, torch::kDouble)), x_(random_shard(layer, domain).clone().to(device).requires_grad_()) {
    move_to(made_, device);
    cotangent_ = torch::ones_like(made_.sharded(x_));
  }
  void operator()() const { made_.sharded(x_).backward(cotangent_); }

 private:
  test::MadeLayer made_;
  Tensor x_;
  Tensor cotangent_;
};

/// A layer beside those of the table, of the table's form; on a domain of its own, whose random masks begin anew.
template <class Make>
test::TableLayer further(std::string name, Make make) {
  return {std::move(name), {2, 4, 9, 8}, [make](nn::Domain const& domain, torch::Dtype dtype) {
            torch::manual_seed(3);
            auto module = make(nn::Domain(domain.comm(), domain.grid()));
            module.first->to(dtype);
            return test::MadeLayer{.sharded = [call = module.second](Tensor const& x) { return call(x); },
                                   .sharded_parameters = module.first->parameters(),
                                   .sharded_buffers = module.first->buffers()};
          }};
}

/// A module that is called with one tensor.
template <class Holder>
auto called(Holder layer) {
  test::LayerFunction const call = [layer](Tensor const& x) mutable { return layer(x); };
  return std::pair(layer, call);
}

test::TableLayer fixer(std::string name, nn::Correction correction) {
  return further(std::move(name), [correction](nn::Domain const& domain) {
    nn::ConservationFixer layer(
        domain, nn::ConservationOptions{
                    .correction = correction, .channels = {3, 1}, .weights = {.global_rows = std::vector(9, 0.5)}});
    test::LayerFunction const call = [layer](Tensor const& x) mutable { return layer(x + 4, x.detach() * 0.5 + 2); };
    return std::pair(layer, call);
  });
}

/// Layers that draw random numbers, or are none of LibTorch's, or that LibTorch's have with other options.
std::vector<test::TableLayer> further_layers() {
  nn::RandomOptions const random{.seed = 0x123456789abcdef0U, .layer = 7};
  return {
      further("Dropout", [=](auto const& d) { return called(nn::Dropout(torch::nn::DropoutOptions(0.4), random, d)); }),
      further("AlphaDropout",
              [=](auto const& d) { return called(nn::AlphaDropout(torch::nn::AlphaDropoutOptions(0.4), random, d)); }),
      further("Dropout2d",
              [=](auto const& d) { return called(nn::Dropout2d(torch::nn::Dropout2dOptions(0.4), random, d)); }),
      further("DropPath", [=](auto const& d) { return called(nn::DropPath(nn::DropPathOptions{0.4}, random, d)); }),
      fixer("ConservationFixer, additive", nn::Correction::additive),
      fixer("ConservationFixer, multiplicative", nn::Correction::multiplicative),
      further("GlobalMean", [](auto const& d) { return called(nn::GlobalMean(nn::Consumer::distinct, d)); }),
      further("TimeEmbedding",
              [](auto const&) {
                nn::TimeEmbedding layer(nn::TimeEmbeddingOptions{.channels = 4, .periods = {24, 8766}, .hidden = 3});
                test::LayerFunction const call = [layer](Tensor const& x) mutable {
                  auto const options = torch::dtype(torch::kDouble).device(x.device());
                  return layer(x, torch::arange(x.size(0), options) * 7.25);
                };
                return std::pair(layer, call);
              }),
      further("CoordinateFeatures",
              [](auto const& d) {
                return called(nn::CoordinateFeatures(
                    nn::CoordinateFeaturesOptions{
                        {80, 60, 40, 20, 0, -20, -40, -60, -80}, {0, 45, 90, 135, 180, 225, 270, 315}, 2},
                    d));
              }),
      further("BatchNorm2d, of all batches alike",
              [](auto const& d) {
                return called(nn::BatchNorm2d(torch::nn::BatchNormOptions(4).momentum(std::nullopt), d));
              }),
  };
}

/// Calls `check(layer, domain)` for each layer of the table and each further one, on one grid of ranks after the other.
template <class Check>
void for_each_layer(Check const& check) {
  auto table = layer_table();
  for (auto& layer : further_layers()) table.push_back(std::move(layer));
  std::size_t repeat = 0;
  for (auto const& layer : table) {
    SCOPED_TRACE(layer.name);
    check(layer, domain_of(repeat++, layer));
  }
}

/// These sum over all ranks, on the host.
bool sums_on_host(test::TableLayer const& layer) {
  for (auto const* const kind : {"Norm", "GlobalMean", "ConservationFixer"})
    if (layer.name.find(kind) != std::string::npos) return true;
  return false;
}

/// What a layer makes of a part, and its gradients; on the host.
struct Results {
  std::vector<Tensor> tensors;
};

Results results_of(test::MadeLayer const& made, Tensor const& part, torch::Device const& device) {
  move_to(made, device);
  auto const x = part.detach().clone().to(device).requires_grad_();
  auto const y = made.sharded(x);
  std::mt19937 random(3);
  y.backward(random_tensor(random, y.sizes().vec(), y.scalar_type()).to(device));
  Results results{{y.detach().cpu(), x.grad().defined() ? x.grad().cpu() : torch::zeros_like(part)}};
  for (auto const& parameter : made.sharded_parameters)
    results.tensors.push_back(parameter.grad().defined() ? parameter.grad().cpu() : torch::zeros(parameter.sizes()));
  return results;
}

TEST(DeviceLayers, give_what_they_give_on_the_host) {
  Scheduled const scheduled(Schedule::late);
  auto const device = test_torch_device();
  for_each_layer([&](test::TableLayer const& layer, nn::Domain const& domain) {
    auto const part = random_shard(layer, domain);
    auto const expected = results_of(layer.make(domain, torch::kDouble), part, torch::kCPU);

    Results found;
    EXPECT_NO_THROW(found = results_of(layer.make(domain, torch::kDouble), part, device));

    if (found.tensors.size() != expected.tensors.size()) return;
    for (std::size_t i = 0; i < expected.tensors.size(); ++i)
      EXPECT_LE(difference(found.tensors[i], expected.tensors[i].to(torch::kDouble)), 1e-12) << "result " << i;
    expect_no_host_access();
  });
}

TEST(DeviceLayers, copy_no_field_to_the_host) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  for_each_layer([&](test::TableLayer const& layer, nn::Domain const& domain) {
    auto const& comm = domain.comm();
    // The first forward makes tables.
    Pass const pass(layer, domain, device);
    (void)test::take_tensor_copies();

    pass();

    // By LibTorch, of all ranks: what the engine stages for messages is not among them.
    std::vector<Index> bytes{Index(test::take_tensor_copies().bytes_to_host)};
    comm.sum(bytes);
    // Tokens of others are passed from rank to rank in host memory.
    if (layer.name == "SelfAttention, ring" && comm.num_ranks() > 1) return;
    // Norms exchange their statistics: two numbers forward, two backward, of each group of each rank.
    auto const statistics = Index(4 * sizeof(double)) * layer.sizes[0] * layer.sizes[1] * comm.num_ranks();
    // And each rank a number now and then, by which it decides.
    EXPECT_LE(bytes[0], statistics + Index(sizeof(double)) * comm.num_ranks());
    EXPECT_LT(statistics, Index(sizeof(double)) * c10::multiply_integers(layer.sizes) * comm.num_ranks());
  });
}

/// Copies to the device in a call and its backward that follow another, on this rank.
template <class Call>
long uploads_in(Call const& call) {
  call();
  (void)test::take_tensor_copies();
  call();
  return test::take_tensor_copies().to_device;
}

// An upload from ordinary memory waits for all that the device still has to do.
TEST(DeviceLayers, upload_their_constants_once) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  for_each_layer([&](test::TableLayer const& layer, nn::Domain const& domain) {
    // The statistics of norms and the tokens of the ring pass through the host.
    bool const by_host = sums_on_host(layer) || layer.name == "SelfAttention, ring";
    if (by_host && domain.comm().num_ranks() > 1) return;
    // The table itself moves its indices in each call.
    if (layer.name == "MaxUnpool2d") return;

    EXPECT_EQ(uploads_in(Pass(layer, domain, device)), 0);
  });
}

TEST(DeviceLosses, upload_their_weights_once) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  auto const domain = domain_of(0);
  std::vector<std::int64_t> const sizes{2, 3, 4, 12, 8};
  std::mt19937 random(7);
  auto const part = random_part(domain, random, sizes);
  auto const prediction = part.of(random_tensor(random, sizes)).clone().to(device).requires_grad_();
  auto const target = part.of(random_tensor(random, sizes).abs().clamp(0.1, 0.9)).to(device);
  std::vector<double> const rows(std::size_t(sizes[3]), 0.5);
  nn::LossOptions const weights{
      .global_row_weights = rows, .channel_weights = {1, 2, 3}, .level_weights = {1, 0.5, 0.25, 2}};
  auto const uploads_of = [&](auto loss) { return uploads_in([&] { loss(prediction, target).backward(); }); };

  EXPECT_EQ(uploads_of(nn::MSELoss(domain, weights)), uploads_of(nn::MSELoss(domain)));
  EXPECT_EQ(uploads_of(nn::BCEWithLogitsLoss(domain, weights, std::vector<double>{1, 2, 3})),
            uploads_of(nn::BCEWithLogitsLoss(domain)));
  EXPECT_EQ(uploads_of(nn::SpectralLoss(domain, weights)), uploads_of(nn::SpectralLoss(domain)));
}

/// Copies of LibTorch in `call`, of all ranks.
template <class Call>
test::TensorCopies copies_in(Comm const& comm, Call const& call) {
  call();  // The first one makes tables.
  (void)test::take_tensor_copies();
  call();
  auto const copies = test::take_tensor_copies();
  std::vector<Index> sums{copies.bytes_to_host, copies.bytes_pageable};
  comm.sum(sums);
  return {.bytes_to_host = long(sums[0]), .bytes_pageable = long(sums[1])};
}

/// Of fields of 2 samples, 4 channels and 12 x 8 cells, on the guarded device.
struct LossShards {
  Tensor prediction;  ///< wants a gradient
  Tensor target;      ///< from 0.1 to 0.9, so that it may be a probability
  Tensor missing;     ///< the target, of which many are missing
};

LossShards shards_of_losses(nn::Domain const& domain) {
  std::vector<std::int64_t> const sizes{2, 4, 12, 8};
  std::mt19937 random(7);
  auto const part = random_part(domain, random, sizes);
  auto const device = guarded_torch_device();
  auto const prediction = part.of(random_tensor(random, sizes)).clone().to(device).requires_grad_();
  auto const target = part.of(random_tensor(random, sizes).abs().clamp(0.1, 0.9)).to(device);
  return {prediction, target, torch::where(target > 0.5, target, torch::full_like(target, std::nan("")))};
}

// What is summed over ranks, and the numbers by which a loss decides: whether targets are missing, and its divisor.
TEST(DeviceLosses, bring_a_few_numbers_to_the_host_through_pinned_memory) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const domain = domain_of(0);
  auto const [prediction, target, missing] = shards_of_losses(domain);
  auto const copies_of = [&](auto loss, Tensor const& of) {
    (void)loss(prediction, of);
    (void)test::take_tensor_copies();
    (void)loss(prediction, of);
    return test::take_tensor_copies();
  };
  long const sum = domain.comm().num_ranks() > 1 ? 1 : 0;
  struct Case {
    test::TensorCopies copies;
    long most;
  };
  for (auto const& [copies, most] :
       {Case{copies_of(nn::MSELoss(domain), target), 2 + sum}, Case{copies_of(nn::MSELoss(domain), missing), 2 + sum},
        Case{copies_of(nn::CrossEntropyLoss(domain), target.argmax(1)), 2 + sum},
        Case{copies_of(nn::CRPSLoss(domain, nn::LossOptions{}, nn::CRPSOptions{.ensemble_axis = 1}),
                       target.select(1, 0)),
             3 + sum}}) {
    EXPECT_LE(copies.to_host, most);
    EXPECT_LE(copies.bytes_to_host, 8 * most + 8 * sum);
    EXPECT_LE(copies.to_device, sum);
    EXPECT_EQ(copies.bytes_pageable, 0);
  }
}

TEST(DeviceCollectives, pass_through_pinned_memory_with_the_values_of_the_host) {
  auto const comm = test::world();
  auto const device = test_torch_device();
  StreamScope const scope(new_test_stream());
  std::mt19937 random(6 + unsigned(comm.rank()));
  auto const own = random_tensor(random, {3 * comm.num_ranks(), 2 + comm.rank()});
  auto const square = random_tensor(random, {3 * comm.num_ranks(), 4});
  Cuts const rows(std::vector<Index>(std::size_t(comm.num_ranks()), 3));
  auto const calls = std::vector<std::function<Tensor(torch::Device const&)>>{
      [&](auto const& d) { return nn::gather(own.to(d), 1, comm, nn::Consumer::distinct); },
      [&](auto const& d) { return nn::reduce_scatter(square.to(d), 0, rows, comm); },
      [&](auto const& d) { return nn::all_to_all(own.to(d), 0, 1, rows, comm); },
      [&](auto const& d) { return nn::gather_to_root(own.to(d), 1, 0, comm); },
      [&](auto const& d) { return nn::scatter_from_root(square.to(d), 0, rows, 0, comm); },
      [&](auto const& d) { return nn::broadcast(square.to(d), 0, comm); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    auto const expected = calls[i](torch::kCPU);
    Tensor found;

    // What is made of host values for the call comes over in pageable memory: it is there before.
    auto const given = copies_in(comm, [&] { (void)(i % 3 == 0 || i == 2 ? own : square).to(device); });
    auto const copies = copies_in(comm, [&] { found = calls[i](device); });

    EXPECT_TRUE(torch::equal(found.cpu(), expected));
    expect_no_host_access();
    if (gpu_is_wanted()) continue;  // nobody counts copies there
    EXPECT_EQ(copies.bytes_pageable, given.bytes_pageable);
    EXPECT_TRUE(copies.bytes_to_host > 0 || comm.num_ranks() == 1);
  }
}

/// A copy from or to pageable memory waits for the device.
TEST(DeviceLayers, make_tables_on_the_device_once) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  for_each_layer([&](test::TableLayer const& layer, nn::Domain const& domain) {
    Pass const pass(layer, domain, device);
    pass();

    auto const copies = copies_in(domain.comm(), pass);

    // The table itself moves its indices in each call.
    if (layer.name == "MaxUnpool2d") return;
    EXPECT_EQ(copies.bytes_pageable, 0);
  });
}

TEST(DeviceLayers, check_indices_along_all_axes_in_one_copy) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const table = layer_table();
  auto const unpooling =
      std::find_if(table.begin(), table.end(), [](auto const& layer) { return layer.name == "MaxUnpool2d"; });
  ASSERT_TRUE(unpooling != table.end()) << "no unpooling in the table";
  Pass const pass(*unpooling, domain_of(0, *unpooling), guarded_torch_device());
  (void)test::take_tensor_copies();

  pass();

  EXPECT_EQ(test::take_tensor_copies().to_host, 1);
}

/// Draws of a layer are those of the host for any cuts: masks are made on the device from global indices.
TEST(DeviceLayers, draw_the_masks_of_the_host_for_any_cuts) {
  auto const device = test_torch_device();
  auto const comm = test::world();
  std::vector<std::int64_t> const sizes{2, 3, 7, 5};
  std::mt19937 random(11);
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    SCOPED_TRACE(to_string(grid));
    nn::Domain const domain(comm, grid);
    test::Part const part(domain, test::random_cuts(random, 7, grid.extent(0)),
                          test::random_cuts(random, 5, grid.extent(1)));
    for (auto const type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
      auto const own = part.of(random_tensor(random, sizes)).to(type);
      auto const draws = [&](torch::Device const& where) {
        domain.set_num_draws(3);
        nn::Dropout layer(torch::nn::DropoutOptions(0.4), nn::RandomOptions{.seed = 9, .layer = 2, .first_sample = 5},
                          domain);
        layer(own.to(where));
        return layer(own.to(where)).cpu();
      };
      auto const expected = draws(torch::kCPU);

      EXPECT_TRUE(torch::equal(draws(device), expected)) << type;
    }
  }
  expect_no_host_access();
}

TEST(DeviceLayers, pass_tokens_through_pinned_memory) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  auto const table = layer_table();
  auto const ring =
      std::find_if(table.begin(), table.end(), [](auto const& layer) { return layer.name == "SelfAttention, ring"; });
  ASSERT_TRUE(ring != table.end()) << "no ring attention in the table";
  auto const domain = domain_of(0, *ring);

  auto const copies = copies_in(domain.comm(), Pass(*ring, domain, device));

  EXPECT_EQ(copies.bytes_pageable, 0);
  EXPECT_EQ(copies.bytes_to_host > 0, domain.comm().num_ranks() > 1);
}

TEST(DeviceLayers, are_found_to_copy_a_field_to_the_host) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  auto const x = torch::ones({2, 4, 9, 8}, torch::dtype(torch::kDouble).device(device));
  (void)test::take_tensor_copies();

  auto const y = (x.cpu() * 2).to(device);

  EXPECT_EQ(test::take_tensor_copies().bytes_to_host, long(y.nbytes()));
}

/// The guarded device, which counts how often the engine waits for its queues.
class CountedDevice : public FaultyDevice {
 public:
  CountedDevice() : FaultyDevice(DeviceFault::none) {}
  void fence(DeviceQueue const& queue) override {
    ++num_fences_;
    FaultyDevice::fence(queue);
  }
  [[nodiscard]] long take_fences() { return num_fences_.exchange(0); }

 private:
  std::atomic<long> num_fences_{0};
};

/// Waits of the host in a call that follows another, on this rank.
template <class Call>
test::HostWaits waits_in(Call const& call) {
  call();  // The first one makes tables.
  (void)test::take_host_waits();
  call();
  return test::take_host_waits();
}

/// How often a forward and its backward have to wait: for what MPI reads on the host, and for numbers that decide.
long needed_waits(std::string const& layer, int num_ranks) {
  struct Needed {
    char const* layer;
    long alone;
    long by_messages;
  };
  // The keys and values are sent forward, and again backward, where a gradient goes on after each step.
  long const ring = 2 + num_ranks;
  for (auto const& [name, alone, by_messages] : {
           Needed{"Norm", 0, 2},                               // statistics forward, sums of their gradient backward
           Needed{"GlobalMean", 0, 2},                         // the sum forward, that of its gradient backward
           Needed{"ConservationFixer, additive", 0, 2},        // likewise
           Needed{"ConservationFixer, multiplicative", 1, 2},  // and whether a mean is 0, which is an error
           Needed{"MaxUnpool2d", 1, 0},                        // whether an index is wrong, which is an error
           Needed{"SelfAttention, ring", 0, ring},
       })
    if (layer.find(name) != std::string::npos) return alone + (num_ranks > 1 ? by_messages : 0);
  return 0;
}

// Whoever waits leaves the device idle until the next kernels come.
TEST(DeviceLayers, wait_for_the_device_only_where_values_meet_on_the_host) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  // The devices of a node wait for each other. The host waits before messages of MPI, and in check mode.
  WithVariable const with(transport_name, "auto");
  bool const checks = std::getenv("GRATICULE_CHECK") != nullptr;
  CountedDevice counted;
  for_each_layer([&](test::TableLayer const& layer, nn::Domain const& domain) {
    Pass const pass(layer, domain, device);
    pass();
    (void)counted.take_fences();

    auto const waits = waits_in(pass);

    EXPECT_EQ(waits.synchronized, needed_waits(layer.name, domain.comm().num_ranks()));
    EXPECT_EQ(waits.operators, 0);
    // The table itself moves its indices in each call.
    EXPECT_TRUE(waits.copies == 0 || layer.name == "MaxUnpool2d") << waits.copies;
    EXPECT_TRUE(counted.take_fences() == 0 || checks);
  });
}

TEST(DeviceLosses, wait_for_the_device_only_for_numbers_that_decide) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const domain = domain_of(0);
  auto const [prediction, target, missing] = shards_of_losses(domain);
  auto const waits_of = [&](auto loss, Tensor const& of) { return waits_in([&] { loss(prediction, of).backward(); }); };
  std::vector<double> const rows(12, 0.5);
  nn::LossOptions const weights{.global_row_weights = rows, .channel_weights = {1, 2, 3, 4}};
  // The sum over ranks, and the divisor, which must be more than 0. No backward waits.
  long const sum = (domain.comm().num_ranks() > 1 ? 1 : 0) + 1;
  struct Case {
    char const* name;
    test::HostWaits waits;
    long needed;
  };
  for (auto const& [name, waits, needed] : {
           // Whether a target is missing, or a class wrong.
           Case{"MSE", waits_of(nn::MSELoss(domain, weights), target), sum + 1},
           Case{"MSE, targets missing", waits_of(nn::MSELoss(domain), missing), sum + 1},
           Case{"BCE", waits_of(nn::BCEWithLogitsLoss(domain), target), sum + 1},
           Case{"cross entropy", waits_of(nn::CrossEntropyLoss(domain), target.argmax(1)), sum + 1},
           // And whether members are equal.
           Case{"CRPS",
                waits_of(nn::CRPSLoss(domain, nn::LossOptions{}, nn::CRPSOptions{.ensemble_axis = 1}),
                         target.select(1, 0)),
                sum + 2},
           Case{"spectral", waits_of(nn::SpectralLoss(domain, weights), target), sum},
       }) {
    EXPECT_EQ(waits.synchronized, needed) << name;
    EXPECT_EQ(waits.copies, 0) << name;
    EXPECT_EQ(waits.operators, 0) << name;
  }
}

TEST(DeviceCollectives, wait_for_the_device_before_messages_only) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const comm = test::world();
  auto const device = guarded_torch_device();
  auto const square = torch::ones({3 * comm.num_ranks(), 4}, torch::dtype(torch::kDouble).device(device));
  Cuts const rows(std::vector<Index>(std::size_t(comm.num_ranks()), 3));
  torch::nn::Linear module(4, 3);
  test::move_to(*module, device);
  for (auto& parameter : module->parameters()) parameter.mutable_grad() = torch::ones_like(parameter);
  nn::GradientSync const sync(*module, {{comm}});
  struct Case {
    char const* name;
    std::function<void()> call;
    long needed = 1;
  };
  // Gradients are added in parts, which are exchanged before and after; which ones are there is seen last.
  long const sum = comm.num_ranks() > 1 ? 2 : 0;
  for (auto const& [name, call, needed] : {
           Case{"gather", [&] { (void)nn::gather(square, 1, comm, nn::Consumer::distinct); }},
           Case{"reduce_scatter", [&] { (void)nn::reduce_scatter(square, 0, rows, comm); }},
           Case{"all_to_all", [&] { (void)nn::all_to_all(square, 0, 1, rows, comm); }},
           Case{"gather_to_root", [&] { (void)nn::gather_to_root(square, 1, 0, comm); }},
           Case{"scatter_from_root", [&] { (void)nn::scatter_from_root(square, 0, rows, 0, comm); }},
           Case{"broadcast", [&] { (void)nn::broadcast(square, 0, comm); }},
           Case{"GradientSync", [&] { sync.reduce(); }, sum + 1},
       }) {
    auto const waits = waits_in(call);

    EXPECT_EQ(waits.synchronized, needed) << name;
    EXPECT_EQ(waits.copies, 0) << name;
    EXPECT_EQ(waits.operators, 0) << name;
  }
}

TEST(GuardedTorch, counts_what_a_gpu_would_wait_for) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  auto const device = guarded_torch_device();
  c10::impl::VirtualGuardImpl const guard(device.type());
  auto const x = torch::arange(6, torch::dtype(torch::kDouble)).to(device);
  auto const stream = guard.getStream(device);
  c10::Event event(device.type());
  event.record(stream);
  auto const counts = [](auto const& call) {
    (void)test::take_host_waits();
    call();
    auto const waits = test::take_host_waits();
    return std::array{waits.synchronized, waits.copies, waits.operators};
  };
  using Counts = std::array<long, 3>;

  EXPECT_EQ(counts([&] { guard.synchronizeStream(stream); }), (Counts{1, 0, 0}));
  EXPECT_EQ(counts([&] { guard.synchronizeDevice(device.index()); }), (Counts{1, 0, 0}));
  EXPECT_EQ(counts([&] { event.synchronize(); }), (Counts{1, 0, 0}));
  EXPECT_EQ(counts([&] { (void)event.query(); }), (Counts{1, 0, 0}));
  EXPECT_EQ(counts([&] { (void)x.cpu(); }), (Counts{0, 1, 0}));
  EXPECT_EQ(counts([&] { (void)x.sum().item<double>(); }), (Counts{0, 1, 0}));
  EXPECT_EQ(counts([&] { (void)torch::ones({2}).to(device); }), (Counts{0, 1, 0}));
  EXPECT_EQ(counts([&] { (void)torch::equal(x, x); }), (Counts{0, 0, 1}));
  EXPECT_EQ(counts([&] { (void)x.masked_select(x > 2); }), (Counts{0, 0, 1}));
  EXPECT_GT(counts([&] { (void)x.index({x > 2}); })[2], 0);
  EXPECT_EQ(counts([&] { (void)nn::detail::as_message(x); }), (Counts{0, 0, 0}));
  EXPECT_EQ(counts([&] { (void)(x * 2 + 1).sum(); }), (Counts{0, 0, 0}));
}

/// Halos of a field that a stream has just made, and their gradient; all in that stream.
std::vector<Tensor> halos_in(nn::HaloExchange halo, Tensor const& part, c10::Stream const& stream) {
  StreamScope const scope(stream);
  auto const x = part.to(stream.device()).requires_grad_();
  auto y = halo(x * 2 + 1);
  (y * y).sum().backward();
  return {y.detach().cpu(), x.grad().cpu()};
}

std::vector<Tensor> halos_on_host(nn::HaloExchange halo, Tensor const& part) {
  auto const x = part.clone().requires_grad_();
  auto y = halo(x * 2 + 1);
  (y * y).sum().backward();
  return {y.detach(), x.grad()};
}

class DeviceStreams : public testing::Test {
 protected:
  DeviceStreams()
      : domain(domain_of(0)),
        options{.latitude = {1, 2}, .longitude = {2, 1}},
        whole([] {
          std::mt19937 random(8);
          return random_tensor(random, {2, 3, 9, 8}, torch::kFloat);
        }()),
        part([&] {
          std::mt19937 random(2);
          return random_part(domain, random, whole.sizes()).of(whole).clone();
        }()) {}

  nn::Domain domain;
  nn::HaloExchangeOptions options;
  Tensor whole;
  Tensor part;
};

TEST_F(DeviceStreams, order_halos_and_their_gradients) {
  nn::HaloExchange halo(options, domain);
  auto const expected = halos_on_host(halo, part);
  for (auto const schedule : schedules) {
    Scheduled const scheduled(schedule);
    nn::HaloExchange on_device(options, domain);
    for (int repeat = 0; repeat < 2; ++repeat) {
      auto const found = halos_in(on_device, part, new_test_stream());

      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
    }
  }
}

TEST_F(DeviceStreams, of_two_devices_serve_one_process) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  nn::HaloExchange halo(options, domain);
  auto const expected = halos_on_host(halo, part);
  for (int const index : {1, 0, 1}) {
    nn::HaloExchange on_device(options, domain);

    auto const found = halos_in(on_device, part, new_guarded_stream(index));

    EXPECT_TRUE(torch::equal(found[0], expected[0]));
    EXPECT_TRUE(torch::equal(found[1], expected[1]));
  }
}

TEST_F(DeviceStreams, are_found_to_matter_when_kernels_run_elsewhere) {
  if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
  nn::HaloExchange halo(options, domain);
  auto const expected = halos_on_host(halo, part);
  Scheduled const scheduled(Schedule::late);
  (void)guarded_torch_device();
  FaultyDevice faulty(DeviceFault::kernels_in_own_queue);
  faulty.begin();
  nn::HaloExchange on_device(options, domain);

  auto const found = halos_in(on_device, part, new_guarded_stream());

  GuardedDevice::instance().fence_all(guarded_torch_device().index());
  std::vector<Index> wrong{torch::equal(found[0], expected[0]) ? 0 : 1};
  domain.comm().sum(wrong);
  EXPECT_GT(wrong[0], 0);
}

struct Found {
  Index wrong_cells = 0;
  Index host_accesses = 0;
};

/// Rows with a ghost row on each side, periodic, of one column per rank's number of rows.
class Rows {
 public:
  Rows()
      : comm_(test::world()),
        layout_(ProcessGrid{comm_.num_ranks(), 1}, Indices{3 * comm_.num_ranks(), 4}),
        local_(grown(layout_.owned(comm_.rank()), std::array<Width, 2>{Width{1, 1}, Width{0, 0}})),
        pull_(comm_, layout_, Boundary::uniform(2, Edge::periodic), std::vector{Target{local_, {local_}}}, {}, 0) {}

  struct Call {
    Tensor x;
    Tensor target;
    nn::detail::TensorPending pending;
  };
  /// Zeros.
  [[nodiscard]] Call make() const {
    auto const owned = layout_.owned(comm_.rank());
    Call call{torch::zeros_like(numbers(owned.lo(0), owned.hi(0), 0)).to(guarded_torch_device()), {}, {}};
    call.target = pull_.empty_target(call.x, 0);
    return call;
  }
  /// On values that the current stream writes. Nothing here waits for what the stream did before.
  void start(Call& call, int round, FaultyDevice& faulty) const {
    auto const owned = layout_.owned(comm_.rank());
    call.x.copy_(numbers(owned.lo(0), owned.hi(0), round));
    faulty.begin_call();
    call.pending = pull_.start(call.x, std::span(&call.target, 1));
  }
  [[nodiscard]] Index num_wrong(Tensor const& target, int round) const {
    auto const rows = layout_.extent(0);
    auto const owned = layout_.owned(comm_.rank());
    auto const row = [&](Index i) { return numbers((i + rows) % rows, (i + rows) % rows + 1, round); };
    auto const expected =
        torch::cat({row(owned.lo(0) - 1), numbers(owned.lo(0), owned.hi(0), round), row(owned.hi(0))}, -2);
    return Index((target.cpu() != expected).sum().item<std::int64_t>());
  }
  [[nodiscard]] Comm const& comm() const { return comm_; }

 private:
  [[nodiscard]] static Tensor numbers(Index lo, Index hi, int round) {
    return (torch::arange(double(lo * 4), double(hi * 4)) + 1000 * round).view({1, 1, -1, 4});
  }
  Comm comm_;
  Layout layout_;
  Box local_;
  nn::detail::TensorPull pull_;
};

/// Two calls on the same tensors, the second with `fault` on rank 0; what the first has filled is copied between them.
Found calls_with(DeviceFault fault) {
  Scheduled const scheduled(Schedule::late);
  (void)guarded_torch_device();
  FaultyDevice faulty(fault);
  Rows const rows;
  auto const& comm = rows.comm();
  StreamScope const scope(new_guarded_stream());
  // All that a call makes once is made, and no work is left.
  auto call = rows.make();
  for (int const round : {8, 9}) {
    rows.start(call, round, faulty);
    call.pending.wait();
    EXPECT_EQ(rows.num_wrong(call.target, round), 0);
  }
  auto const copied = torch::empty_like(call.target);
  rows.start(call, 1, faulty);
  call.pending.wait();
  copied.copy_(call.target);
  if (comm.rank() == 0) faulty.begin();
  // The other ranks' messages of the second call are there before rank 0 begins it.
  if (comm.rank() == 0) comm.barrier();
  rows.start(call, 2, faulty);
  if (comm.rank() != 0) comm.barrier();
  call.pending.wait();
  // Looking at the values makes up for what was not waited for: no rank does so before all have ended.
  comm.barrier();
  std::vector<Index> found{rows.num_wrong(call.target, 2) + rows.num_wrong(copied, 1), 0};
  GuardedDevice::instance().fence_all(guarded_torch_device().index());
  found[1] = Index(GuardedDevice::instance().take_accesses().size());
  comm.barrier();
  comm.sum(found);
  return {found[0], found[1]};
}

class DeviceFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_is_wanted()) GTEST_SKIP() << needs_guarded_device;
    if (std::getenv("GRATICULE_CHECK") != nullptr)
      GTEST_SKIP() << "ranks begin calls apart here, and wait for each other before each call in check mode";
  }

  /// By each way that messages take between the ranks of a node.
  static void expect_found(DeviceFault fault, Index Found::*count) {
    for (auto const* const transport : transports) {
      WithVariable const with(transport_name, transport);
      EXPECT_GT(calls_with(fault).*count, 0) << transport;
    }
  }
};

TEST_F(DeviceFaults, of_calls_on_tensors_are_none) {
  for (auto const* const transport : transports) {
    WithVariable const with(transport_name, transport);
    auto const found = calls_with(DeviceFault::none);

    EXPECT_EQ(found.wrong_cells, 0) << transport;
    EXPECT_EQ(found.host_accesses, 0) << transport;
  }
}

TEST_F(DeviceFaults, that_read_memory_on_the_host_are_found) {
  expect_found(DeviceFault::kernels_on_the_host, &Found::host_accesses);
}

TEST_F(DeviceFaults, that_launch_on_another_queue_are_found) {
  expect_found(DeviceFault::kernels_in_own_queue, &Found::wrong_cells);
}

TEST_F(DeviceFaults, that_unpack_before_the_message_is_there_are_found) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that sends a message";
  expect_found(DeviceFault::copies_in_own_queue, &Found::wrong_cells);
}

TEST_F(DeviceFaults, that_send_before_the_message_is_packed_are_found) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that it sends to";
  expect_found(DeviceFault::sent_before_it_is_packed, &Found::wrong_cells);
}

TEST_F(DeviceFaults, that_reuse_a_buffer_that_is_read_are_found) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer whose message it buffers";
  WithVariable const with(transport_name, "p2p");

  EXPECT_GT(calls_with(DeviceFault::buffers_reused_too_early).wrong_cells, 0);
}

/// Three rows of four cells per rank, with a ghost row on each side, periodic.
nn::detail::TensorPull pull_of_rows(Comm const& comm) {
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{3 * comm.num_ranks(), 4});
  Box const local = grown(layout.owned(comm.rank()), std::array<Width, 2>{Width{1, 1}, Width{0, 0}});
  return {comm, layout, Boundary::uniform(2, Edge::periodic), std::vector{Target{local, {local}}}, {}, 0};
}

TEST_F(DeviceStreams, are_joined_when_a_call_ends_in_another_one) {
  Scheduled const scheduled(Schedule::late);
  auto const device = test_torch_device();
  auto const comm = domain.comm();
  auto const pull = pull_of_rows(comm);
  auto const first = new_test_stream();
  auto const second = new_test_stream();
  auto const own = torch::arange(double(pull.owned().lo(0) * 4), double(pull.owned().hi(0) * 4)).view({1, 1, -1, 4});
  Tensor x;
  Tensor target;
  nn::detail::TensorPending pending;
  {
    StreamScope const scope(first);
    x = own.to(device) + 0;
    target = pull.empty_target(x, 0);
    pending = pull.start(x, std::span(&target, 1));
  }

  StreamScope const scope(second);
  pending.wait();
  auto const found = target.cpu();

  EXPECT_TRUE(torch::equal(found.narrow(-2, 1, 3), own));
  auto const total = double(12 * comm.num_ranks());
  EXPECT_TRUE(torch::equal(found.narrow(-2, 0, 1), torch::remainder(own.narrow(-2, 0, 1) - 4 + total, total)));
}

/// A function of CUDA's or HIP's runtime, in the library that LibTorch uses; null where there is none.
template <class Function>
Function* runtime_function(std::string const& name) {
  for (std::string const prefix : {"cuda", "hip"})
    if (void* const found = dlsym(RTLD_DEFAULT, (prefix + name).c_str())) return reinterpret_cast<Function*>(found);
  return nullptr;
}

/// Captures a stream into a graph, which never runs: the guarded device by its word, a GPU by its runtime.
class Capture {
 public:
  /// False where a device has no word for it: LibTorch 2.11 does not ask it, 2.13 does.
  static bool is_possible() {
    if (gpu_is_wanted()) return begin_function() && end_function() && destroy_function();
    return asks_device<c10::impl::VirtualGuardImpl>();
  }
  explicit Capture(c10::Stream const& stream) : stream_(stream) {
    if (gpu_is_wanted()) {
      constexpr int relaxed = 2;  // calls elsewhere do not end the capture
      EXPECT_EQ(begin_function()(stream_.native_handle(), relaxed), 0);
    } else {
      test::set_captured(stream_, true);
    }
  }
  ~Capture() {
    if (gpu_is_wanted()) {
      void* graph = nullptr;
      EXPECT_EQ(end_function()(stream_.native_handle(), &graph), 0);
      if (graph) (void)destroy_function()(graph);
    } else {
      test::set_captured(stream_, false);
    }
  }
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;

 private:
  using Begin = int(void* stream, int mode);
  using End = int(void* stream, void** graph);
  using Destroy = int(void* graph);
  template <class Implementation>
  static bool asks_device() {
    return requires(Implementation const& guard, c10::Stream const& stream) { guard.isStreamCapturing(stream); };
  }
  static Begin* begin_function() { return runtime_function<Begin>("StreamBeginCapture"); }
  static End* end_function() { return runtime_function<End>("StreamEndCapture"); }
  static Destroy* destroy_function() { return runtime_function<Destroy>("GraphDestroy"); }

  c10::Stream stream_;
};

/// A call on `part` on the device is refused on all ranks while a stream of one is captured, and only then.
template <class Layer>
void expect_refused_while_captured(Layer& layer, Tensor const& part) {
  auto const stream = new_test_stream();
  StreamScope const scope(stream);
  auto const x = part.to(test_torch_device());
  auto const call = [&] { (void)layer(x); };
  EXPECT_EQ(rule_of(call), "nothing was thrown");
  {
    std::optional<Capture> capture;
    if (Comm::world().rank() == 0) capture.emplace(stream);

    EXPECT_EQ(rule_of(call), "Unsupported");
  }
  EXPECT_EQ(rule_of(call), "nothing was thrown");
}

TEST_F(DeviceStreams, that_are_captured_are_refused_on_all_ranks) {
  if (!Capture::is_possible()) GTEST_SKIP() << "the device cannot be asked whether a stream is captured";
  nn::HaloExchange halo(options, domain);
  expect_refused_while_captured(halo, part);
  nn::Dropout dropout(torch::nn::DropoutOptions(0.4), nn::RandomOptions{.seed = 9, .layer = 2}, domain);
  expect_refused_while_captured(dropout, part);
}

/// Whole numbers, exact in f64 in whatever order they are added, that a GPU computes for tens of milliseconds.
Tensor late_numbers(std::int64_t numel, int seed, torch::Device const& device) {
  std::int64_t const n = gpu_is_wanted() ? 4096 : 128;
  auto const options = torch::dtype(torch::kDouble).device(device);
  auto const factor = torch::remainder(torch::arange(n * n, options) * (1 + seed % 10), 11).view({n, n});
  auto product = factor;
  for (int i = 0; i < 8; ++i) product = torch::remainder(product.mm(factor) + 1, 7);
  return product.flatten().narrow(0, 0, numel);
}

// The device is busy when the call is made: a queue that is not the stream's, or a copy or message that does not wait,
// finds what was there before.
TEST_F(DeviceStreams, wait_for_long_work_before_an_exchange) {
  Scheduled const scheduled(Schedule::late);
  auto const device = test_torch_device();
  std::mt19937 random(4);
  std::vector<std::int64_t> const sizes{1, 2, 90, 80};
  auto const shard = random_part(domain, random, sizes).of(torch::zeros(sizes, torch::kDouble)).contiguous();
  nn::HaloExchange on_host(options, domain);
  nn::HaloExchange halo(options, domain);
  c10::impl::VirtualGuardImpl const guard(device.type());
  int seed = domain.comm().rank();
  for (auto const& stream : {guard.getDefaultStream(device), new_test_stream(), new_test_stream()}) {
    SCOPED_TRACE(stream.id());
    StreamScope const scope(stream);
    auto const x = shard.to(device, torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
    guard.synchronizeStream(stream);

    x.copy_(late_numbers(x.numel(), ++seed, device).view(x.sizes()));
    x.requires_grad_();
    auto const y = halo(x);
    auto const cotangent = torch::full_like(y.detach(), -1);
    cotangent.copy_(late_numbers(cotangent.numel(), ++seed, device).view(cotangent.sizes()));
    y.backward(cotangent);

    auto const host_x = x.detach().cpu().requires_grad_();
    auto const host_y = on_host(host_x);
    host_y.backward(cotangent.cpu());
    EXPECT_TRUE(torch::equal(y.detach().cpu(), host_y.detach()));
    EXPECT_TRUE(torch::equal(x.grad().cpu(), host_x.grad()));
    // What was waited for is more than zeros.
    EXPECT_TRUE(x.numel() == 0 || host_x.detach().abs().sum().item<double>() > 0);
    expect_no_host_access();
  }
}

// The gradient that the adjoint adds to is written late, in the stream in which the adjoint ends.
TEST_F(DeviceStreams, are_followed_when_an_adjoint_ends_in_another_one) {
  Scheduled const scheduled(Schedule::late);
  auto const device = test_torch_device();
  c10::impl::VirtualGuardImpl const guard(device.type());
  auto const pull = pull_of_rows(domain.comm());
  auto const given = (torch::arange(20, torch::kDouble) + 100 * domain.comm().rank()).view({1, 1, 5, 4});
  auto const from_others = pull.apply_adjoint(given);
  auto const first = new_test_stream();
  auto const second = new_test_stream();
  auto const target = given.to(device);
  auto const own = pull.source_of(given).to(device);
  auto const x = torch::zeros_like(own);
  guard.synchronizeDevice(device.index());
  nn::detail::TensorPending pending;
  {
    StreamScope const scope(first);
    pending = pull.start_adjoint(std::span(&target, 1));
  }

  StreamScope const scope(second);
  auto const written = late_numbers(x.numel(), 3, device).view(x.sizes());
  x.copy_(written).add_(own);
  pull.finish_adjoint(pending, x);
  guard.synchronizeStream(first);
  auto const found = x.cpu();

  EXPECT_TRUE(torch::equal(found, from_others + written.cpu()));
}

/// A layer's output and the gradient of its input.
std::vector<Tensor> output_and_gradient(test::MadeLayer const& made, Tensor const& input) {
  auto const x = input.detach().requires_grad_();
  auto const y = made.sharded(x);
  y.backward(y.detach() * 0.5 + 1);
  return {y.detach(), x.grad().defined() ? x.grad() : torch::zeros_like(x)};
}

/// The same by a second call, in `second`; the layer is destroyed before that has run, and its memory passes to others
/// in `first`, where its first call was.
std::vector<Tensor> results_of_second_stream(test::MadeLayer made, Tensor const& input, c10::Stream const& first,
                                             c10::Stream const& second) {
  auto const device = first.device();
  c10::impl::VirtualGuardImpl const guard(device.type());
  move_to(made, device);
  auto const x = input.to(device);
  guard.synchronizeDevice(device.index());
  {
    StreamScope const scope(first);
    (void)output_and_gradient(made, x);
    guard.synchronizeStream(first);
  }
  std::vector<Tensor> results;
  {
    StreamScope const scope(second);
    if (gpu_is_wanted()) (void)late_numbers(4, 1, device);
    results = output_and_gradient(made, x);
  }
  made = {};
  if (gpu_is_wanted()) {
    StreamScope const scope(first);
    std::vector<Tensor> others;
    for (int i = 0; i < 64; ++i) others.push_back(torch::full({64}, std::nan(""), x.options()));
  }
  guard.synchronizeStream(first);
  StreamScope const scope(second);
  for (auto& result : results) result = result.cpu();
  return results;
}

TEST_F(DeviceStreams, keep_constants_until_all_streams_have_read_them) {
  Scheduled const scheduled(Schedule::late);
  auto const first = new_test_stream();
  auto const second = new_test_stream();
  for_each_layer([&](test::TableLayer const& layer, nn::Domain const& of_layer) {
    auto const input = random_shard(layer, of_layer);
    auto const on_host = layer.make(of_layer, torch::kDouble);
    (void)output_and_gradient(on_host, input);
    auto const expected = output_and_gradient(on_host, input);

    std::vector<Tensor> found;
    EXPECT_NO_THROW(found = results_of_second_stream(layer.make(of_layer, torch::kDouble), input, first, second));

    if (found.size() != expected.size()) return;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(difference(found[i], expected[i]), 1e-12) << "result " << i;
  });
}

// No event orders the stream that reads after the one that has copied.
TEST_F(DeviceStreams, find_constants_that_another_one_has_copied) {
  Scheduled const scheduled(Schedule::late);
  auto const device = test_torch_device();
  auto const values = torch::arange(6, torch::kDouble);
  for (auto const type : {torch::kDouble, torch::kFloat, torch::kLong}) {
    nn::detail::Constant const constant(values);
    {
      StreamScope const scope(new_test_stream());
      if (gpu_is_wanted()) (void)late_numbers(6, 2, device);
      (void)constant.on(device, type);
    }
    StreamScope const scope(new_test_stream());

    auto const found = constant.on(device, type).cpu();

    EXPECT_TRUE(torch::equal(found, values.to(type))) << type;
  }
}

/// Bytes of a device: in tensors, held by LibTorch's allocator, and in use by all processes together; 0 where it does
/// not say.
struct DeviceBytes {
  Index in_tensors = 0;
  Index held = 0;
  Index in_use = 0;
};

/// LibTorch 2.9 and later count in one way for all devices.
template <class Type>
std::optional<DeviceBytes> bytes_of(Type const& type, c10::DeviceIndex index) {
#if __has_include(<c10/core/CachingDeviceAllocator.h>)
  if constexpr (requires { getDeviceAllocator(type); }) {
    using Allocator = std::remove_pointer_t<decltype(getDeviceAllocator(type))>;
    auto* const allocator = dynamic_cast<Allocator*>(c10::GetAllocator(type));
    if (allocator == nullptr) return std::nullopt;
    auto const stats = allocator->getDeviceStats(index);
    DeviceBytes bytes{Index(stats.allocated_bytes[0].current), Index(stats.reserved_bytes[0].current), 0};
    if constexpr (requires { allocator->getMemoryInfo(index); }) {
      try {
        auto const info = allocator->getMemoryInfo(index);
        bytes.in_use = Index(info.second - info.first);
      } catch (c10::Error const&) {
        // Some allocators cannot say.
      }
    }
    return bytes;
  }
#endif
  return std::nullopt;
}

TEST_F(DeviceStreams, of_many_calls_take_no_more_memory_of_the_device) {
  if (!gpu_is_wanted()) GTEST_SKIP() << "the guarded device does not count its memory";
  auto const device = test_torch_device();
  auto const& comm = domain.comm();
  auto const counted = [&] {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    comm.barrier();
    auto const bytes = bytes_of(device.type(), device.index());
    comm.barrier();
    return bytes;
  };
  nn::Domain const rows(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::HaloExchange halo(options, rows);
  auto const values = torch::ones({4, 8, 128 / comm.num_ranks(), 256}, torch::kFloat);
  std::array const streams{new_test_stream(), new_test_stream(), new_test_stream()};
  auto const call = [&](c10::Stream const& stream) {
    StreamScope const scope(stream);
    auto const x = values.to(device).requires_grad_();
    auto const y = halo(x);
    (y * y).sum().backward();
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up)
    for (auto const& stream : streams) call(stream);
  auto before = counted();
  if (!before) GTEST_SKIP() << "the device's allocator does not count in this LibTorch";

  constexpr int num_calls = 90;
  // A tenth of a field per call would show.
  auto const allowed = Index(values.nbytes()) * num_calls / 10;
  Index least_growth = std::numeric_limits<Index>::max();
  // Other processes may take memory of the same device meanwhile, but not each time: the rounds last half a minute.
  for (int round = 0; round < 60 && least_growth > allowed; ++round) {
    if (round > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    before = counted();
    for (int i = 0; i < num_calls; ++i) call(streams[std::size_t(i) % streams.size()]);
    auto const after = counted();

    EXPECT_LE(after->in_tensors, before->in_tensors + allowed);
    EXPECT_LE(after->held, before->held + allowed);
    std::array growth{after->in_use - before->in_use};
    comm.max(growth);
    least_growth = std::min(least_growth, growth[0]);
  }
  EXPECT_LE(least_growth, allowed);
}

TEST_F(DeviceStreams, order_halos_in_place) {
  auto const comm = domain.comm();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{2 * comm.num_ranks() + 1, 8});
  auto const owned = rows.owned(comm.rank());
  auto const values = torch::arange(double(owned.lo(0) * 8), double(owned.hi(0) * 8)).view({1, -1, 8});
  auto const run = [&](torch::Device const& device) {
    nn::Domain const by_rows(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::uniform(2, Edge::periodic));
    nn::HaloExchangeOptions const widths{.latitude = {1, 1}, .longitude = {1, 1}};
    nn::PaddedHaloExchange padded(widths, by_rows);
    auto const x = values.clone().to(device).requires_grad_();
    auto const room = torch::constant_pad_nd(x * 3, {1, 1, 1, 1});
    auto const y = padded(room);
    (y * y).sum().backward();
    return std::vector<Tensor>{y.detach().cpu(), x.grad().cpu()};
  };
  auto const expected = run(torch::kCPU);
  for (auto const schedule : schedules) {
    Scheduled const scheduled(schedule);
    StreamScope const scope(new_test_stream());

    auto const found = run(test_torch_device());

    EXPECT_TRUE(torch::equal(found[0], expected[0]));
    EXPECT_TRUE(torch::equal(found[1], expected[1]));
  }
}

}  // namespace test_device
}  // namespace graticule
