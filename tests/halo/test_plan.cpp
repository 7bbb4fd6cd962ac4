// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/detail/edges.hpp>
#include <graticule/halo/plan.hpp>

#include "expect_error.hpp"
#include "formula.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

using namespace graticule;
using test::adjoint_by_formula;
using test::bits_of;
using test::draw;
using test::exchanged_by_formula;
using test::field_of_cotangents;
using test::field_to_exchange;
using test::for_each_cell;
using test::Formula;
using test::Image;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;

namespace {

/// All that a plan of one kind is made of; the same on all ranks.
struct Case {
  Layout layout;
  std::vector<Width> widths;
  Boundary boundary;
  Corners corners = Corners::fill;

  [[nodiscard]] Formula formula() const { return {layout, {widths, boundary, corners}}; }
};

std::string describe(Case const& c) { return describe(c.formula()); }

HaloPlan make_plan(Comm const& comm, Case const& c) { return {comm, c.layout, c.widths, c.boundary, c.corners}; }

Case random_case(Random& random, int num_ranks) {
  auto const extents = test::random_extents(random, int(draw(random, 1, 3)), 6);
  auto const boundary = test::random_boundary(random, extents);
  auto const layout = test::random_layout(random, num_ranks, extents);
  return {layout, test::random_widths(random, extents), boundary,
          draw(random, 0, 3) == 0 ? Corners::skip : Corners::fill};
}

/// Two fields of different type, batch axes, memory and parity in one call, forward; the same for the adjoint.
void expect_as_by_formula(Random& random, Comm const& comm, Case const& c) {
  SCOPED_TRACE(describe(c));
  int const ndim = c.layout.ndim();
  auto const plan = make_plan(comm, c);
  ASSERT_EQ(plan.owned(), c.layout.owned(comm.rank()));
  ASSERT_EQ(plan.owned(0), c.formula().owned(comm.rank()));
  ASSERT_EQ(plan.local(), c.formula().local(comm.rank()));
  Indices const scalar_batch = test::random_extents(random, int(draw(random, 0, 2)), 3);
  Indices const vector_batch{draw(random, 1, 3)};
  auto scalar = field_to_exchange<double>(plan, scalar_batch, MemoryShape::random(random, ndim, scalar_batch.size()));
  auto vector = field_to_exchange<float>(plan, vector_batch, MemoryShape::random(random, ndim, 1));
  auto const expected_scalar = exchanged_by_formula(scalar, c.formula(), comm.rank(), Parity::even);
  auto const expected_vector = exchanged_by_formula(vector, c.formula(), comm.rank(), Parity::odd);

  plan.exchange(std::vector<HaloField>{{scalar.view(), Parity::even}, {vector.view(), Parity::odd}});

  EXPECT_TRUE(scalar.holds(expected_scalar));
  EXPECT_TRUE(vector.holds(expected_vector));

  auto even =
      field_of_cotangents(plan, comm.rank(), scalar_batch, MemoryShape::random(random, ndim, scalar_batch.size()));
  auto odd = field_of_cotangents(plan, comm.rank(), vector_batch, MemoryShape::random(random, ndim, 1));
  auto const expected_even = adjoint_by_formula(even, c.formula(), comm, Parity::even);
  auto const expected_odd = adjoint_by_formula(odd, c.formula(), comm, Parity::odd);

  plan.exchange_adjoint(std::vector<HaloField>{{even.view(), Parity::even}, {odd.view(), Parity::odd}});

  EXPECT_TRUE(even.holds(expected_even));
  EXPECT_TRUE(odd.holds(expected_odd));
}

TEST(HaloPlan, follows_the_formula_for_random_rules_layouts_widths_and_memory) {
  auto const comm = Comm::world();
  Random random(std::uint64_t(100 + comm.num_ranks()));
  int const num_trials = comm.num_ranks() == 1 ? 300 : comm.num_ranks() == 2 ? 60 : 40 / (comm.num_ranks() - 2);
  for (int trial = 0; trial < num_trials && !HasFailure(); ++trial)
    expect_as_by_formula(random, comm, random_case(random, comm.num_ranks()));
}

// Each rule alone on each side of each axis, with halos that end inside the neighbor, beyond it, and beyond the grid.
TEST(HaloPlan, follows_the_formula_for_every_rule_on_every_side) {
  auto const comm = Comm::world();
  Random random(5);
  Index const n = comm.num_ranks();
  for (Edge const edge : test::all_edges)
    for (int axis = 0; axis < 2; ++axis)
      for (bool const upper : {false, true}) {
        if (comm.num_ranks() > 3 && upper != (axis == 1)) continue;
        Indices const extents{4, 4};
        bool const fold = is_fold(edge);
        auto boundary = Boundary::uniform(2, Edge::untouched);
        auto& rules = boundary.axes[std::size_t(axis)];
        if (!upper || edge == Edge::periodic) rules.lower = edge;
        if (upper || edge == Edge::periodic) rules.upper = edge;
        rules.constant = 2.5;
        if (fold) {
          boundary.longitude_axis = 1 - axis;
          boundary.axes[std::size_t(1 - axis)] = {Edge::periodic, Edge::periodic, 0};
        }
        Layout const layout = axis == 0 ? Layout(ProcessGrid{n, 1}, extents) : Layout(ProcessGrid{1, n}, extents);
        for (Index const width : {1, 3, 6}) {
          std::vector<Width> widths(2, {1, 1});
          widths[std::size_t(axis)] = upper ? Width{0, width} : Width{width, 0};
          expect_as_by_formula(random, comm, {layout, widths, boundary, Corners::fill});
          if (HasFailure()) return;
          if (comm.num_ranks() > 2) break;
        }
      }
}

TEST(HaloPlan, crosses_the_poles_of_a_sphere_cut_in_both_directions) {
  auto const comm = Comm::world();
  Random random(6);
  Index const n = comm.num_ranks();
  Indices const extents{7, 8};
  for (Edge const pole : {Edge::pole_face, Edge::pole_row})
    for (Indices const& grid : std::vector<Indices>{{n, 1}, {1, n}, {2, n / 2}}) {
      if (grid[0] * grid[1] != n) continue;
      std::vector<Cuts> const cuts{test::random_cuts(random, 7, grid[0]), test::random_cuts(random, 8, grid[1])};
      expect_as_by_formula(random, comm,
                           {Layout(ProcessGrid(grid), cuts), {{3, 3}, {3, 3}}, Boundary::sphere(pole), Corners::fill});
    }
}

TEST(HaloPlan, serves_more_ranks_than_rows_and_ranks_without_cells) {
  auto const comm = Comm::world();
  Random random(7);
  Index const n = comm.num_ranks();
  Layout const thin(ProcessGrid{n, 1}, Indices{2, 4});
  std::vector<Box> boxes(std::size_t(n), Box({0, 0}, {0, 0}));
  boxes.back() = Box({0, 0}, {2, 4});
  for (Layout const& layout : {thin, Layout::from_boxes({2, 4}, boxes)})
    for (Edge const edge : {Edge::periodic, Edge::symmetric})
      expect_as_by_formula(random, comm, {layout, {{2, 3}, {1, 0}}, Boundary::uniform(2, edge), Corners::fill});
}

TEST(HaloPlan, without_width_moves_nothing) {
  auto const comm = Comm::world();
  Random random(8);
  Case const c{
      Layout(ProcessGrid{comm.num_ranks()}, Indices{9}), {{0, 0}}, Boundary::uniform(1, Edge::periodic), Corners::fill};

  expect_as_by_formula(random, comm, c);

  auto const counts = make_plan(comm, c).counts();
  EXPECT_EQ(counts.send_cells + counts.receive_cells + counts.local_cells + counts.filled_cells, 0);
}

// The example of the class: 8 cells, width 1, periodic.
TEST(HaloPlan, of_the_documented_example) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  if (8 % n != 0) GTEST_SKIP() << "for a number of ranks that divides 8";
  HaloPlan const plan(comm, Layout(ProcessGrid{n}, Indices{8}), {{1, 1}}, Boundary::uniform(1, Edge::periodic));
  Index const lo = 8 / n * comm.rank();
  Index const hi = lo + 8 / n;
  ASSERT_EQ(plan.local(), Box({lo - 1}, {hi + 1}));
  std::vector<double> cells(std::size_t(hi - lo + 2), -1.0);
  for (Index i = lo; i < hi; ++i) cells[std::size_t(i - lo + 1)] = double(i);

