// SPDX-License-Identifier: BSD-3-Clause
// When units are gathered and released, and how much memory that takes.
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/training/detail/shard_rule.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "expect_error.hpp"
#include "sharded_net.hpp"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace graticule {
namespace test_sharded_schedule {

using Kind = training::ShardedParametersOptions::Event;

struct Event {
  Kind what;
  std::string unit;
  friend bool operator==(Event const&, Event const&) = default;
};

std::size_t place_of(std::vector<Event> const& events, Event const& event) {
  auto const found = std::find(events.begin(), events.end(), event);
  EXPECT_NE(found, events.end()) << int(event.what) << " " << event.unit;
  return std::size_t(found - events.begin());
}

/// Four layers, each a unit.
torch::nn::Sequential make_layers(std::int64_t width, int num_layers = 4) {
  torch::manual_seed(3);
  torch::nn::Sequential layers;
  for (int i = 0; i < num_layers; ++i) layers->push_back(nn::Unit<torch::nn::Linear>(width, width));
  return layers;
}

TEST(ShardedSchedule, gathers_the_next_unit_while_one_runs) {
  auto layers = make_layers(5);
  std::vector<Event> events;
  training::ShardedParameters sharded(layers.ptr(), {Comm::world(), nn::Reduction::mean},
                                      {.on_event = [&](Kind what, std::string const& unit) {
                                        events.push_back({what, unit});
                                      }});
  auto const x = torch::ones({2, 5});
  sharded.forward([&] { return layers->forward(x); }).sum().backward();
  events.clear();

  auto const loss = sharded.forward([&] { return layers->forward(x); }).sum();

  for (int i = 0; i < 3; ++i) {
    auto const unit = std::to_string(i);
    auto const next = std::to_string(i + 1);
    auto const ended = place_of(events, {Kind::forward_ended, unit});
    EXPECT_LT(place_of(events, {Kind::gather_posted, next}), ended) << unit;
    EXPECT_GT(place_of(events, {Kind::gather_waited, next}), ended) << unit;
  }
  events.clear();
  loss.backward();
  for (int i = 3; i > 0; --i) {
    auto const unit = std::to_string(i);
    auto const next = std::to_string(i - 1);
    auto const ended = place_of(events, {Kind::backward_ended, unit});
    EXPECT_LT(place_of(events, {Kind::gather_posted, next}), ended) << unit;
    EXPECT_GT(place_of(events, {Kind::gather_waited, next}), ended) << unit;
    // Gradients are under way while the next unit's backward runs.
    auto const begun = place_of(events, {Kind::backward_begun, next});
    EXPECT_LT(place_of(events, {Kind::gradients_posted, unit}), begun);
    EXPECT_GT(place_of(events, {Kind::gradients_summed, unit}), begun);
  }
  EXPECT_EQ(sharded.stats().gathered_bytes, 0);
}

TEST(ShardedSchedule, gathers_nothing_ahead_when_told_so) {
  auto layers = make_layers(5);
  training::ShardedParameters sharded(layers.ptr(), {Comm::world(), nn::Reduction::mean}, {.num_prefetched = 0});
  for (int i = 0; i < 2; ++i) sharded.forward([&] { return layers->forward(torch::ones({2, 5})); }).sum().backward();
  auto const stats = sharded.stats();
  EXPECT_EQ(stats.gathers_ahead, 0);
  EXPECT_EQ(stats.gathers, 2 * 2 * 4 + 2);  // The model itself has no parameters and is gathered once a forward.
  EXPECT_EQ(stats.scatters, 2 * 4);
  EXPECT_EQ(stats.peak_gathered_bytes, sharded.units().front().bytes);
}

TEST(ShardedSchedule, gathers_ahead_what_is_listed) {
  for (int const num_prefetched : {1, 2}) {
    auto layers = make_layers(5);
    std::vector<Event> events;
    training::ShardedParameters sharded(layers.ptr(), {Comm::world(), nn::Reduction::mean},
                                        {.num_prefetched = num_prefetched,
                                         .ahead_in_forward = {{"0", {"2", "3"}}, {"1", {}}},
                                         .ahead_in_backward = {{"3", {"0"}}},
                                         .on_event = [&](Kind what, std::string const& unit) {
                                           events.push_back({what, unit});
                                         }});

    // What the first pass has shown counts for units that are not listed only.
    for (int pass = 0; pass < 2; ++pass) {
      events.clear();
      auto const loss = sharded.forward([&] { return layers->forward(torch::ones({2, 5})); }).sum();

      auto const begun = place_of(events, {Kind::forward_begun, "0"});
      EXPECT_LT(place_of(events, {Kind::gather_posted, "2"}), begun);
      EXPECT_EQ(place_of(events, {Kind::gather_posted, "3"}) < begun, num_prefetched == 2);
      EXPECT_GT(place_of(events, {Kind::gather_posted, "1"}), begun);
      events.clear();
      loss.backward();
      EXPECT_LT(place_of(events, {Kind::gather_posted, "0"}), place_of(events, {Kind::backward_ended, "3"}));
      // One that is under way already may be all.
      EXPECT_EQ(place_of(events, {Kind::gather_posted, "1"}) < place_of(events, {Kind::backward_ended, "2"}),
                num_prefetched == 2);
    }
    EXPECT_EQ(sharded.stats().gathered_bytes, 0);
  }
}

TEST(ShardedSchedule, refuses_lists_of_what_is_no_unit_and_groups_that_do_not_fit) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  auto const rule = [&](training::ShardedParametersOptions const& options) {
    auto layers = make_layers(5);
    return test::rule_of([&] { training::ShardedParameters(layers.ptr(), {comm, nn::Reduction::mean}, options); });
  };

