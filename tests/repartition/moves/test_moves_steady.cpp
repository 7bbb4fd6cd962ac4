// SPDX-License-Identifier: BSD-3-Clause
// After its first calls a plan allocates nothing, whichever way it moves.
#include <graticule/repartition/plan.hpp>

#include "allocations.hpp"
#include "moves_support.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

using namespace graticule;
using test::MemoryShape;
using test::TestField;

namespace {

/// A rank whose peers are late to read makes one more workspace for them, so the ranks try until none does; one that
/// allocates with every call never passes.
void expect_no_allocations(Comm const& comm, char const* what, std::function<void()> const& step) {
  std::array<Index, 1> most{1};
  for (int tries = 0; tries < 20 && most[0] > 0; ++tries) {
    long const before = test::num_allocations();
    for (int i = 0; i < 3; ++i) step();
    most[0] = test::num_allocations() - before;
    comm.max(most);
  }
  EXPECT_EQ(most[0], 0) << what;
}

TEST(MovesSteady, allocate_nothing_after_the_first_calls) {
  auto const comm = Comm::world();
  // Messages of several segments.
  Indices const extents{2 * comm.num_ranks(), 80000 * comm.num_ranks()};
  RepartitionPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, extents),
                             Layout(ProcessGrid{1, comm.num_ranks()}, extents));
  TestField<float> from(plan.source_box(), {}, MemoryShape::dense(2, 0), 1);
  TestField<float> to(plan.target_box(), {}, MemoryShape::dense(2, 0), 2);
  TestField<double> wide(plan.target_box(), {}, MemoryShape::dense(2, 0), 3);
  auto const a = from.view();
  auto const b = to.view();
  std::array<RepartitionField, 2> const two{{{.from = a, .to = b}, {.from = a, .to = wide.view()}}};

  expect_no_allocations(comm, "apply", [&] { plan.apply(a, b); });
  expect_no_allocations(comm, "apply_adjoint", [&] { plan.apply_adjoint(a, b); });
  expect_no_allocations(comm, "apply_inverse", [&] { plan.apply_inverse(a, b); });
  expect_no_allocations(comm, "start", [&] { plan.start(a, b).wait(); });
  expect_no_allocations(comm, "two in flight", [&] {
    auto first = plan.start(a, b);
    auto second = plan.start(a, wide.view());
    second.wait();
    first.wait();
  });
  expect_no_allocations(comm, "several fields", [&] { plan.apply(two); });
}

}  // namespace
