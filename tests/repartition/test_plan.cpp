// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves/moves_support.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::MemoryShape;
using test::numbered;
using test::Random;
using test::random_batch;
using test::rule_of;
using test::TestField;
using test::thrown_by;

namespace {

/// Two layouts of one grid, the second with its axes permuted.
struct Pair {
  Indices permutation;
  Layout from;
  Layout to;
};

Pair random_pair(Random& random, int num_ranks) {
  int const ndim = int(draw(random, 1, 3));
  auto const extents = test::random_extents(random, ndim, ndim == 1 ? 20 : 7);
  auto const permutation = test::random_permutation(random, ndim);
  auto permuted = extents;
  for (int a = 0; a < ndim; ++a) permuted[a] = extents[int(permutation[a])];
  return {permutation, test::random_layout(random, num_ranks, extents),
          test::random_layout(random, num_ranks, permuted)};
}

/// The cell of the old layout that becomes `cell` of the new one.
Indices before_permutation(Indices const& cell, Indices const& permutation) {
  auto result = cell;
  for (int a = 0; a < cell.size(); ++a) result[int(permutation[a])] = cell[a];
  return result;
}

template <class T>
void expect_every_cell_moved(Random& random, RepartitionPlan const& plan, Indices const& permutation, DType dtype) {
  test::expect_moved<T>(
      random, plan, [&](Indices const& cell) { return before_permutation(cell, permutation); }, dtype);
}

int num_trials(Comm const& comm) { return comm.num_ranks() == 1 ? 50 : comm.num_ranks() == 2 ? 20 : 10; }

TEST(RepartitionPlan, moves_every_cell_of_every_type_between_random_layouts) {
  Random random(17);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const pair = random_pair(random, comm.num_ranks());
    SCOPED_TRACE(to_string(pair.from) + " to " + to_string(pair.to) + " by " + to_string(pair.permutation));
    RepartitionPlan const plan(comm, pair.from, pair.to, {.permutation = pair.permutation});
    ASSERT_EQ(plan.source_box(), pair.from.owned(comm.rank()));
    ASSERT_EQ(plan.target_box(), pair.to.owned(comm.rank()));

    expect_every_cell_moved<double>(random, plan, pair.permutation, DType::f64);
    switch (trial % 10) {
      case 0: expect_every_cell_moved<std::uint8_t>(random, plan, pair.permutation, DType::u8); break;
      case 1: expect_every_cell_moved<std::int8_t>(random, plan, pair.permutation, DType::i8); break;
      case 2: expect_every_cell_moved<std::int16_t>(random, plan, pair.permutation, DType::i16); break;
      case 3: expect_every_cell_moved<std::uint16_t>(random, plan, pair.permutation, DType::f16); break;
      case 4: expect_every_cell_moved<std::uint16_t>(random, plan, pair.permutation, DType::bf16); break;
      case 5: expect_every_cell_moved<std::int32_t>(random, plan, pair.permutation, DType::i32); break;
      case 6: expect_every_cell_moved<std::int64_t>(random, plan, pair.permutation, DType::i64); break;
      case 7: expect_every_cell_moved<float>(random, plan, pair.permutation, DType::f32); break;
      case 8: expect_every_cell_moved<std::complex<float>>(random, plan, pair.permutation, DType::c64); break;
      default: expect_every_cell_moved<std::complex<double>>(random, plan, pair.permutation, DType::c128);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RepartitionPlan, back_and_forth_is_the_identity) {
  Random random(23);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const pair = random_pair(random, comm.num_ranks());
    auto inverse = pair.permutation;
    for (int a = 0; a < inverse.size(); ++a) inverse[int(pair.permutation[a])] = a;
    auto const batch = random_batch(random);
    auto const shape = MemoryShape::random(random, pair.from.ndim(), batch.size());
    RepartitionPlan const there(comm, pair.from, pair.to, {.permutation = pair.permutation});
    RepartitionPlan const back(comm, pair.to, pair.from, {.permutation = inverse});
    auto a = numbered<double>(there.source_box(), batch, shape);
    TestField<double> b(there.target_box(), batch, MemoryShape::dense(pair.to.ndim(), batch.size()), -1);
    auto returned = a;
    returned.set(there.source_box(), [](auto const&, auto const&) { return -2.0; });

    there.apply(a.view(), b.view());
    back.apply(b.view(), returned.view());

    ASSERT_TRUE(returned.holds(a)) << to_string(pair.from) << " by " << to_string(pair.to);
  }
}

TEST(RepartitionPlan, adjoint_adds_every_cell_to_where_it_came_from) {
  Random random(29);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const pair = random_pair(random, comm.num_ranks());
    auto const batch = random_batch(random);
    RepartitionPlan const plan(comm, pair.from, pair.to, {.permutation = pair.permutation});
    TestField<double> from(plan.source_box(), batch, MemoryShape::random(random, pair.from.ndim(), batch.size()), 0.5);
    TestField<double> to(plan.target_box(), batch,
                         MemoryShape::random(random, pair.to.ndim(), batch.size()).run_backwards_at_random(random),
                         0.25);
    auto const number = [](auto const& b, auto const& cell) { return double(bits_of<std::int16_t>(b, cell)); };
    from.set(plan.source_box(),
             [](auto const& b, auto const& cell) { return double(bits_of<std::int16_t>(b, cell, 9)); });
    to.set(plan.target_box(), number);
    auto const to_before = to;
    auto expected = from;
    // Where cell c of the old layout went: the permutation read the other way.
    expected.set(plan.source_box(), [&](auto const& b, auto const& cell) {
      auto moved = cell;
      for (int a = 0; a < cell.size(); ++a) moved[a] = cell[int(pair.permutation[a])];
      return from.at(b, cell) + number(b, moved);
    });

    plan.apply_adjoint(from.view(), to.view());

    ASSERT_TRUE(from.holds(expected)) << to_string(pair.from) << " by " << to_string(pair.to);
    ASSERT_TRUE(to.holds(to_before));
  }
}