  EXPECT_EQ(rule({.ahead_in_forward = {{"0", {odd_one ? "4" : "3"}}}}), "UnknownName");
  EXPECT_EQ(rule({.ahead_in_backward = {{odd_one ? "4" : "3", {}}}}), "UnknownName");
  EXPECT_EQ(rule({.ranks_per_group = 0}), "BadOption");
  EXPECT_EQ(rule({.ranks_per_group = comm.num_ranks() + 1}), "BadOption");
  EXPECT_EQ(rule({.between_passes = odd_one ? training::BetweenPasses::in_groups : training::BetweenPasses::kept}),
            comm.num_ranks() > 1 ? "ArgumentDisagreement" : "nothing was thrown");
}

/// Messages of a backward, after a forward, of all ranks.
Index messages_of_backward(training::ShardedParametersOptions const& options) {
  auto layers = make_layers(5);
  training::ShardedParameters sharded(layers.ptr(), {Comm::world(), nn::Reduction::mean}, options);
  auto const loss = sharded.forward([&] { return layers->forward(torch::ones({2, 5})); }).sum();
  auto const before = sharded.stats().messages;
  loss.backward();
  std::array<Index, 1> messages{sharded.stats().messages - before};
  Comm::world().sum(messages);
  return messages[0];
}

TEST(ShardedSchedule, keeps_parts_in_groups_for_the_backward) {
  auto const comm = Comm::world();
  for (int ranks = 1; ranks <= comm.num_ranks(); ++ranks) {
    if (comm.num_ranks() % ranks != 0) continue;
    auto layers = make_layers(5);
    training::ShardedParameters sharded(
        layers.ptr(), {comm, nn::Reduction::mean},
        {.between_passes = training::BetweenPasses::in_groups, .ranks_per_group = ranks});
    auto const forward = [&] { return sharded.forward([&] { return layers->forward(torch::ones({2, 5})); }); };
    auto const mine = training::detail::shard_rows(5, ranks, comm.rank() % ranks).size();
    for (int step = 0; step < 2; ++step) {
      auto const loss = forward().sum();
      // Rows of four weights and biases, of f32.
      EXPECT_EQ(sharded.stats().group_bytes, 4 * mine * (5 + 1) * 4);
      {
        torch::NoGradGuard const no_grad;
        (void)forward();
      }
      loss.backward();
      EXPECT_EQ(sharded.stats().group_bytes, 0);
      EXPECT_EQ(sharded.stats().gathered_bytes, 0);
    }
    EXPECT_EQ(sharded.stats().group_gathers, 2 * 4);
  }

  // Groups of one rank ask no other, the whole team asks as many as without groups.
  auto const kept = messages_of_backward({.between_passes = training::BetweenPasses::kept});
  auto const whole = messages_of_backward({});
  EXPECT_EQ(messages_of_backward({.between_passes = training::BetweenPasses::in_groups}), kept);
  EXPECT_EQ(
      messages_of_backward({.between_passes = training::BetweenPasses::in_groups, .ranks_per_group = comm.num_ranks()}),
      whole);
  EXPECT_EQ(whole > kept, comm.num_ranks() > 1);
}

