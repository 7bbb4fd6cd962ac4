// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/daso/schedule.hpp>
#include <graticule/training/detail/daso_schedule.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace graticule {
namespace test_schedule {

using test::rule_of;
using Action = training::DasoSchedule::Action;
using training::DasoArithmetic;
using training::DasoSchedule;
using training::DasoScheduleOptions;
using Kind = Action::Kind;

/// `S0.1` sends from group 0 with weight 1, `B` in a blocking phase; `M0.1` merges, `R0` replaces, `H0` shares.
std::string text_of(std::vector<Action> const& actions) {
  std::string text;
  for (auto const& action : actions) {
    auto const group = std::to_string(action.group);
    auto const weight = "." + std::to_string(action.weight);
    if (!text.empty()) text += ' ';
    switch (action.kind) {
      case Kind::send:
        text += (action.phase == training::DasoSchedule::Phase::blocking ? "B" : "S") + group + weight;
        break;
      case Kind::merge: text += "M" + group + weight; break;
      case Kind::replace: text += "R" + group; break;
      case Kind::share: text += "H" + group; break;
    }
  }
  return text;
}

/// The actions of each batch, then `+` where the next backward averages gradients within nodes, else `-`.
std::vector<std::string> epoch_of(DasoSchedule& schedule, Index num_batches) {
  schedule.set_last_batch(num_batches - 1);
  std::vector<std::string> lines;
  for (Index b = 0; b < num_batches; ++b) {
    auto const text = text_of(schedule.step());
    lines.push_back(text + (text.empty() ? "" : " ") + (schedule.local_sync() ? "+" : "-"));
  }
  return lines;
}

using Skips = std::array<Index, 3>;

Skips skips_of(DasoSchedule const& schedule) {
  return {schedule.global_skip(), schedule.local_skip(), schedule.batches_to_wait()};
}

/// Skips after each epoch of one batch and of a loss that never changes.
std::vector<Skips> skips_after_epochs(DasoScheduleOptions const& options) {
  DasoSchedule schedule(options, 1);
  schedule.set_last_batch(0);
  std::vector<Skips> result{skips_of(schedule)};
  for (Index epoch = 0; epoch < options.total_epochs; ++epoch) {
    (void)schedule.step();
    schedule.epoch_loss(1.0);
    result.push_back(skips_of(schedule));
  }
  return result;
}

/// A schedule with such skips, of `num_groups` groups.
DasoSchedule with_skips(Skips const& skips, int num_groups) {
  DasoSchedule schedule({.total_epochs = 100}, num_groups);
  auto state = schedule.state();
  state["global_skip"] = skips[0];
  state["local_skip"] = skips[1];
  state["batches_to_wait"] = skips[2];
  schedule.load_state(state);
  return schedule;
}

TEST(DasoSchedule, averages_over_nodes_after_every_batch_of_warm_up_with_groups_in_turn) {
  for (auto const arithmetic : {DasoArithmetic::bounded, DasoArithmetic::heat}) {
    DasoSchedule schedule({.total_epochs = 10, .arithmetic = arithmetic}, 2);
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(epoch_of(schedule, 3), (std::vector<std::string>{"B0.0 R0 H0 +", "B1.0 R1 H1 +", "B0.0 R0 H0 +"}));
      schedule.epoch_loss(1.0);
    }
  }
}

// Traces by hand from the rules of the paper's algorithm.
TEST(DasoSchedule, follows_the_trace_of_global_skip_4) {
  auto schedule = with_skips({4, 1, 1}, 2);

  EXPECT_EQ(epoch_of(schedule, 10), (std::vector<std::string>{"S0.1 +", "M0.1 H0 +", "+", "+", "S1.1 H0 +", "M1.1 H1 +",
                                                              "+", "+", "S0.1 H1 +", "S1.0 M0.1 H0 R1 H1 +"}));
  EXPECT_EQ(epoch_of(schedule, 2), (std::vector<std::string>{"S0.1 +", "S1.0 M0.1 H0 R1 H1 +"}));
}