TEST(RepartitionPlan, to_the_same_layout_sends_nothing) {
  Random random(31);
  auto const comm = Comm::world();
  auto const layout = test::random_grid_layout(random, comm.num_ranks(), {9, 5});
  RepartitionPlan const plan(comm, layout, layout);
  auto a = numbered<float>(plan.source_box(), {2}, MemoryShape::dense(2, 1));
  TestField<float> b(plan.target_box(), {2}, MemoryShape::dense(2, 1), bits_of<float>({}, {}, 1));

  plan.apply(a.view(), b.view());

  EXPECT_TRUE(b.holds(a));
  EXPECT_EQ(plan.counts().num_send_peers, 0);
  EXPECT_EQ(plan.counts().num_receive_peers, 0);
  EXPECT_EQ(plan.counts().local_cells, plan.source_box().num_cells());
}

TEST(RepartitionPlan, counts_what_it_moves) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{7, 11});
  Layout const columns(ProcessGrid{1, n}, Indices{7, 11});
  RepartitionPlan const plan(comm, rows, columns);

  auto const counts = plan.counts();

  Index const kept = intersection(plan.source_box(), plan.target_box()).num_cells();
  EXPECT_EQ(counts.local_cells, kept);
  EXPECT_EQ(counts.send_cells, plan.source_box().num_cells() - kept);
  EXPECT_EQ(counts.receive_cells, plan.target_box().num_cells() - kept);
  EXPECT_EQ(counts.num_send_peers, n - 1);
  EXPECT_EQ(counts.num_receive_peers, n - 1);
  EXPECT_EQ(counts.filled_cells, 0);
}

TEST(RepartitionPlan, several_calls_may_be_in_flight_and_end_in_any_order) {
  Random random(37);
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{5, 6});
  auto const boxes = test::random_box_layout(random, comm.num_ranks(), {5, 6});
  RepartitionPlan const plan(comm, rows, boxes);
  constexpr int num_calls = 4;
  for (int round = 0; round < 3; ++round) {
    std::vector<TestField<std::int64_t>> from;
    std::vector<TestField<std::int64_t>> to;
    std::vector<TestField<std::int64_t>> expected;
    for (int c = 0; c < num_calls; ++c) {
      std::uint64_t const salt = std::uint64_t(c + 10 * round);
      auto const value = [&](auto const& b, auto const& cell) { return bits_of<std::int64_t>(b, cell, salt); };
      // Calls of one size and of different sizes, so that messages would be mistaken for one another.
      Indices const batch{c % 2 == 0 ? 3 : c};
      from.emplace_back(plan.source_box(), batch, MemoryShape::dense(2, 1), -1);
      to.emplace_back(plan.target_box(), batch, MemoryShape::dense(2, 1), -2);
      expected.push_back(to.back());
      from.back().set(plan.source_box(), value);
      expected.back().set(plan.target_box(), value);
    }
    std::vector<Pending> pending;
    for (std::size_t c = 0; c < num_calls; ++c) pending.push_back(plan.start(from[c].view(), to[c].view()));
    // Every rank ends the calls in its own order.
    std::vector<std::size_t> order{0, 1, 2, 3};
    for (int turn = 0; turn < comm.rank() + round; ++turn) std::next_permutation(order.begin(), order.end());
    if (comm.rank() % 2 == 1) std::reverse(order.begin(), order.end());
    for (auto const c : order) pending[c].wait();

    for (std::size_t c = 0; c < num_calls; ++c) EXPECT_TRUE(to[c].holds(expected[c])) << "call " << c;
  }
}