  plan.exchange(field_view(cells.data(), {hi - lo + 2}, 1));

  EXPECT_EQ(cells.front(), double((lo + 7) % 8));
  EXPECT_EQ(cells.back(), double(hi % 8));
  EXPECT_EQ(plan.counts().num_send_peers, n == 1 ? 0 : n == 2 ? 1 : 2);
  EXPECT_EQ(plan.counts().send_cells, n == 1 ? 0 : 2);
  EXPECT_EQ(plan.counts().local_cells, n == 1 ? 2 : 0);
}

// <Ax, y> = <x, A'y> through the plan alone, for every rule, in integers.
TEST(HaloPlan, passes_the_dot_test_exactly) {
  auto const comm = Comm::world();
  Random random(9);
  int const num_trials = comm.num_ranks() <= 2 ? 20 : 8;
  for (int trial = 0; trial < num_trials; ++trial) {
    auto c = random_case(random, comm.num_ranks());
    for (auto& axis : c.boundary.axes) axis.constant = 0;
    auto const parity = trial % 2 == 0 ? Parity::even : Parity::odd;
    auto const plan = make_plan(comm, c);
    auto const shape = MemoryShape::dense(c.layout.ndim(), 1);
    // Cells that are not written are no output of A: zero before and after.
    TestField<double> x(plan.local(), {2}, shape, 0);
    x.set(plan.owned(), [](auto const& b, auto const& cell) { return double(bits_of<std::int16_t>(b, cell, 1)); });
    auto ax = x;
    auto const y = field_of_cotangents(plan, comm.rank(), {2}, shape);
    auto aty = y;

    plan.exchange(std::vector<HaloField>{{ax.view(), parity}});
    plan.exchange_adjoint(std::vector<HaloField>{{aty.view(), parity}});

    std::array<double, 2> products{0, 0};
    y.for_each(plan.local(), [&](auto const& b, auto const& cell) { products[0] += ax.at(b, cell) * y.at(b, cell); });
    y.for_each(plan.owned(), [&](auto const& b, auto const& cell) { products[1] += x.at(b, cell) * aty.at(b, cell); });
    comm.sum(products);
    ASSERT_EQ(products[0], products[1]) << describe(c);
  }
}