TEST(DasoSchedule, follows_the_trace_of_global_skip_8_with_local_skips) {
  auto schedule = with_skips({8, 2, 2}, 3);

  EXPECT_EQ(epoch_of(schedule, 12), (std::vector<std::string>{"S0.2 +", "+", "M0.2 H0 -", "+", "-", "+", "-", "+",
                                                              "S1.2 H0 +", "+", "+", "S2.0 M1.2 H1 R2 H2 +"}));
}

TEST(DasoSchedule, follows_the_trace_of_global_skips_2_and_1) {
  auto two = with_skips({2, 1, 1}, 2);
  EXPECT_EQ(epoch_of(two, 6),
            (std::vector<std::string>{"S0.1 +", "+", "S1.1 M0.1 H0 +", "+", "S0.1 M1.1 H1 +", "S1.0 M0.1 H0 R1 H1 +"}));
  auto one = with_skips({1, 1, 1}, 1);
  EXPECT_EQ(epoch_of(one, 4),
            (std::vector<std::string>{"S0.1 +", "S0.1 M0.1 H0 +", "S0.1 M0.1 H0 +", "S0.0 M0.1 H0 R0 H0 +"}));
}

TEST(DasoSchedule, synchronises_at_the_end_of_an_epoch_of_one_batch) {
  auto schedule = with_skips({8, 2, 2}, 2);

  EXPECT_EQ(epoch_of(schedule, 1), (std::vector<std::string>{"S0.0 R0 H0 +"}));
  EXPECT_EQ(schedule.epoch(), 1);
  EXPECT_EQ(schedule.batch(), 0);
}

TEST(DasoSchedule, warms_up_cycles_at_plateaus_and_cools_down) {
  for (auto const arithmetic : {DasoArithmetic::bounded, DasoArithmetic::heat}) {
    auto const found = skips_after_epochs(
        {.total_epochs = 20, .warmup_epochs = 1, .cooldown_epochs = 1, .patience = 2, .arithmetic = arithmetic});

    std::vector<Skips> expected{{0, 0, 0}};
    for (auto const& [skips, times] : std::vector<std::pair<Skips, int>>{{{4, 1, 1}, 3},
                                                                         {{2, 1, 1}, 3},
                                                                         {{1, 1, 1}, 3},
                                                                         {{8, 2, 2}, 3},
                                                                         {{4, 1, 1}, 3},
                                                                         {{2, 1, 1}, 3},
                                                                         {{0, 0, 0}, 2}})
      expected.insert(expected.end(), std::size_t(times), skips);
    EXPECT_EQ(found, expected);
  }
}

TEST(DasoSchedule, keeps_skips_in_bounds_where_heat_leaves_them) {
  auto const after_plateaus = [](DasoScheduleOptions options, DasoArithmetic arithmetic) {
    options.arithmetic = arithmetic;
    auto all = skips_after_epochs(options);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  };
  using All = std::vector<Skips>;
  // The largest skip is less than the local skip factor.
  DasoScheduleOptions const small{
      .total_epochs = 9, .warmup_epochs = 1, .cooldown_epochs = 0, .patience = 0, .max_global_skips = 2};
  EXPECT_EQ(after_plateaus(small, DasoArithmetic::heat), (All{{0, 0, 0},
                                                              {4, 1, 1},
                                                              {2, 1, 1},
                                                              {1, 1, 1},
                                                              {2, 0, 0},
                                                              {1, 1, -1},
                                                              {2, 0, 0},
                                                              {1, 1, -1},
                                                              {2, 0, 0},
                                                              {0, 0, 0}}));
  EXPECT_EQ(after_plateaus(small, DasoArithmetic::bounded), (All{{0, 0, 0},
                                                                 {2, 1, 1},
                                                                 {1, 1, 1},
                                                                 {2, 1, 1},
                                                                 {1, 1, 1},
                                                                 {2, 1, 1},
                                                                 {1, 1, 1},
                                                                 {2, 1, 1},
                                                                 {1, 1, 1},
                                                                 {0, 0, 0}}));
  // A factor that divides the skips to 0.
  DasoScheduleOptions const steep{
      .total_epochs = 4, .warmup_epochs = 1, .cooldown_epochs = 0, .patience = 0, .skip_reduction_factor = 16};
  EXPECT_EQ(after_plateaus(steep, DasoArithmetic::heat), (All{{0, 0, 0}, {4, 1, 1}, {0, 0, 0}}));
  EXPECT_EQ(after_plateaus(steep, DasoArithmetic::bounded),
            (All{{0, 0, 0}, {4, 1, 1}, {1, 1, 1}, {8, 2, 2}, {0, 0, 0}}));
  // No warm-up.
  DasoScheduleOptions const cold{.total_epochs = 3, .warmup_epochs = 0, .cooldown_epochs = 1};
  EXPECT_EQ(after_plateaus(cold, DasoArithmetic::heat), (All{{0, 0, 0}}));
  EXPECT_EQ(after_plateaus(cold, DasoArithmetic::bounded), (All{{4, 1, 1}, {0, 0, 0}}));
}

