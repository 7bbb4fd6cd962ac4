// SPDX-License-Identifier: BSD-3-Clause
// Small calls with fields that a plan has had before are made from what it keeps of them; the cells, the errors and the
// pairing of calls are as those of the first call.
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using namespace graticule;
using test::draw;
using test::Random;
using test::rule_of;
using test::Trial;

namespace {

double value_of(Indices const& cell, Index batch, int generation) {
  double value = double(generation) + 1000 * double(batch + 1);
  for (int a = 0; a < cell.size(); ++a) value = value * 17 + double(cell[a]);
  return value;
}

/// A dense field [batch, grid axes] in ordinary memory or in memory that peers read in place.
template <class T>
class Array {
 public:
  Array(Box const& box, Index batch, bool node) : box_(box), batch_(batch) {
    auto const count = std::size_t(std::max<Index>(box.num_cells() * batch, 1));
    if (node)
      memory_ = NodeMemory(count * sizeof(T));
    else
      own_.resize(count);
    data_ = node ? memory_.template data<T>() : own_.data();
  }
  [[nodiscard]] FieldView view() const {
    Indices extents{batch_};
    for (int a = 0; a < box_.ndim(); ++a) extents.push_back(box_.extent(a));
    return field_view(data_, extents, box_.ndim());
  }
  template <class Value>
  void set(Value const& value) {
    for_all([&](T& cell, Index b, Indices const& at) { cell = T(value(at, b)); });
  }
  template <class Value>
  void expect(Value const& value) {
    for_all([&](T const& cell, Index b, Indices const& at) {
      ASSERT_EQ(cell, T(value(at, b))) << "cell " << to_string(at) << " of batch element " << b;
    });
  }

 private:
  template <class Visit>
  void for_all(Visit const& visit) {
    if (box_.empty()) return;
    auto* cell = data_;
    for (Index b = 0; b < batch_; ++b) test::for_each_cell(box_, [&](Indices const& at) { visit(*cell++, b, at); });
  }

  Box box_;
  Index batch_;
  NodeMemory memory_;
  std::vector<T> own_;
  T* data_;
};

// What changes between the calls is the same on all ranks, except where the fields of each lie.
TEST(RepeatedCalls, move_each_cell_whatever_changed_between_them) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(810 + std::uint64_t(comm.num_ranks()));
  for (int number = 0; number < test::num_move_trials(comm) && !HasFailure(); ++number) {
    Trial trial(seed, number);
    SCOPED_TRACE(trial.name);
    auto& random = trial.random;
    Random mine(seed * 77 + std::uint64_t(1000 * comm.rank() + number));
    Indices const extents{draw(random, 1, 12), draw(random, 1, 12)};
    auto const from = test::any_layout(random, comm.num_ranks(), extents);
    auto const to = test::any_layout(random, comm.num_ranks(), extents);
    RepartitionPlan const plan(comm, from, to);
    Index const batch = draw(random, 1, 2);
    std::vector<Array<double>> sources;
    std::vector<Array<double>> targets;
    std::vector<Array<float>> narrow;
    for (int i = 0; i < 3; ++i) {
      sources.emplace_back(plan.source_box(), batch, draw(mine, 0, 3) == 0);
      targets.emplace_back(plan.target_box(), batch, draw(mine, 0, 3) == 0);
      narrow.emplace_back(plan.target_box(), batch, false);
    }
    // Too much for a small call.
    Array<double> much(plan.source_box(), 3000, false);
    Array<double> much_moved(plan.target_box(), 3000, false);
    for (int call = 0; call < 50 && !HasFailure(); ++call) {
      SCOPED_TRACE("call " + std::to_string(call));
      auto const value = [&](Indices const& cell, Index b) { return value_of(cell, b, call); };
      auto const other_value = [&](Indices const& cell, Index b) { return value_of(cell, b, -call); };
      auto const s = std::size_t(draw(random, 0, 2));
      auto const t = std::size_t(draw(random, 0, 2));
      auto const u = (t + 1) % 3;
      sources[s].set(value);
      targets[t].set([](Indices const&, Index) { return -1; });
      switch (draw(random, 0, 7)) {
        case 0: {
          auto pending = plan.start(sources[s].view(), targets[t].view());
          pending.wait();
          break;
        }
        case 1: {  // two in flight, ended in any order
          auto const other = (s + 1) % 3;
          sources[other].set(other_value);
          auto first = plan.start(sources[s].view(), targets[t].view());
          auto second = plan.start(sources[other].view(), targets[u].view());
          if (draw(mine, 0, 1) == 0) first.wait();
          second.wait();
          first.wait();
          targets[u].expect(other_value);
          break;
        }
        case 2: {  // a large call before a small one, or after it
          bool const before = draw(random, 0, 1) == 0;
          much.set(other_value);
          auto large = before ? plan.start(much.view(), much_moved.view()) : Pending();
          auto small = plan.start(sources[s].view(), targets[t].view());
          if (!before) large = plan.start(much.view(), much_moved.view());
          if (draw(mine, 0, 1) == 0) small.wait();
          large.wait();
          small.wait();
          much_moved.expect(other_value);
          break;
        }
        case 3: {  // other types and factors between
          plan.apply(sources[s].view(), narrow[t].view());
          narrow[t].expect(value);
          plan.apply(sources[s].view(), targets[t].view(), {.alpha = 2});
          targets[t].expect([&](Indices const& cell, Index b) { return 2 * value(cell, b); });
          plan.apply(sources[s].view(), targets[t].view());
          break;
        }
        case 4: {
          plan.apply(sources[s].view(), targets[t].view());
          plan.apply_adjoint(sources[s].view(), targets[t].view());
          break;
        }
        case 5: {  // a call that one rank polls
          auto pending = plan.start(sources[s].view(), targets[t].view());
          if (draw(mine, 0, 1) == 0)
            while (!pending.test()) std::this_thread::yield();
          pending.wait();
          break;
        }
        default: plan.apply(sources[s].view(), targets[t].view());
      }
      targets[t].expect(value);
    }
  }
}