/// Numbers of very different size, whose sum shows the order of its terms.
double rough(Indices const& batch, Indices const& cell) {
  auto const bits = bits_of<std::uint32_t>(batch, cell, 3);
  return std::ldexp(double(bits) - 0x1p31, int(bits % 61));
}

TEST(HaloPlan, adjoint_has_the_same_bits_at_every_repetition_in_every_memory_and_by_every_plan) {
  auto const comm = Comm::world();
  Random random(10);
  Index const n = comm.num_ranks();
  for (Edge const edge : {Edge::periodic, Edge::replicate, Edge::symmetric}) {
    Case const c{
        Layout(ProcessGrid{n, 1}, Indices{n + 1, 3}), {{3, 4}, {4, 3}}, Boundary::uniform(2, edge), Corners::fill};
    std::vector<TestField<double>> results;
    std::vector<std::vector<int>> clutter;
    for (int repeat = 0; repeat < 6; ++repeat) {
      // Another plan, made where the heap looks different.
      clutter.emplace_back(std::size_t(draw(random, 1, 300)));
      auto const plan = make_plan(comm, c);
      auto const shape = repeat < 2 ? MemoryShape::dense(2, 0) : MemoryShape::random(random, 2, 0);
      auto& field = results.emplace_back(plan.local(), Indices{}, shape, 0.0);
      field.set(plan.local(), rough);
      // Messages leave at other times than before.
      if (repeat > 0 && comm.rank() == repeat % comm.num_ranks())
        std::this_thread::sleep_for(std::chrono::milliseconds(2));

      plan.exchange_adjoint(field.view());

      for_each_cell(plan.owned(), [&](Indices const& cell) {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(field.at({}, cell)),
                  std::bit_cast<std::uint64_t>(results[0].at({}, cell)))
            << to_string(edge) << " " << to_string(cell) << " at repetition " << repeat;
      });
    }
  }
}

