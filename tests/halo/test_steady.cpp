// SPDX-License-Identifier: BSD-3-Clause
// What a plan does once it has seen its calls: messages, and nothing else.
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/plan.hpp>

#include "allocations.hpp"
#include "mpi/pmpi_shim.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

using namespace graticule;
using test::MemoryShape;
using test::mpi_calls;
using test::MpiCalls;
using test::num_allocations;
using test::TestField;

namespace {

/// What some calls of MPI and of the allocator were made for.
struct Made {
  MpiCalls mpi;
  long num_allocations = 0;
};

Made made_by(std::function<void()> const& action) {
  MpiCalls const before = mpi_calls();
  long const allocations_before = num_allocations();
  action();
  Made made{mpi_calls(), num_allocations() - allocations_before};
  made.mpi.starts -= before.starts;
  made.mpi.collectives -= before.collectives;
  made.mpi.communicators -= before.communicators;
  made.mpi.windows -= before.windows;
  made.mpi.types -= before.types;
  made.mpi.persistent -= before.persistent;
  made.mpi.sends -= before.sends;
  made.mpi.receives -= before.receives;
  return made;
}

/// After some calls, `step` must do nothing but send and receive. A rank whose peers are late to read makes one more
/// workspace for them, so the ranks try until none does; one that allocates with every call never passes.
void expect_only_messages(Comm const& comm, std::function<void()> const& step, Index max_starts,
                          Index max_single_messages = 0) {
  constexpr int max_tries = 20;
  constexpr int num_steps = 5;
  step();
  step();
  Made made;
  for (int tries = 0; tries < max_tries; ++tries) {
    made = made_by([&] {
      for (int i = 0; i < num_steps; ++i) step();
    });
    std::array<Index, 1> anywhere{made.num_allocations + made.mpi.persistent};
    comm.max(anywhere);
    if (anywhere[0] == 0) break;
  }

  EXPECT_EQ(made.num_allocations, 0);
  EXPECT_EQ(made.mpi.persistent, 0);
  EXPECT_LE(made.mpi.starts, num_steps * max_starts);
  EXPECT_EQ(made.mpi.collectives, 0);
  EXPECT_EQ(made.mpi.communicators, 0);
  EXPECT_EQ(made.mpi.windows, 0);
  EXPECT_EQ(made.mpi.types, 0);
  EXPECT_LE(made.mpi.sends + made.mpi.receives, num_steps * max_single_messages);
}

Layout bands(int num_ranks) { return {ProcessGrid{num_ranks, 1}, Indices{3 * num_ranks, 8}}; }

TEST(Steady, counters_see_what_they_count) {
  MpiCalls const before = mpi_calls();
  long const allocations_before = num_allocations();
  {
    auto const comm = Comm::world();
    comm.barrier();
    std::vector<double> const memory(100, 1.0);
    EXPECT_EQ(memory[99], 1.0);
  }

  EXPECT_GT(mpi_calls().communicators, before.communicators);
  EXPECT_GT(mpi_calls().collectives, before.collectives);
  EXPECT_GT(num_allocations(), allocations_before);
}

TEST(Steady, a_halo_exchange_is_its_messages) {
  auto const comm = Comm::world();
  HaloPlan const plan(comm, bands(comm.num_ranks()), {{2, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face));
  TestField<double> scalar(plan.local(), {3}, MemoryShape::dense(2, 1), 1);
  TestField<float> vector(plan.local(), {}, MemoryShape::dense(2, 0), 1);
  std::array<HaloField, 2> const fields{{{scalar.view(), Parity::even}, {vector.view(), Parity::odd}}};
  auto const counts = plan.counts();

  expect_only_messages(
      comm, [&] { plan.exchange(fields); }, counts.num_send_peers + counts.num_receive_peers);
}

TEST(Steady, an_adjoint_is_its_messages) {
  auto const comm = Comm::world();
  HaloPlan const plan(comm, bands(comm.num_ranks()), {{1, 2}, {1, 1}}, Boundary::sphere(Edge::pole_row));
  TestField<double> field(plan.local(), {2}, MemoryShape::dense(2, 1), 0);
  auto const view = field.view();
  auto const counts = plan.counts();

  expect_only_messages(
      comm, [&] { plan.exchange_adjoint(view); }, counts.num_send_peers + counts.num_receive_peers);
}

TEST(Steady, exchanges_in_flight_together_are_their_messages) {
  auto const comm = Comm::world();
  HaloPlan const plan(comm, bands(comm.num_ranks()), {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face));
  TestField<double> first(plan.local(), {2}, MemoryShape::dense(2, 1), 1);
  TestField<double> second(plan.local(), {2}, MemoryShape::dense(2, 1), 2);
  auto const first_view = first.view();
  auto const second_view = second.view();
  auto const counts = plan.counts();

  expect_only_messages(
      comm,
      [&] {
        auto pending_first = plan.start(first_view);
        auto pending_second = plan.start(second_view);
        pending_second.wait();
        pending_first.wait();
      },
      2 * Index(counts.num_send_peers + counts.num_receive_peers));
}

TEST(Steady, a_repartition_and_its_adjoint_are_their_messages) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  RepartitionPlan const plan(comm, bands(n), Layout(ProcessGrid{1, n}, Indices{3 * n, 8}));
  TestField<double> from(plan.source_box(), {2}, MemoryShape::dense(2, 1), 1);
  TestField<double> to(plan.target_box(), {2}, MemoryShape::dense(2, 1), 0);
  auto const from_view = from.view();
  auto const to_view = to.view();

  expect_only_messages(
      comm,
      [&] {
        plan.apply(from_view, to_view);
        plan.apply_adjoint(from_view, to_view);
      },
      0, 4 * Index(n));
}

}  // namespace