TEST(RepartitionPlan, a_pending_call_outlives_its_plan_and_ends_when_dropped) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{5, 6});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{5, 6});
  Box const source = rows.owned(comm.rank());
  Box const target = columns.owned(comm.rank());
  auto from = numbered<double>(source, {}, MemoryShape::dense(2, 0));
  TestField<double> waited(target, {}, MemoryShape::dense(2, 0), 0);
  auto dropped = waited;
  auto expected = waited;
  expected.set(target, [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });

  Pending pending;
  EXPECT_FALSE(pending.active());
  {
    RepartitionPlan const plan(comm, rows, columns);
    pending = plan.start(from.view(), waited.view());
    auto const other = plan.start(from.view(), dropped.view());
  }
  EXPECT_TRUE(pending.active());
  Pending moved = std::move(pending);
  moved.wait();
  moved.wait();

  EXPECT_FALSE(moved.active());
  EXPECT_TRUE(waited.holds(expected));
  EXPECT_TRUE(dropped.holds(expected));
}

TEST(RepartitionPlan, test_becomes_true_and_wait_then_unpacks) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{5, 6});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{5, 6});
  RepartitionPlan const plan(comm, rows, columns);
  auto from = numbered<double>(plan.source_box(), {}, MemoryShape::dense(2, 0));
  TestField<double> to(plan.target_box(), {}, MemoryShape::dense(2, 0), 0);
  auto expected = to;
  expected.set(plan.target_box(), [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });

  for (int repeat = 0; repeat < 2; ++repeat) {
    to.set(plan.target_box(), [](auto const&, auto const&) { return 0.0; });
    auto pending = plan.start(from.view(), to.view());
    while (!pending.test()) std::this_thread::yield();
    pending.wait();

    EXPECT_TRUE(to.holds(expected));
    EXPECT_TRUE(pending.test());
  }
}

TEST(RepartitionPlan, refuses_layouts_that_do_not_match_on_all_ranks) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{6, 4});
  auto const rule = [&](Layout const& to, Indices const& permutation) {
    return rule_of([&] { RepartitionPlan(comm, layout, to, {.permutation = permutation}); });
  };

  EXPECT_EQ(rule(Layout(ProcessGrid{n, 1}, Indices{6, 5}), {}), "LayoutMismatch");
  EXPECT_EQ(rule(Layout(ProcessGrid{n, 1}, Indices{4, 6}), {}), "LayoutMismatch");
  EXPECT_EQ(rule(Layout(ProcessGrid{n, 1}, Indices{6, 4}), {1, 0}), "LayoutMismatch");
  EXPECT_EQ(rule(Layout(ProcessGrid{n}, Indices{24}), {}), "LayoutMismatch");
  EXPECT_EQ(rule(layout, {0}), "LayoutMismatch");
  EXPECT_EQ(rule(layout, {0, 0}), "AxesMismatch");
  EXPECT_EQ(rule(layout, {0, 2}), "AxesMismatch");
  EXPECT_EQ(rule(layout, {-1, 0}), "AxesMismatch");
  EXPECT_EQ(rule(Layout(ProcessGrid{n + 1, 1}, Indices{6, 4}), {}), "BadProcessGrid");
  EXPECT_EQ(rule_of([&] {
              RepartitionPlan(comm, Layout(ProcessGrid{n + 1, 1}, Indices{6, 4}), layout);
            }),
            "BadProcessGrid");
  EXPECT_EQ(rule(Layout(ProcessGrid{1, n}, Indices{4, 6}), {1, 0}), "nothing was thrown");
}