TEST(DasoSchedule, mixes_each_message_in_once_and_at_most_a_global_skip_after_it_was_sent) {
  std::mt19937 random(5);
  auto const draw = [&](Index low, Index high) { return low + Index(random() % std::uint32_t(high - low + 1)); };
  Index num_merged = 0;
  for (int repeat = 0; repeat < 500; ++repeat) {
    Index const global = draw(0, 9);
    Index const wait = global == 0 ? 0 : draw(1, global);
    auto const num_groups = int(draw(1, 4));
    auto schedule = with_skips({global, global == 0 ? 0 : draw(1, 5), wait}, num_groups);
    Index const num_batches = draw(1, 30);
    schedule.set_last_batch(num_batches - 1);
    std::map<Index, Action> on_their_way;
    for (Index b = 0; b < num_batches; ++b) {
      bool const synced = schedule.local_sync();
      for (auto const& action : schedule.step()) {
        if (action.kind == Kind::send) {
          EXPECT_TRUE(synced);
          on_their_way.emplace(b, action);
        }
        if (action.kind != Kind::merge && action.kind != Kind::replace) continue;
        ASSERT_FALSE(on_their_way.empty());
        auto const message = action.kind == Kind::merge ? on_their_way.begin() : std::prev(on_their_way.end());
        EXPECT_EQ(message->second.group, action.group);
        EXPECT_LE(b - message->first, global);
        if (action.kind == Kind::merge) {
          EXPECT_EQ(message->second.weight, action.weight);
          ++num_merged;
        } else {
          EXPECT_EQ(message->first, b);
        }
        on_their_way.erase(message);
      }
      EXPECT_LE(on_their_way.size(), 1U);
      EXPECT_EQ(schedule.drained(), on_their_way.empty());
    }
    EXPECT_TRUE(on_their_way.empty());
    EXPECT_TRUE(schedule.local_sync());
  }
  EXPECT_GT(num_merged, 500);
}

TEST(DasoSchedule, goes_on_from_a_saved_state_as_it_would_have) {
  DasoScheduleOptions const options{.total_epochs = 12, .warmup_epochs = 2, .cooldown_epochs = 2, .patience = 0};
  constexpr Index num_batches = 7;
  for (Index cut = 0; cut < options.total_epochs * num_batches; ++cut) {
    DasoSchedule whole(options, 3);
    DasoSchedule resumed(options, 3);
    whole.set_last_batch(num_batches - 1);
    for (Index at = 0; at < options.total_epochs * num_batches; ++at) {
      if (at == cut) {
        auto const drained = whole.drain();
        EXPECT_TRUE(whole.drained());
        EXPECT_EQ(whole.drain(), std::vector<Action>{});
        EXPECT_TRUE(drained.empty() ||
                    (drained.size() == 2 && drained[0].kind == Kind::merge && drained[1].kind == Kind::share));
        resumed.load_state(whole.state());
      }
      auto const expected = text_of(whole.step());
      if (at >= cut) {
        ASSERT_EQ(text_of(resumed.step()), expected) << "saved before " << cut << ", step " << at;
        ASSERT_EQ(resumed.local_sync(), whole.local_sync());
      }
      if (whole.batch() != 0) continue;
      whole.epoch_loss(1.0);
      if (at >= cut) resumed.epoch_loss(1.0);
      if (at >= cut) {
        ASSERT_EQ(skips_of(resumed), skips_of(whole));
      }
    }
  }
}