TEST(RepeatedCalls, that_a_rank_refuses_or_makes_with_other_fields_end_and_the_next_ones_pair) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "needs a peer";
  Indices const extents{6, 12};
  RepartitionPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, extents),
                             Layout(ProcessGrid{1, comm.num_ranks()}, extents));
  Array<double> source(plan.source_box(), 1, false);
  Array<double> target(plan.target_box(), 1, false);
  Array<float> source32(plan.source_box(), 1, false);
  Array<float> target32(plan.target_box(), 1, false);
  Array<double> deep(plan.source_box(), 900, false);
  Array<double> deep_target(plan.target_box(), 900, false);
  for (int round = 0; round < 6; ++round) {
    for (int call = 0; call < 5; ++call) {
      auto const value = [&](Indices const& cell, Index b) { return value_of(cell, b, 10 * round + call); };
      source.set(value);
      plan.apply(source.view(), target.view());
      target.expect(value);
    }
    bool const odd_one = comm.rank() == round % comm.num_ranks();
    auto const rule = rule_of([&] {
      if (!odd_one) return plan.apply(source.view(), target.view());
      auto wrong = source.view();
      ++wrong.extents[1];
      if (round < 2) return plan.apply(wrong, target.view());
      if (round < 4) return plan.apply(source32.view(), target32.view());
      plan.apply(deep.view(), deep_target.view());
    });
    EXPECT_EQ(rule, round < 2 && !odd_one ? "PeerRefused" : "FieldMismatch") << "round " << round;
  }
  auto const value = [&](Indices const& cell, Index b) { return value_of(cell, b, 99); };
  source.set(value);
  plan.apply(source.view(), target.view());
  target.expect(value);
}

// A rank that only sends may be ahead of one that only receives by more calls than there are places for messages.
TEST(RepeatedCalls, of_a_rank_that_only_sends_arrive_one_by_one) {
  auto const comm = Comm::world();
  Indices const extents{8};
  int const last = comm.num_ranks() - 1;
  auto const all_on = [&](int rank) {
    std::vector<Box> boxes(std::size_t(comm.num_ranks()), Box::from_extents({0}));
    boxes[std::size_t(rank)] = Box::from_extents(extents);
    return Layout::from_boxes(extents, boxes);
  };
  RepartitionPlan const plan(comm, all_on(0), all_on(last));
  Array<double> source(plan.source_box(), 1, false);
  Array<double> target(plan.target_box(), 1, false);
  for (int call = 0; call < 60 && !HasFailure(); ++call) {
    auto const value = [&](Indices const& cell, Index b) { return value_of(cell, b, call); };
    source.set(value);
    if (comm.rank() == last && call % 20 == 10) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    plan.apply(source.view(), target.view());
    target.expect(value);
  }
}

}  // namespace