TEST(RepartitionPlan, names_the_selection_that_is_missing) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{6, 4});
  Layout const half(ProcessGrid{comm.num_ranks(), 1}, Indices{3, 4});
  auto const some = Selection::every_nth(Box({0, 0}, {6, 4}), {2, 1});
  auto const text = [&](auto const& to, RepartitionOptions const& options) {
    auto const thrown = test::thrown_by([&] { RepartitionPlan(comm, layout, to, options); });
    EXPECT_EQ(thrown.rule, "LayoutMismatch");
    return thrown.text.substr(thrown.text.find("axis"));  // other ranks name the one that refused
  };

  EXPECT_EQ(text(Box({0, 0}, {3, 4}), {.to = some}),
            "axis 0 of the new grid has 3 selected cells, axis 0 of the old grid has 6 cells; `from` selects the cells "
            "of the old grid that become them, in a new grid which for target boxes is the old one with its axes "
            "permuted");
  EXPECT_EQ(
      text(layout, {.from = some}),
      "axis 0 of the new grid has 6 cells, axis 0 of the old grid has 3 selected cells; `to` selects the cells that "
      "they become");
  EXPECT_EQ(
      text(layout, {.to = some}),
      "axis 0 of the new grid has 3 selected cells, axis 0 of the old grid has 6 cells; `from` selects the cells of "
      "the old grid that become them");
  EXPECT_EQ(text(half, {}), "axis 0 of the new grid has 3 cells, axis 0 of the old grid has 6 cells");
  EXPECT_EQ(rule_of([&] {
              RepartitionPlan(comm, layout, Box({0, 0}, {3, 4}), {.from = some, .to = some});
            }),
            "nothing was thrown");
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, layout, half, {.from = some}); }), "nothing was thrown");
}

// Every second row from the last one on, turned: cell (i, j) of the new grid is cell (7 - 2 j, i) of the old one.
TEST(RepartitionPlan, numbers_the_selected_cells_for_target_boxes_from_0) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 5});
  RepartitionOptions const options{.permutation = {1, 0}, .from = Selection::every_nth(rows.global(), {-2, 1})};
  // Another box of the new grid of 5 x 4 cells on each rank.
  Index const first = comm.rank() % 3;
  Box const target({first, 1}, {first + 2, 4});
  RepartitionPlan const plan(comm, rows, target, options);
  auto from = numbered<double>(plan.source_box(), {}, MemoryShape::dense(2, 0));
  TestField<double> to(target, {}, MemoryShape::dense(2, 0), 0);
  auto expected = to;
  expected.set(target, [](auto const& b, auto const& cell) {
    return bits_of<double>(b, Indices{7 - 2 * cell[1], cell[0]});
  });

  plan.apply(from.view(), to.view());

  EXPECT_TRUE(to.holds(expected));
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, Box({0, 0}, {5, 5}), options); }), "LayoutMismatch");
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, Box({0, -1}, {5, 4}), options); }), "LayoutMismatch");
}

Index num_messages(PullStats const& stats) {
  return stats.point_to_point.num_messages + stats.node_packed.num_messages + stats.node_in_place.num_messages;
}

/// Boxes of an 8 x 6 grid: other ones, and another number of them, on each rank; they overlap.
std::vector<Box> some_boxes(int rank) {
  std::vector<Box> const all{Box({0, 0}, {1, 6}), Box({5, 1}, {8, 4}), Box({2, 2}, {2, 5}), Box({0, 2}, {7, 3}),
                             Box({4, 0}, {6, 6})};
  return {all.begin(), all.begin() + std::min(5, 5 * rank % 7)};
}