TEST(DasoSchedule, takes_states_of_more_groups_in_turn) {
  DasoSchedule many({.total_epochs = 9}, 4);
  many.set_last_batch(9);
  for (int b = 0; b < 3; ++b) (void)many.step();
  DasoSchedule few({.total_epochs = 9}, 2);

  few.load_state(many.state());

  EXPECT_EQ(text_of(few.step()), "B1.0 R1 H1");
}

TEST(DasoSchedule, refuses_bad_options) {
  auto const rule = [](DasoScheduleOptions options, int num_groups = 1) {
    if (options.total_epochs == 0) options.total_epochs = 10;
    return rule_of([&] { DasoSchedule(options, num_groups); });
  };
  EXPECT_EQ(rule({}), "nothing was thrown");
  EXPECT_EQ(rule_of([] { DasoSchedule({}, 1); }), "BadOption");
  EXPECT_EQ(rule({.warmup_epochs = -1}), "BadOption");
  EXPECT_EQ(rule({.cooldown_epochs = -1}), "BadOption");
  EXPECT_EQ(rule({.stability = -1}), "BadOption");
  EXPECT_EQ(rule({.patience = -1}), "BadOption");
  EXPECT_EQ(rule({.max_global_skips = -1}), "BadOption");
  EXPECT_EQ(rule({.skip_reduction_factor = 0}), "BadOption");
  EXPECT_EQ(rule({.local_skip_factor = 0}), "BadOption");
  EXPECT_EQ(rule({}, 0), "BadOption");
  EXPECT_EQ(rule({.warmup_epochs = 6, .cooldown_epochs = 5}), "BadOption");
  EXPECT_EQ(rule({.warmup_epochs = 6, .cooldown_epochs = 5, .arithmetic = DasoArithmetic::heat}), "nothing was thrown");
}

TEST(DasoSchedule, refuses_calls_out_of_order_and_broken_states) {
  auto schedule = with_skips({4, 1, 1}, 2);
  EXPECT_EQ(rule_of([&] { (void)schedule.step(); }), (test::ErrorWith{"WrongState", "before its first step"}));
  EXPECT_EQ(rule_of([&] { schedule.set_last_batch(-1); }), "BadOption");
  schedule.set_last_batch(9);
  (void)schedule.step();
  EXPECT_EQ(rule_of([&] { schedule.set_last_batch(3); }), (test::ErrorWith{"WrongState", "last batch set from"}));
  EXPECT_EQ(rule_of([&] { schedule.epoch_loss(1.0); }), (test::ErrorWith{"WrongState", "ended before batch"}));
  EXPECT_EQ(rule_of([&] { (void)schedule.state(); }), (test::ErrorWith{"WrongState", "in flight"}));
  (void)schedule.drain();
  for (auto const* name : {"epoch", "batch", "last_batch", "global_skip", "group"}) {
    auto state = schedule.state();
    state[name] = Index(-7);
    EXPECT_EQ(rule_of([&] { schedule.load_state(state); }), "BadInput") << name;
    state.erase(name);
    EXPECT_EQ(rule_of([&] { schedule.load_state(state); }), "MissingVariable") << name;
  }
  EXPECT_EQ(schedule.batch(), 1);
}

}  // namespace test_schedule
}  // namespace graticule