/// Counts the memory of tensors.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t size) override {
    auto held = std::make_unique<Held>(Held{this, size, inner_->allocate(size)});
    now_ += Index(size);
    peak_ = std::max(peak_, now_);
    auto* const data = held->data.get();
    return {data, held.release(), &CountingAllocator::release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, void const* from, std::size_t count) const override { inner_->copy_data(to, from, count); }

  Index now() const { return now_; }
  Index peak() const { return peak_; }
  void reset_peak() { peak_ = now_; }

 private:
  struct Held {
    CountingAllocator* owner;
    std::size_t size;
    c10::DataPtr data;
  };
  static void release(void* context) {
    std::unique_ptr<Held> const held(static_cast<Held*>(context));
    held->owner->now_ -= Index(held->size);
  }

  c10::Allocator* inner_;
  Index now_ = 0;
  Index peak_ = 0;
};

/// Lives as long as the program, because tensors may.
CountingAllocator& counting_allocator() {
  static auto* const counting = new CountingAllocator(c10::GetCPUAllocator());
  return *counting;
}

TEST(ShardedSchedule, holds_its_rows_and_the_units_that_run) {
  auto const comm = Comm::world();
  auto& memory = counting_allocator();
  auto* const plain = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&memory, 100);
  constexpr std::int64_t width = 192;
  constexpr int num_layers = 8;
  constexpr Index unit = (width + 1) * width * 4;
  constexpr Index model = num_layers * unit;
  constexpr Index slack = Index(64) << 10;  // activations of one sample, packed biases
  {
    auto const before = memory.now();
    auto layers = make_layers(width, num_layers);
    auto const x = torch::ones({1, width});
    training::ShardedParameters sharded(layers.ptr(), {comm, nn::Reduction::mean});
    torch::optim::SGD optimizer(sharded.parameters(), 0.01);
    auto const run = [&] { return sharded.forward([&] { return layers->forward(x); }); };
    auto const rows = (width + comm.num_ranks() - 1) / comm.num_ranks() * (width + 1) * 4 * num_layers;

    EXPECT_LE(memory.now() - before, rows + slack);

    for (int i = 0; i < 2; ++i) {
      torch::NoGradGuard const no_grad;
      memory.reset_peak();
      (void)run();
    }
    auto const forward = memory.peak() - before;
    // The unit that runs, and the next one.
    EXPECT_LE(forward, rows + 2 * unit + slack);

    for (int i = 0; i < 2; ++i) {
      memory.reset_peak();
      run().sum().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    auto const training = memory.peak() - before;
    // Rows and their gradients; two units whole, whole gradients of two, and those of one from the other ranks.
    EXPECT_LE(training, 2 * rows + 5 * unit + slack);
    EXPECT_EQ(sharded.stats().gathered_bytes, 0);
    EXPECT_LE(sharded.stats().peak_gathered_bytes, 2 * unit);
    if (comm.rank() == 0)
      std::printf("%d ranks: tensors of a model of %.2f MB, cut: at rest %.2f, forward %.2f, training %.2f MB\n",
                  comm.num_ranks(), double(model) / 1e6, double(memory.now() - before) / 1e6, double(forward) / 1e6,
                  double(training) / 1e6);
  }
  c10::SetCPUAllocator(plain, 100);
}

double norm_of(nn::NamedTensors const& tensors) {
  double sum = 0;
  for (auto const& [name, tensor] : tensors)
    if (tensor.grad().defined()) sum += tensor.grad().square().sum().item<double>();
  return sum;
}