TEST(RepartitionPlan, fills_a_list_of_target_boxes_with_one_message_to_each_peer) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 6});
  for (int const shift : {0, 1, 3}) {
    auto const boxes = some_boxes(comm.rank() + shift);
    RepartitionPlan const plan(comm, rows, boxes);
    auto const given = boxes.empty() ? std::vector<Box>{Box({0, 0}, {0, 0})} : boxes;
    ASSERT_EQ(plan.target_boxes(), given);
    auto from = numbered<double>(plan.source_box(), {2}, MemoryShape::dense(2, 1));
    std::vector<TestField<double>> to;
    std::vector<TestField<double>> expected;
    std::vector<FieldView> views;
    for (auto const& box : given) {
      to.emplace_back(box, Indices{2}, MemoryShape::dense(2, 1), -1.0);
      expected.push_back(to.back());
      expected.back().set(box, [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });
    }
    for (auto& field : to) views.push_back(field.view());
    auto const before = num_messages(plan.stats());  // check mode has tried the plan

    plan.apply(from.view(), views);

    for (std::size_t t = 0; t < to.size(); ++t) EXPECT_TRUE(to[t].holds(expected[t])) << "box " << t;
    EXPECT_LE(num_messages(plan.stats()) - before, comm.num_ranks() - 1);
  }
}

TEST(RepartitionPlan, adds_and_puts_back_what_a_list_of_target_boxes_holds) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 6});
  auto const boxes = some_boxes(comm.rank() + 1);
  RepartitionPlan const plan(comm, rows, boxes);
  // How often each cell is in a box, on all ranks.
  std::vector<Index> count(48, 0);
  for (int r = 0; r < comm.num_ranks(); ++r)
    for (auto const& box : some_boxes(r + 1))
      for (Index i = box.lo(0); i < box.hi(0); ++i)
        for (Index j = box.lo(1); j < box.hi(1); ++j) ++count[std::size_t(6 * i + j)];
  std::vector<TestField<double>> to;
  std::vector<FieldView> views;
  for (auto const& box : plan.target_boxes()) {
    to.emplace_back(box, Indices{}, MemoryShape::dense(2, 0), -1.0);
    to.back().set(box, [](auto const&, auto const& cell) { return double(10 * cell[0] + cell[1]); });
  }
  for (auto& field : to) views.push_back(field.view());
  TestField<double> sums(plan.source_box(), {}, MemoryShape::dense(2, 0), 0.0);
  auto back = sums;
  auto expected_sums = sums;
  auto expected_back = sums;
  expected_sums.set(plan.source_box(), [&](auto const&, auto const& cell) {
    return double(count[std::size_t(6 * cell[0] + cell[1])] * (10 * cell[0] + cell[1]));
  });
  expected_back.set(plan.source_box(), [&](auto const&, auto const& cell) {
    return count[std::size_t(6 * cell[0] + cell[1])] ? double(10 * cell[0] + cell[1]) : 0.0;
  });

  plan.apply_adjoint(sums.view(), views);
  plan.apply_inverse(back.view(), views);

  EXPECT_TRUE(sums.holds(expected_sums));
  EXPECT_TRUE(back.holds(expected_back));
}

TEST(RepartitionPlan, refuses_another_number_of_views_than_of_target_boxes) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 6});
  std::vector<Box> const boxes{Box({0, 0}, {1, 6}), Box({5, 1}, {8, 4})};
  RepartitionPlan const plan(comm, rows, boxes);
  auto from = numbered<double>(plan.source_box(), {}, MemoryShape::dense(2, 0));
  TestField<double> first(boxes[0], {}, MemoryShape::dense(2, 0), 0);
  TestField<double> second(boxes[1], {}, MemoryShape::dense(2, 0), 0);
  std::vector<FieldView> const both{first.view(), second.view()};

  auto const thrown = test::thrown_by([&] { plan.apply(from.view(), std::span(both).first(1)); });
  EXPECT_EQ(thrown.rule, "FieldMismatch");
  EXPECT_EQ(thrown.text, "1 target views, this rank has 2 target boxes");
  EXPECT_EQ(rule_of([&] { plan.apply(from.view(), first.view()); }), "FieldMismatch");
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, std::vector{Box({0, 0}, {9, 6})}); }), "LayoutMismatch");

  plan.apply(from.view(), both);

  auto expected = second;
  expected.set(boxes[1], [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });
  EXPECT_TRUE(second.holds(expected));
}

TEST(RepartitionPlan, refuses_on_all_ranks_what_differs_between_ranks) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{6, 6});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{6, 6});
  Layout const other(ProcessGrid{comm.num_ranks(), 1}, Indices{6, 7});
  bool const odd = comm.rank() == comm.num_ranks() - 1;

  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, odd ? columns : rows, rows); }), "ArgumentDisagreement");
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, odd ? columns : rows); }), "ArgumentDisagreement");
  EXPECT_EQ(rule_of([&] {
              RepartitionPlan(comm, rows, rows, {.permutation = odd ? Indices{1, 0} : Indices{0, 1}});
            }),
            "ArgumentDisagreement");
  // A rule broken on one rank only is named on all.
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, odd ? other : rows); }), "LayoutMismatch");
  EXPECT_EQ(rule_of([&] {
              RepartitionPlan(comm, rows, rows, {.permutation = odd ? Indices{1, 1} : Indices{0, 1}});
            }),
            "AxesMismatch");
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, columns); }), "nothing was thrown");
}