TEST(HaloPlan, exchanges_may_overlap_with_each_other_and_with_adjoints) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Case const c{
      Layout(ProcessGrid{n, 1}, Indices{2 * n, 6}), {{2, 1}, {1, 2}}, Boundary::sphere(Edge::pole_face), Corners::fill};
  Case const other{
      Layout(ProcessGrid{1, n}, Indices{2 * n, 6}), {{1, 1}, {2, 2}}, Boundary::sphere(Edge::pole_row), Corners::skip};
  auto const plan = make_plan(comm, c);
  auto const other_plan = make_plan(comm, other);
  auto const shape = MemoryShape::dense(2, 1);
  for (int round = 0; round < 3; ++round) {
    auto first = field_to_exchange<double>(plan, {2}, shape);
    auto second = field_to_exchange<double>(plan, {3}, shape);
    auto third = field_to_exchange<float>(other_plan, {2}, shape);
    auto adjoint = field_of_cotangents(plan, comm.rank(), {2}, shape);
    auto const expected_first = exchanged_by_formula(first, c.formula(), comm.rank(), Parity::even);
    auto const expected_second = exchanged_by_formula(second, c.formula(), comm.rank(), Parity::odd);
    auto const expected_third = exchanged_by_formula(third, other.formula(), comm.rank(), Parity::even);
    auto const expected_adjoint = adjoint_by_formula(adjoint, c.formula(), comm, Parity::even);

    auto pending_first = plan.start(first.view());
    auto pending_adjoint = plan.start_adjoint(adjoint.view());
    auto pending_second = plan.start(std::vector<HaloField>{{second.view(), Parity::odd}});
    auto pending_third = other_plan.start(third.view());
    // Each rank ends them in another order.
    std::array<Pending*, 4> order{&pending_first, &pending_adjoint, &pending_second, &pending_third};
    std::rotate(order.begin(), order.begin() + (comm.rank() + round) % 4, order.end());
    for (auto* pending : order) pending->wait();

    EXPECT_TRUE(first.holds(expected_first));
    EXPECT_TRUE(second.holds(expected_second));
    EXPECT_TRUE(third.holds(expected_third));
    EXPECT_TRUE(adjoint.holds(expected_adjoint));
  }
  EXPECT_LE(plan.num_workspaces(), 6) << "two exchanges and one adjoint were in flight at most";
}

// Calls with fields that a plan has just had are made from what it keeps of them; each must see what has changed since.
TEST(HaloPlan, repeated_calls_follow_the_formula_whatever_changed_between_them) {
  auto const comm = Comm::world();
  Random random(std::uint64_t(700 + comm.num_ranks()));
  int const num_trials = comm.num_ranks() == 1 ? 40 : 12;
  for (int trial = 0; trial < num_trials && !HasFailure(); ++trial) {
    auto const c = random_case(random, comm.num_ranks());
    SCOPED_TRACE(describe(c));
    int const ndim = c.layout.ndim();
    auto plan = make_plan(comm, c);
    std::vector<TestField<double>> doubles;
    std::vector<TestField<float>> floats;
    for (int f = 0; f < 3; ++f) {
      doubles.push_back(field_to_exchange<double>(plan, {2}, MemoryShape::random(random, ndim, 1)));
      floats.push_back(field_to_exchange<float>(plan, {}, MemoryShape::random(random, ndim, 0)));
    }
    for (int call = 0; call < 60 && !HasFailure(); ++call) {
      auto const f = std::size_t(draw(random, 0, 2));
      auto const g = std::size_t(draw(random, 0, 2));
      auto const parity = draw(random, 0, 2) == 0 ? Parity::odd : Parity::even;
      bool const both = draw(random, 0, 1) == 1;
      auto const what = draw(random, 0, 9);
      if (what == 0) plan.set_transport(Transport::point_to_point);
      if (what == 1) plan.set_transport(Transport::automatic);
      // The same memory with other values, or with ghost cells that hold other values.
      auto& field = doubles[f];
      auto const refreshed = field_to_exchange<double>(plan, {2}, MemoryShape::dense(ndim, 1));
      field.set(field.cover(), [&](auto const& b, auto const& cell) { return refreshed.at(b, cell); });
      auto& other = floats[g];
      auto const expected = exchanged_by_formula(field, c.formula(), comm.rank(), parity);
      auto const expected_other = exchanged_by_formula(other, c.formula(), comm.rank(), Parity::even);
      std::vector<HaloField> fields{{field.view(), parity}};
      if (both) fields.push_back({other.view(), Parity::even});
      if (what < 7) {
        plan.exchange(fields);
      } else {
        auto pending = plan.start(fields);
        if (what == 8) plan.exchange(doubles[(f + 1) % 3].view());
        pending.wait();
      }
      EXPECT_TRUE(field.holds(expected)) << "call " << call;
      if (both) {
        EXPECT_TRUE(other.holds(expected_other)) << "call " << call;
      }
    }
  }
}

