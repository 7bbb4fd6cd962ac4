// SPDX-License-Identifier: BSD-3-Clause
// Sharded layers on a device, in order of LibTorch's streams: on the guarded device, which no host code can touch and
// whose work runs as late as its stream allows.
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>

#include "call/tensor_pull.hpp"
#include "expect_error.hpp"
#include "faulty_device.hpp"
#include "guarded_torch.hpp"
#include "layer_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace graticule {
namespace {

using test::DeviceFault;
using test::difference;
using test::domain_of;
using test::FaultyDevice;
using test::guarded_torch_device;
using test::GuardedDevice;
using test::layer_table;
using test::new_guarded_stream;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::Schedule;
using test::StreamScope;
using torch::Tensor;

/// Sets a schedule until its end.
class Scheduled {
 public:
  explicit Scheduled(Schedule schedule) : before_(GuardedDevice::instance().schedule()) {
    GuardedDevice::instance().set_schedule(schedule, 3);
  }
  ~Scheduled() { GuardedDevice::instance().set_schedule(before_); }
  Scheduled(Scheduled const&) = delete;
  Scheduled& operator=(Scheduled const&) = delete;

 private:
  Schedule before_;
};

constexpr std::array schedules{Schedule::late, Schedule::at_random, Schedule::soon};

TEST(GuardedTorch, runs_operators_late_and_keeps_the_host_out) {
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

/// What a layer makes of a part, and its gradients; on the host.
struct Results {
  std::vector<Tensor> tensors;
};

Results results_of(test::MadeLayer const& made, Tensor const& part, torch::Device const& device) {
  for (auto const* const list : {&made.sharded_parameters, &made.sharded_buffers})
    for (auto tensor : *list) test::move_to(tensor, device);
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
  auto const device = guarded_torch_device();
  std::size_t repeat = 0;
  for (auto const& layer : layer_table()) {
    SCOPED_TRACE(layer.name);
    std::mt19937 random(5);
    auto const domain = domain_of(repeat++, layer);
    auto const whole = random_tensor(random, layer.sizes);
    auto const part = random_part(domain, random, layer.sizes).of(whole);
    auto const expected = results_of(layer.make(domain, torch::kDouble), part, torch::kCPU);

    Results found;
    EXPECT_NO_THROW(found = results_of(layer.make(domain, torch::kDouble), part, device));

    if (found.tensors.size() != expected.tensors.size()) continue;
    for (std::size_t i = 0; i < expected.tensors.size(); ++i)
      EXPECT_LE(difference(found.tensors[i], expected.tensors[i].to(torch::kDouble)), 1e-12) << "result " << i;
    for (auto const& access : GuardedDevice::instance().take_accesses()) ADD_FAILURE() << access;
  }
}

/// Halos of a field that a stream has just made, and their gradient; all in that stream.
std::vector<Tensor> halos_in(nn::HaloExchange halo, Tensor const& part, c10::Stream const& stream) {
  StreamScope const scope(stream);
  auto const x = part.to(guarded_torch_device(stream.device_index())).requires_grad_();
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
      auto const found = halos_in(on_device, part, new_guarded_stream());

      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
    }
  }
}

TEST_F(DeviceStreams, of_two_devices_serve_one_process) {
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
  nn::HaloExchange halo(options, domain);
  auto const expected = halos_on_host(halo, part);
  Scheduled const scheduled(Schedule::late);
  (void)guarded_torch_device();
  FaultyDevice faulty(DeviceFault::kernels_in_own_queue);
  faulty.begin();
  nn::HaloExchange on_device(options, domain);

  auto const found = halos_in(on_device, part, new_guarded_stream());

  GuardedDevice::instance().fence_all(0);
  std::vector<Index> wrong{torch::equal(found[0], expected[0]) ? 0 : 1};
  domain.comm().sum(wrong);
  EXPECT_GT(wrong[0], 0);
}

TEST_F(DeviceStreams, are_joined_when_a_call_ends_in_another_one) {
  Scheduled const scheduled(Schedule::late);
  auto const device = guarded_torch_device();
  auto const comm = domain.comm();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{3 * comm.num_ranks(), 4});
  Box const local = grown(layout.owned(comm.rank()), std::array<Width, 2>{Width{1, 1}, Width{0, 0}});
  nn::detail::TensorPull const pull(comm, layout, Boundary::uniform(2, Edge::periodic),
                                    std::vector{Target{local, {local}}}, {}, 0);
  auto const first = new_guarded_stream();
  auto const second = new_guarded_stream();
  auto const own =
      torch::arange(double(layout.owned(comm.rank()).lo(0) * 4), double(layout.owned(comm.rank()).hi(0) * 4))
          .view({1, 1, -1, 4});
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

TEST_F(DeviceStreams, that_are_captured_are_refused_on_all_ranks) {
  auto const stream = new_guarded_stream();
  StreamScope const scope(stream);
  nn::HaloExchange halo(options, domain);
  auto const x = part.to(guarded_torch_device());
  if (domain.comm().rank() == 0) test::set_captured(stream, true);

  EXPECT_EQ(rule_of([&] { (void)halo(x); }), "Unsupported");
  test::set_captured(stream, false);
  EXPECT_EQ(rule_of([&] { (void)halo(x); }), "nothing was thrown");
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
    StreamScope const scope(new_guarded_stream());

    auto const found = run(guarded_torch_device());

    EXPECT_TRUE(torch::equal(found[0], expected[0]));
    EXPECT_TRUE(torch::equal(found[1], expected[1]));
  }
}

}  // namespace
}  // namespace graticule