TEST(RepartitionPlan, refuses_views_that_do_not_fit_and_stays_usable) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 7});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{8, 7});
  RepartitionPlan const plan(comm, rows, columns);
  ASSERT_FALSE(plan.source_box().empty());
  auto from = numbered<double>(plan.source_box(), {2}, MemoryShape::dense(2, 1));
  TestField<double> to(plan.target_box(), {2}, MemoryShape::dense(2, 1), 0);
  auto expected = to;
  auto const untouched = to;
  expected.set(plan.target_box(), [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });
  auto const good_from = from.view();
  auto const good_to = to.view();
  auto const rule = [&](auto change_from, auto change_to) {
    auto a = good_from;
    auto b = good_to;
    change_from(a);
    change_to(b);
    auto const forward = rule_of([&] { plan.apply(a, b); });
    EXPECT_EQ(rule_of([&] { plan.apply_adjoint(a, b); }), forward);
    return forward;
  };
  auto const keep = [](FieldView&) {};

  EXPECT_EQ(rule([](auto& v) { ++v.extents[1]; }, keep), "FieldMismatch");
  EXPECT_EQ(rule(keep, [](auto& v) { --v.extents[2]; }), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.dtype = DType::i64; }, keep), "Conversion");
  EXPECT_EQ(rule(keep, [](auto& v) { v.data = nullptr; }), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.extents[0] = 1; }, keep), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.grid_axes = {1}; }, keep), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.grid_axes = {1, 1}; }, keep), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.grid_axes = {1, 3}; }, keep), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.grid_axes = {-1, 1}; }, keep), "FieldMismatch");
  EXPECT_EQ(rule([](auto& v) { v.strides = {1, 1}; }, keep), "FieldMismatch");
  EXPECT_EQ(rule_of([&] {
              auto view = good_from;
              view.data = nullptr;
              plan.apply(view, good_to);
            }),
            "FieldMismatch");
  // Cells that share memory may be read, not written.
  auto expanded_from = good_from;
  auto expanded_to = good_to;
  expanded_from.strides[0] = 0;
  expanded_to.strides[0] = 0;
  EXPECT_EQ(rule_of([&] { plan.apply(good_from, expanded_to); }), "FieldMismatch");
  EXPECT_EQ(rule_of([&] { plan.apply_adjoint(expanded_from, good_to); }), "FieldMismatch");
  // Batch elements that reach into each other's rows, upwards or downwards.
  auto overlapping_from = good_from;
  auto overlapping_to = good_to;
  overlapping_from.strides[0] = good_from.strides[2];
  overlapping_to.strides[0] = -good_to.strides[1];
  EXPECT_EQ(rule_of([&] { plan.apply(good_from, overlapping_to); }), "FieldMismatch");
  EXPECT_EQ(rule_of([&] { plan.apply_adjoint(overlapping_from, good_to); }), "FieldMismatch");
  EXPECT_TRUE(to.holds(untouched));

  plan.apply(good_from, good_to);

  EXPECT_TRUE(to.holds(expected));
}