TEST(HaloPlan, makes_no_workspace_after_the_first_call_of_a_kind) {
  auto const comm = Comm::world();
  Case const c{Layout(ProcessGrid{comm.num_ranks()}, Indices{12}),
               {{1, 1}},
               Boundary::uniform(1, Edge::periodic),
               Corners::fill};
  auto const plan = make_plan(comm, c);
  auto field = field_to_exchange<double>(plan, {}, MemoryShape::dense(1, 0));
  auto narrow = field_to_exchange<float>(plan, {}, MemoryShape::dense(1, 0));

  for (int repeat = 0; repeat < 5; ++repeat) {
    plan.exchange(field.view());
    plan.exchange(narrow.view());
    plan.exchange_adjoint(field.view());
  }

  EXPECT_LE(plan.num_workspaces(), 6) << "three, and as many more where peers were late to read";
}

TEST(HaloPlan, counts_what_it_moves) {
  auto const comm = Comm::world();
  Random random(12);
  int const num_trials = comm.num_ranks() <= 2 ? 20 : 6;
  for (int trial = 0; trial < num_trials; ++trial) {
    auto const c = random_case(random, comm.num_ranks());
    auto const formula = c.formula();
    PullCounts expected;
    std::vector<bool> sends(std::size_t(comm.num_ranks()), false);
    std::vector<bool> receives = sends;
    for (int r = 0; r < comm.num_ranks(); ++r)
      for_each_cell(formula.local(r), [&](Indices const& cell) {
        auto const image = formula.image(cell);
        if (!formula.fills(cell, r) || image.kind == Image::Kind::nothing) return;
        bool const mine = r == comm.rank();
        if (image.kind == Image::Kind::constant) {
          expected.filled_cells += mine ? 1 : 0;
          return;
        }
        int owner = 0;
        while (!c.formula().owned(owner).contains(image.cell)) ++owner;
        bool const from_me = owner == comm.rank();
        if (mine && from_me) ++expected.local_cells;
        if (mine && !from_me) {
          ++expected.receive_cells;
          receives[std::size_t(owner)] = true;
        }
        if (from_me && !mine) {
          ++expected.send_cells;
          sends[std::size_t(r)] = true;
        }
      });

    auto const counts = make_plan(comm, c).counts();

    EXPECT_EQ(counts.local_cells, expected.local_cells) << describe(c);
    EXPECT_EQ(counts.receive_cells, expected.receive_cells) << describe(c);
    EXPECT_EQ(counts.send_cells, expected.send_cells) << describe(c);
    EXPECT_EQ(counts.filled_cells, expected.filled_cells) << describe(c);
    EXPECT_EQ(counts.num_send_peers, std::count(sends.begin(), sends.end(), true)) << describe(c);
    EXPECT_EQ(counts.num_receive_peers, std::count(receives.begin(), receives.end(), true)) << describe(c);
  }
}

TEST(HaloPlan, refuses_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{6, 7});
  auto const zero = Boundary::uniform(2, Edge::constant);
  std::vector<Width> const one{{1, 1}, {1, 1}};
  auto const rule = [&](Layout const& on, std::vector<Width> const& widths, Boundary const& boundary) {
    return rule_of([&] { HaloPlan(comm, on, widths, boundary); });
  };

  EXPECT_EQ(rule(layout, {{1, 1}}, zero), "AxesMismatch");
  EXPECT_EQ(rule(layout, {{1, 1}, {1, 1}, {0, 0}}, zero), "AxesMismatch");
  EXPECT_EQ(rule(layout, {{1, -1}, {1, 1}}, zero), "BadHaloWidth");
  EXPECT_EQ(rule(layout, one, Boundary::uniform(1, Edge::constant)), "AxesMismatch");
  EXPECT_EQ(rule(layout, one, Boundary::sphere(Edge::pole_face)), "BadBoundary");
  EXPECT_EQ(rule(layout, one, {{{Edge::periodic, Edge::constant, 0}, {}}, -1}), "BadBoundary");
  EXPECT_EQ(rule(layout, one, {{{Edge::pole_row, Edge::constant, 0}, {}}, 1}), "BadBoundary");
  EXPECT_EQ(rule(Layout(ProcessGrid{n + 1, 1}, Indices{6, 7}), one, zero), "BadProcessGrid");
  // One rank owns the only row and has ghosts to mirror; all ranks refuse.
  EXPECT_EQ(rule(Layout(ProcessGrid{n, 1}, Indices{1, 6}), one, Boundary::sphere(Edge::pole_row)), "BadHaloWidth");
  EXPECT_EQ(rule(layout, one, zero), "nothing was thrown");
}