/// Gradients by both models, of whatever `run` returns, must be alike.
template <class Run>
void expect_same_gradients_with(training::ShardedParametersOptions const& options, Run&& run) {
  auto const comm = Comm::world();
  auto serial = test::make_net();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean}, options);

  run(serial, [](auto&& call) { return call(); });
  run(net, [&](auto&& call) { return sharded.forward(call); });

  auto const expected = test::gradients_of(nn::parameters_of(*serial));
  auto const found = test::gradients_of(sharded.named_parameters());
  EXPECT_GT(norm_of(nn::parameters_of(*serial)), 0);
  EXPECT_LT(test::difference(found, test::rows_of(expected, comm)), 1e-13);
  EXPECT_EQ(sharded.stats().gathered_bytes, 0);
}

template <class Run>
void expect_same_gradients(Run&& run) {
  int const num_ranks = Comm::world().num_ranks();
  expect_same_gradients_with({}, run);
  for (int const ranks_per_group : {1, num_ranks % 2 == 0 ? num_ranks / 2 : num_ranks})
    expect_same_gradients_with({.between_passes = training::BetweenPasses::in_groups,
                                .root_between_passes = training::BetweenPasses::in_groups,
                                .ranks_per_group = ranks_per_group},
                               run);
}

TEST(ShardedSchedule, takes_two_graphs_at_a_time) {
  expect_same_gradients([](test::ShardedNet& net, auto&& forward) {
    auto const a = test::make_batch(0);
    auto const b = test::make_batch(1);
    auto const first = forward([&] { return net->forward(a.x); });
    auto const second = forward([&] { return net->forward(b.x); });
    (first - a.y).square().sum().backward();
    (second - b.y).square().sum().backward();
  });
}

TEST(ShardedSchedule, takes_two_backwards_of_one_graph) {
  expect_same_gradients([](test::ShardedNet& net, auto&& forward) {
    auto const a = test::make_batch(0);
    auto const loss = (forward([&] { return net->forward(a.x); }) - a.y).square().sum();
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
  });
}

TEST(ShardedSchedule, takes_units_that_run_again_in_the_backward) {
  nn::Domain const alone(Comm(MPI_COMM_SELF), ProcessGrid{1, 1}, Boundary::sphere(Edge::pole_row));
  expect_same_gradients([&](test::ShardedNet& net, auto&& forward) {
    auto const a = test::make_batch(0);
    auto const y = forward([&] {
      auto const words = net->words(a.x);
      auto const hidden = nn::checkpoint(
          alone, [&](nn::Tensors const& in) { return nn::Tensors{net->first(net->first(in[0]))}; }, {words});
      return net->head(net->layers->forward(hidden[0])) * net->gain;
    });
    (y - a.y).square().sum().backward();
  });
}

TEST(ShardedSchedule, takes_inputs_that_are_leaves_and_models_that_are_units) {
  auto const comm = Comm::world();
  torch::manual_seed(1);
  nn::Unit<test::Block> serial(4);
  torch::manual_seed(1);
  nn::Unit<test::Block> block(4);
  training::ShardedParameters sharded(block.ptr(), {comm, nn::Reduction::mean});
  auto const x = torch::ones({2, 4}).requires_grad_();
  auto const x_of_serial = torch::ones({2, 4}).requires_grad_();

  serial(x_of_serial).square().sum().backward();
  block(x).square().sum().backward();

  EXPECT_TRUE(torch::allclose(x.grad(), x_of_serial.grad()));
  nn::NamedTensors expected;
  nn::NamedTensors found;
  for (auto const& [name, tensor] : nn::parameters_of(*serial)) expected.emplace_back(name, tensor.grad());
  for (auto const& [name, tensor] : sharded.named_parameters()) found.emplace_back(name, tensor.grad());
  EXPECT_LT(test::difference(found, test::rows_of(expected, comm)), 1e-5);
}

TEST(ShardedSchedule, takes_changes_of_the_rows_between_forwards) {
  auto const comm = Comm::world();
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean},
                                      {.between_passes = training::BetweenPasses::kept});
  auto const x = torch::arange(3);
  auto const run = [&] { return sharded.forward([&] { return net->forward(x); }); };
  // Parameters that were kept for a backward that never came.
  auto const before = run();
  {
    torch::NoGradGuard const no_grad;
    for (auto& [name, shard] : sharded.named_parameters())
      if (name == "gain") torch::Tensor(shard).mul_(2);
  }
  EXPECT_TRUE(torch::allclose(run(), 2 * before));
}

}  // namespace test_sharded_schedule
}  // namespace graticule