// The rank with the wrong view throws before anything is sent; its peers are told, and the next calls pair again.
TEST(RepartitionPlan, a_wrong_view_on_one_rank_ends_the_call_on_its_peers) {
  auto const comm = Comm::world();
  bool const compares = std::getenv("GRATICULE_CHECK") != nullptr;
  bool const refuses = comm.rank() == 0;
  auto const told = refuses ? "FieldMismatch" : compares ? "CallDisagreement" : "PeerRefused";
  // Messages that MPI sends at once, and messages that wait for their receiver.
  for (Index const columns_per_rank : {3, 20000}) {
    Indices const extents{2 * comm.num_ranks(), columns_per_rank * comm.num_ranks()};
    Layout const rows(ProcessGrid{comm.num_ranks(), 1}, extents);
    Layout const columns(ProcessGrid{1, comm.num_ranks()}, extents);
    RepartitionPlan const plan(comm, rows, columns);
    auto from = numbered<double>(plan.source_box(), {}, MemoryShape::dense(2, 0));
    TestField<double> to(plan.target_box(), {}, MemoryShape::dense(2, 0), 0);
    auto expected = to;
    expected.set(plan.target_box(), [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });
    auto given = from.view();
    if (refuses) ++given.extents[0];
    for (int repeat = 0; repeat < 3; ++repeat) {
      auto const thrown = test::thrown_by([&] { plan.apply(given, to.view()); });
      EXPECT_EQ(thrown.rule, told) << thrown.text;
      if (!refuses) {
        EXPECT_NE(thrown.text.find("rank 0"), std::string::npos) << thrown.text;
      }
      auto sums = from;
      auto view = sums.view();
      if (refuses) ++view.extents[0];

      EXPECT_EQ(rule_of([&] { plan.apply_adjoint(view, to.view()); }), told);
      EXPECT_TRUE(sums.holds(from));

      plan.apply(from.view(), to.view());

      EXPECT_TRUE(to.holds(expected));
    }
  }
}

TEST(RepartitionPlan, reads_fields_whose_batch_elements_share_memory) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 7});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{8, 7});
  RepartitionPlan const plan(comm, rows, columns);
  auto from = numbered<double>(plan.source_box(), {1}, MemoryShape::dense(2, 1));
  TestField<double> to(plan.target_box(), {3}, MemoryShape::dense(2, 1), 0);
  auto expected = to;
  expected.set(plan.target_box(), [](auto const&, auto const& cell) { return bits_of<double>({0}, cell); });
  auto view = from.view();
  view.extents[0] = 3;
  view.strides[0] = 0;

  plan.apply(view, to.view());

  EXPECT_TRUE(to.holds(expected));
}

// A rank that calls with other fields than its peers is told, and so are they: nobody goes on with wrong cells or
// hangs.
TEST(RepartitionPlan, reports_fields_of_another_size_on_a_peer) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "no peer";
  // Messages that MPI sends at once, and messages that wait for their receiver.
  for (Index const columns_per_rank : {3, 20000}) {
    Indices const extents{2 * comm.num_ranks(), columns_per_rank * comm.num_ranks()};
    Layout const rows(ProcessGrid{comm.num_ranks(), 1}, extents);
    Layout const columns(ProcessGrid{1, comm.num_ranks()}, extents);
    RepartitionPlan const plan(comm, rows, columns);
    for (Index const other : {0, 1, 3}) {
      Indices const batch{comm.rank() == 0 ? other : 2};
      TestField<float> from(plan.source_box(), batch, MemoryShape::dense(2, 1), 1);
      TestField<float> to(plan.target_box(), batch, MemoryShape::dense(2, 1), 0);
      auto const from_before = from;

      EXPECT_EQ(rule_of([&] { plan.apply(from.view(), to.view()); }), "FieldMismatch");
      EXPECT_EQ(rule_of([&] { plan.apply_adjoint(from.view(), to.view()); }), "FieldMismatch");
      EXPECT_TRUE(from.holds(from_before));
    }
    // The plan stays usable.
    TestField<float> from(plan.source_box(), {1}, MemoryShape::dense(2, 1), 0);
    TestField<float> to(plan.target_box(), {1}, MemoryShape::dense(2, 1), 0);
    from.set(plan.source_box(), [](auto const& b, auto const& cell) { return bits_of<float>(b, cell); });
    auto expected = to;
    expected.set(plan.target_box(), [](auto const& b, auto const& cell) { return bits_of<float>(b, cell); });

    plan.apply(from.view(), to.view());

    EXPECT_TRUE(to.holds(expected));
  }
}

TEST(RepartitionPlan, moves_nothing_for_fields_without_batch_elements) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 7});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{8, 7});
  RepartitionPlan const plan(comm, rows, columns);
  TestField<double> from(plan.source_box(), {0, 3}, MemoryShape::dense(2, 2), 1);
  TestField<double> to(plan.target_box(), {0, 3}, MemoryShape::dense(2, 2), 2);
  auto const before = to;

  plan.apply(from.view(), to.view());
  plan.apply_adjoint(from.view(), to.view());

  EXPECT_TRUE(to.holds(before));
}

}  // namespace