TEST(HaloPlan, refuses_on_all_ranks_what_differs_between_ranks) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  if (n == 1) GTEST_SKIP() << "one rank agrees with itself";
  bool const odd = comm.rank() == comm.num_ranks() - 1;
  Layout const rows(ProcessGrid{n, 1}, Indices{6, 6});
  Layout const columns(ProcessGrid{1, n}, Indices{6, 6});
  auto const zero = Boundary::uniform(2, Edge::constant);
  auto const periodic = Boundary::uniform(2, Edge::periodic);
  std::vector<Width> const one{{1, 1}, {1, 1}};
  std::vector<Width> const two{{1, 1}, {1, 2}};
  auto const rule = [&](auto&& make) { return rule_of([&] { make(); }); };

  EXPECT_EQ(rule([&] { HaloPlan(comm, odd ? rows : columns, one, zero); }), "ArgumentDisagreement");
  EXPECT_EQ(rule([&] { HaloPlan(comm, rows, odd ? two : one, zero); }), "ArgumentDisagreement");
  EXPECT_EQ(rule([&] { HaloPlan(comm, rows, one, odd ? periodic : zero); }), "ArgumentDisagreement");
  EXPECT_EQ(rule([&] { HaloPlan(comm, rows, one, zero, odd ? Corners::skip : Corners::fill); }),
            "ArgumentDisagreement");
  EXPECT_EQ(rule([&] { HaloPlan(comm, rows, odd ? std::vector<Width>{{-1, 0}, {0, 0}} : one, zero); }), "BadHaloWidth");
  EXPECT_EQ(rule([&] { HaloPlan(comm, rows, one, zero); }), "nothing was thrown");
}

TEST(HaloPlan, refuses_views_that_do_not_cover_the_local_box) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  HaloPlan const plan(comm, Layout(ProcessGrid{n, 1}, Indices{2 * n, 6}), {{1, 1}, {2, 2}},
                      Boundary::sphere(Edge::pole_face));
  std::vector<double> memory(std::size_t(4 * 10), 0.0);
  auto const rule = [&](FieldView const& view) {
    auto const forward = rule_of([&] { plan.exchange(view); });
    EXPECT_EQ(rule_of([&] { plan.exchange_adjoint(view); }), forward);
    return forward;
  };
  auto const whole = field_view(memory.data(), {4, 10}, 2);
  auto nowhere = whole;
  nowhere.data = nullptr;

  EXPECT_EQ(rule(field_view(memory.data(), {2, 6}, 2)), "FieldMismatch");
  EXPECT_EQ(rule(field_view(memory.data(), {10, 4}, 2)), "FieldMismatch");
  EXPECT_EQ(rule(field_view(memory.data(), {4, 10}, 1)), "FieldMismatch");
  EXPECT_EQ(rule(nowhere), "FieldMismatch");
  EXPECT_EQ(rule(whole), "nothing was thrown");
}

// The rank with the wrong view throws before anything is sent; those that need its cells are told, the others go on.
TEST(HaloPlan, a_wrong_view_on_one_rank_ends_the_call_where_its_cells_are_needed) {
  auto const comm = Comm::world();
  bool const compares = std::getenv("GRATICULE_CHECK") != nullptr;
  Index const n = comm.num_ranks();
  int const last = comm.num_ranks() - 1;
  Case const c{
      Layout(ProcessGrid{n, 1}, Indices{2 * n, 6}), {{1, 1}, {2, 2}}, Boundary::sphere(Edge::pole_face), Corners::fill};
  auto const plan = make_plan(comm, c);
  auto field = field_to_exchange<double>(plan, {}, MemoryShape::dense(2, 0));
  auto const expected = exchanged_by_formula(field, c.formula(), comm.rank(), Parity::even);
  auto view = field.view();
  bool needs = comm.rank() != last && compares;
  for (auto const& path : plan.paths()) needs = needs || (path.peer == last && path.receive_cells > 0);
  if (comm.rank() == last) ++view.extents[1];

  auto const rule = rule_of([&] { plan.exchange(view); });

  auto const told = compares ? "CallDisagreement" : "PeerRefused";
  EXPECT_EQ(rule, comm.rank() == last ? "FieldMismatch" : needs ? told : "nothing was thrown");

  plan.exchange(field.view());

  EXPECT_TRUE(field.holds(expected));
}

TEST(HaloPlan, serves_fields_on_a_part_of_the_world) {
  auto const world = Comm::world();
  auto const comm = world.split(world.rank() % 2, -world.rank());
  Random random(14);
  // The two halves run different plans at the same time.
  random.discard(world.rank() % 2 == 0 ? 0 : 1000);
  for (int trial = 0; trial < 3; ++trial) expect_as_by_formula(random, comm, random_case(random, comm.num_ranks()));
}

}  // namespace
