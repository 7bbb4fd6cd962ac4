// SPDX-License-Identifier: BSD-3-Clause
// Sharded layers on a device, in order of LibTorch's streams: on the guarded device, which no host code can touch and
// whose work runs as late as its stream allows.
#include <graticule/nn_bridge/collective/collectives.hpp>
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
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace graticule {
namespace test_device {

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

/// Bytes that LibTorch copies to the host in a forward and its backward, of all ranks. What the engine stages for
/// messages is not among them.
Index bytes_to_host(test::MadeLayer const& made, Tensor const& part, torch::Device const& device, Comm const& comm) {
  for (auto const* const list : {&made.sharded_parameters, &made.sharded_buffers})
    for (auto tensor : *list) test::move_to(tensor, device);
  auto const x = part.clone().to(device).requires_grad_();
  // The first call makes tables.
  (void)made.sharded(x);
  (void)test::take_tensor_copies();

  auto const y = made.sharded(x);
  y.backward(torch::ones_like(y));

  std::vector<Index> bytes{Index(test::take_tensor_copies().bytes_to_host)};
  comm.sum(bytes);
  return bytes[0];
}

TEST(DeviceLayers, copy_no_field_to_the_host) {
  auto const device = guarded_torch_device();
  std::size_t repeat = 0;
  for (auto const& layer : layer_table()) {
    SCOPED_TRACE(layer.name);
    std::mt19937 random(5);
    auto const domain = domain_of(repeat++, layer);
    auto const whole = random_tensor(random, layer.sizes);
    auto const part = random_part(domain, random, layer.sizes).of(whole);

    auto const bytes = bytes_to_host(layer.make(domain, torch::kDouble), part, device, domain.comm());

    // Tokens of others are passed from rank to rank in host memory.
    if (layer.name == "SelfAttention, ring" && domain.comm().num_ranks() > 1) continue;
    // Norms exchange their statistics: two numbers forward, two backward, of each group of each rank.
    auto const statistics = Index(4 * sizeof(double)) * layer.sizes[0] * layer.sizes[1] * domain.comm().num_ranks();
    EXPECT_LE(bytes, statistics);
    EXPECT_LT(statistics, Index(whole.nbytes()) * domain.comm().num_ranks());
  }
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

TEST(DeviceCollectives, pass_through_pinned_memory_with_the_values_of_the_host) {
  auto const comm = test::world();
  auto const device = guarded_torch_device();
  StreamScope const scope(new_guarded_stream());
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
    EXPECT_EQ(copies.bytes_pageable, given.bytes_pageable);
    EXPECT_TRUE(copies.bytes_to_host > 0 || comm.num_ranks() == 1);
    for (auto const& access : GuardedDevice::instance().take_accesses()) ADD_FAILURE() << access;
  }
}

TEST(DeviceLayers, pass_tokens_through_pinned_memory) {
  auto const device = guarded_torch_device();
  for (auto const& layer : layer_table()) {
    if (layer.name != "SelfAttention, ring") continue;
    std::mt19937 random(5);
    auto const domain = domain_of(0, layer);
    auto const part = random_part(domain, random, layer.sizes).of(random_tensor(random, layer.sizes));
    auto const made = layer.make(domain, torch::kDouble);
    for (auto const* const list : {&made.sharded_parameters, &made.sharded_buffers})
      for (auto tensor : *list) test::move_to(tensor, device);
    auto const x = part.clone().to(device).requires_grad_();
    auto const cotangent = torch::ones_like(made.sharded(x));

    auto const copies = copies_in(domain.comm(), [&] { made.sharded(x).backward(cotangent); });

    EXPECT_EQ(copies.bytes_pageable, 0);
    EXPECT_EQ(copies.bytes_to_host > 0, domain.comm().num_ranks() > 1);
    return;
  }
  FAIL() << "no ring attention in the table";
}

TEST(DeviceLayers, are_found_to_copy_a_field_to_the_host) {
  auto const device = guarded_torch_device();
  auto const x = torch::ones({2, 4, 9, 8}, torch::dtype(torch::kDouble).device(device));
  (void)test::take_tensor_copies();

  auto const y = (x.cpu() * 2).to(device);

  EXPECT_EQ(test::take_tensor_copies().bytes_to_host, long(y.nbytes()));
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
  GuardedDevice::instance().fence_all(0);
  found[1] = Index(GuardedDevice::instance().take_accesses().size());
  comm.barrier();
  comm.sum(found);
  return {found[0], found[1]};
}

/// Sets how ranks of a node reach each other, for plans that are made until its end.
class WithTransport {
 public:
  explicit WithTransport(char const* transport) {
    if (char const* const value = std::getenv(name)) before_ = value;
    setenv(name, transport, 1);
  }
  ~WithTransport() {
    if (before_)
      setenv(name, before_->c_str(), 1);
    else
      unsetenv(name);
  }
  WithTransport(WithTransport const&) = delete;
  WithTransport& operator=(WithTransport const&) = delete;

 private:
  static constexpr char const* name = "GRATICULE_TRANSPORT";
  std::optional<std::string> before_;
};

constexpr std::array transports{"auto", "p2p"};

TEST(DeviceFaults, of_calls_on_tensors_are_none) {
  for (auto const* const transport : transports) {
    WithTransport const with(transport);
    auto const found = calls_with(DeviceFault::none);

    EXPECT_EQ(found.wrong_cells, 0) << transport;
    EXPECT_EQ(found.host_accesses, 0) << transport;
  }
}

TEST(DeviceFaults, that_read_memory_on_the_host_are_found) {
  for (auto const* const transport : transports) {
    WithTransport const with(transport);
    EXPECT_GT(calls_with(DeviceFault::kernels_on_the_host).host_accesses, 0) << transport;
  }
}

TEST(DeviceFaults, that_launch_on_another_queue_are_found) {
  for (auto const* const transport : transports) {
    WithTransport const with(transport);
    EXPECT_GT(calls_with(DeviceFault::kernels_in_own_queue).wrong_cells, 0) << transport;
  }
}

TEST(DeviceFaults, that_unpack_before_the_message_is_there_are_found) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that sends a message";
  for (auto const* const transport : transports) {
    WithTransport const with(transport);
    EXPECT_GT(calls_with(DeviceFault::copies_in_own_queue).wrong_cells, 0) << transport;
  }
}

TEST(DeviceFaults, that_send_before_the_message_is_packed_are_found) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that it sends to";
  for (auto const* const transport : transports) {
    WithTransport const with(transport);
    EXPECT_GT(calls_with(DeviceFault::sent_before_it_is_packed).wrong_cells, 0) << transport;
  }
}

TEST(DeviceFaults, that_reuse_a_buffer_that_is_read_are_found) {
  if (test::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer whose message it buffers";
  WithTransport const with("p2p");

  EXPECT_GT(calls_with(DeviceFault::buffers_reused_too_early).wrong_cells, 0);
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

}  // namespace test_device
}  // namespace graticule
