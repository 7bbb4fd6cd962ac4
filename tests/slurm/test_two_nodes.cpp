// SPDX-License-Identifier: BSD-3-Clause
// Plans of 4 ranks, two on each of two nodes: some peers share memory with a rank and others do not.
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/plan.hpp>

#include "reference.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

using namespace graticule;
using test::image_of;
using test::MemoryShape;
using test::TestField;

namespace {

constexpr int batch_size = 3;

double number(Indices const& batch, Indices const& cell, int call) {
  return double((call * batch_size + batch[0]) * 1000000 + cell[0] * 1000 + cell[1] + 1);
}

/// Owned cells hold numbers of this call, ghosts are not numbers.
TestField<double> field_of_call(HaloPlan const& plan, int call) {
  TestField<double> field(plan.local(), {batch_size}, MemoryShape::dense(2, 1),
                          std::numeric_limits<double>::quiet_NaN());
  field.set(plan.owned(), [&](auto const& b, auto const& cell) { return number(b, cell, call); });
  return field;
}

void expect_filled(TestField<double> const& field, HaloPlan const& plan, Layout const& layout, int call) {
  auto const sphere = Boundary::sphere(Edge::pole_face);
  auto expected = field;
  expected.set(plan.local(), [&](auto const& b, auto const& cell) {
    return number(b, image_of(cell, layout.global().extents(), sphere).cell, call);
  });
  EXPECT_TRUE(field.holds(expected)) << to_string(layout) << " in call " << call;
}

/// Bands, columns and blocks: each has peers on this rank's node, on the other, or on both.
std::vector<Layout> layouts(Index scale) {
  Indices const extents{7 * scale, 12 * scale};
  return {Layout(ProcessGrid{4, 1}, extents), Layout(ProcessGrid{1, 4}, extents), Layout(ProcessGrid{2, 2}, extents)};
}

TEST(TwoNodes, are_seen_as_two_with_two_ranks_each) {
  auto const comm = Comm::world();

  EXPECT_EQ(comm.num_ranks(), 4);
  EXPECT_EQ(comm.num_nodes(), 2);
  EXPECT_EQ(comm.num_node_ranks(), 2);
  EXPECT_EQ(comm.node_rank(), comm.rank() % 2);
}

TEST(TwoNodes, both_paths_are_taken_in_one_plan) {
  auto const comm = Comm::world();
  HaloPlan plan(comm, Layout(ProcessGrid{2, 2}, Indices{8, 12}), {{1, 1}, {1, 1}},
                Boundary::uniform(2, Edge::periodic));
  int num_node = 0;
  int num_other = 0;
  for (auto const& path : plan.paths()) {
    bool const here = path.peer / 2 == comm.rank() / 2;
    EXPECT_EQ(path.path, here ? Transport::node_shared : Transport::point_to_point) << path.reason;
    ++(here ? num_node : num_other);
  }

  EXPECT_EQ(num_node, 1);
  EXPECT_EQ(num_other, 2);
}

// Small messages and such as exceed what MPI sends eagerly.
TEST(TwoNodes, halos_are_filled_at_every_call) {
  auto const comm = Comm::world();
  for (Index const scale : {1, 20})
    for (Layout const& layout : layouts(scale)) {
      HaloPlan plan(comm, layout, {{3, 2}, {1, 3}}, Boundary::sphere(Edge::pole_face));
      for (int call = 0; call < 5; ++call) {
        auto field = field_of_call(plan, call);

        plan.exchange(field.view());

        expect_filled(field, plan, layout, call);
        if (call == 2) plan.set_transport(Transport::point_to_point);
      }
    }
}

TEST(TwoNodes, exchanges_may_overlap) {
  auto const comm = Comm::world();
  for (Layout const& layout : layouts(1)) {
    HaloPlan const plan(comm, layout, {{2, 2}, {2, 2}}, Boundary::sphere(Edge::pole_face));
    for (int call = 0; call < 10; call += 2) {
      auto first = field_of_call(plan, call);
      auto second = field_of_call(plan, call + 1);

      auto pending_first = plan.start(first.view());
      auto pending_second = plan.start(second.view());
      if (comm.node_rank() == 0) pending_second.wait();
      pending_first.wait();
      if (comm.node_rank() != 0) pending_second.wait();

      expect_filled(first, plan, layout, call);
      expect_filled(second, plan, layout, call + 1);
    }
  }
}

// <Ax, y> = <x, A'y>, in integers.
TEST(TwoNodes, adjoints_pass_the_dot_test_exactly) {
  auto const comm = Comm::world();
  for (Layout const& layout : layouts(1)) {
    HaloPlan const plan(comm, layout, {{2, 3}, {1, 2}}, Boundary::sphere(Edge::pole_face));
    auto x = field_of_call(plan, 0);
    TestField<double> y(plan.local(), {batch_size}, MemoryShape::dense(2, 1), 0);
    y.set(plan.local(), [&](auto const& b, auto const& cell) {
      return double(test::bits_of<std::int8_t>(b, cell, std::uint64_t(comm.rank())));
    });
    auto ax = x;
    auto aty = y;

    plan.exchange(ax.view());
    plan.exchange_adjoint(aty.view());

    std::array<double, 2> products{0, 0};
    y.for_each(plan.local(), [&](auto const& b, auto const& cell) { products[0] += ax.at(b, cell) * y.at(b, cell); });
    y.for_each(plan.owned(), [&](auto const& b, auto const& cell) { products[1] += x.at(b, cell) * aty.at(b, cell); });
    comm.sum(products);
    EXPECT_NE(products[0], 0);
    EXPECT_EQ(products[0], products[1]) << to_string(layout);
  }
}

TEST(TwoNodes, cells_move_between_layouts) {
  auto const comm = Comm::world();
  for (Index const scale : {1, 20})
    for (Layout const& from : layouts(scale))
      for (Layout const& to : layouts(scale)) {
        RepartitionPlan const plan(comm, from, to);
        auto const shape = MemoryShape::dense(2, 1);
        TestField<double> source(from.owned(comm.rank()), {batch_size}, shape, 0);
        source.set(source.cover(), [](auto const& b, auto const& cell) { return number(b, cell, 0); });
        TestField<double> target(to.owned(comm.rank()), {batch_size}, shape, -1);
        auto expected = target;
        expected.set(target.cover(), [](auto const& b, auto const& cell) { return number(b, cell, 0); });

        plan.apply(source.view(), target.view());

        EXPECT_TRUE(target.holds(expected)) << to_string(from) << " to " << to_string(to);
      }
}

}  // namespace
