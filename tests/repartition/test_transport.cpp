// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace graticule {
namespace {

/// Each rank owns 4 cells of a ring and needs the 4 of the next rank; or only the ranks in `needy` need them.
class Ring {
 public:
  explicit Ring(Comm const& comm, std::vector<int> const& needy = {})
      : layout(ProcessGrid{comm.num_ranks()}, Indices{4 * comm.num_ranks()}), comm_(comm) {
    Index const n = layout.global().hi(0);
    Box const own = layout.owned(comm.rank());
    needed = Box({own.lo(0) + 4}, {own.hi(0) + 4});
    bool const needs = needy.empty() || std::find(needy.begin(), needy.end(), comm.rank()) != needy.end();
    auto const map = [n](Box const& box) {
      AxisMaps maps{};
      maps[0] = {0, 1, box.lo(0) >= n ? -n : 0};
      return std::vector<Piece>{{box, maps}};
    };
    std::vector<Box> boxes;
    if (needs) boxes.push_back(needed);
    plan.emplace(comm, PullDescription{layout, {{own, {{needed, boxes}}, map}}, 1, AfterAdjoint::keep});
  }

  /// What this rank gets when rank r owns `base + r`.
  [[nodiscard]] double expected(double base) const { return base + double((comm_.rank() + 1) % comm_.num_ranks()); }

  Layout layout;
  Box needed;
  std::optional<PullPlan> plan;

 private:
  Comm comm_;
};

/// A source and a target of 4 cells for each, in shared or private memory.
struct Cells {
  NodeMemory memory{8 * sizeof(double)};
  std::vector<double> privately = std::vector<double>(8, 0.0);
  double* source;
  double* target;
  FieldView target_view;

  explicit Cells(bool shared)
      : source(shared ? memory.data<double>() : privately.data()),
        target(source + 4),
        target_view(field_view(target, {4}, 1)) {}

  [[nodiscard]] PullField field() const { return {field_view(source, {4}, 1), std::span(&target_view, 1)}; }
};

TEST(Transport, is_node_shared_between_ranks_of_a_node_and_says_why) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  Ring ring(comm);
  for (auto const& path : ring.plan->paths()) {
    bool const here = comm.on_this_node(path.peer);
    EXPECT_EQ(path.path, here ? Transport::node_shared : Transport::point_to_point) << path.reason;
    EXPECT_EQ(path.reason, here ? "same node" : "on another node");
  }

  ring.plan->set_transport(Transport::point_to_point);

  for (auto const& path : ring.plan->paths()) EXPECT_EQ(path.path, Transport::point_to_point);
}

TEST(Transport, gives_the_same_cells_on_every_path_and_from_every_memory) {
  auto const comm = Comm::world();
  Ring ring(comm);
  int call = 0;
  for (int repeat = 0; repeat < 70; ++repeat)
    for (auto const transport : {Transport::automatic, Transport::point_to_point, Transport::node_shared})
      for (bool const shared : {false, true}) {
        ring.plan->set_transport(transport);
        Cells cells(shared);
        double const base = 1000.0 * ++call;
        std::fill_n(cells.source, 4, base + comm.rank());
        auto const field = cells.field();

        ring.plan->apply(std::span(&field, 1));
        std::fill_n(cells.source, 4, -1.0);

        for (int i = 0; i < 4; ++i) ASSERT_EQ(cells.target[i], ring.expected(base)) << "call " << call;
      }
}

// MPI would deliver the message while the peer computes or waits for something else; so must shared memory.
TEST(Transport, does_not_hold_up_a_rank_whose_peers_are_late) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  Ring ring(comm);
  Cells cells(true);
  std::fill_n(cells.source, 4, 10.0 + comm.rank());
  auto const field = cells.field();
  auto pending = ring.plan->start(std::span(&field, 1));

  // The odd ranks wait for a message that the even ones send after their own wait.
  if (comm.rank() % 2 == 1) {
    int token = 0;
    check_mpi(MPI_Recv(&token, 1, MPI_INT, comm.rank() - 1, 999, comm.handle(), MPI_STATUS_IGNORE), "MPI_Recv");
  }
  pending.wait();
  std::fill_n(cells.source, 4, -1.0);
  if (comm.rank() % 2 == 0 && comm.rank() + 1 < comm.num_ranks()) {
    int const token = 1;
    check_mpi(MPI_Send(&token, 1, MPI_INT, comm.rank() + 1, 999, comm.handle()), "MPI_Send");
  }

  for (int i = 0; i < 4; ++i) EXPECT_EQ(cells.target[i], ring.expected(10));
}

TEST(Transport, lets_a_rank_that_only_sends_run_ahead_and_drop_its_plan) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 2) GTEST_SKIP() << "for two ranks";
  for (bool const shared : {false, true}) {
    std::optional<Ring> ring(std::in_place, comm, std::vector{0});
    Cells cells(shared);
    auto const field = cells.field();
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int call = 0; call < 200; ++call) {
      std::fill_n(cells.source, 4, 100.0 * call + comm.rank());
      ring->plan->apply(std::span(&field, 1));
      if (comm.rank() == 0) {
        ASSERT_EQ(cells.target[3], 100.0 * call + 1);
      }
    }
    ring.reset();
  }
}

// The bytes are as many, so that MPI alone would not notice.
TEST(Transport, reports_fields_of_another_type_on_a_peer) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  if (comm.num_nodes() > 1) GTEST_SKIP() << "for ranks of one node";
  Ring ring(comm);
  Cells cells(false);
  auto target = cells.target_view;
  auto source = field_view(cells.source, {4}, 1);
  if (comm.rank() == 0) target.dtype = source.dtype = DType::i64;
  PullField const field{source, std::span(&target, 1)};

  auto const thrown = test::thrown_by([&] { ring.plan->apply(std::span(&field, 1)); });

  bool const differs = comm.rank() == 0 || (comm.rank() + 1) % comm.num_ranks() == 0;
  EXPECT_EQ(thrown.rule, differs ? "FieldMismatch" : "nothing was thrown");
}

// The order of calls is what ranks must agree on; each may end them in an order of its own.
TEST(Transport, does_not_need_the_same_order_of_waits) {
  auto const comm = Comm::world();
  for (bool const shared : {false, true}) {
    Ring ring(comm);
    constexpr int num_calls = 12;
    std::vector<std::unique_ptr<Cells>> cells;
    std::vector<Pending> pending;
    for (int call = 0; call < num_calls; ++call) {
      cells.push_back(std::make_unique<Cells>(shared));
      std::fill_n(cells.back()->source, 4, 100.0 * call + comm.rank());
      auto const field = cells.back()->field();
      pending.push_back(ring.plan->start(std::span(&field, 1)));
      if (comm.rank() % 2 == 1) pending.back().wait();
    }
    for (int call = num_calls - 1; call >= 0; --call) pending[std::size_t(call)].wait();

    for (int call = 0; call < num_calls; ++call)
      for (int i = 0; i < 4; ++i) EXPECT_EQ(cells[std::size_t(call)]->target[i], ring.expected(100.0 * call));
  }
}

TEST(Transport, reports_fields_of_another_type_in_messages_too) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  Ring ring(comm);
  ring.plan->set_transport(Transport::point_to_point);
  Cells cells(false);
  auto field = cells.field();
  if (comm.rank() == 0) field.parity = Parity::odd;

  auto const thrown = test::thrown_by([&] { ring.plan->apply(std::span(&field, 1)); });

  bool const differs = comm.rank() == 0 || (comm.rank() + 1) % comm.num_ranks() == 0;
  EXPECT_EQ(thrown.rule, differs ? "FieldMismatch" : "nothing was thrown") << thrown.text;
}

/// A field that no plan takes.
PullField wrong(PullField field) {
  ++field.source.extents[0];
  return field;
}

// Rank 0 refuses a call between others: those around it are right, and only the rank that needs its cells is told.
TEST(Transport, refused_calls_end_on_the_peers_and_the_calls_around_them_go_on) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  bool const refuses = comm.rank() == 0;
  bool const needs = (comm.rank() + 1) % comm.num_ranks() == 0;
  Ring ring(comm);
  // More calls than posts in a ring.
  for (int repeat = 0; repeat < 100; ++repeat)
    for (auto const transport : {Transport::point_to_point, Transport::node_shared})
      for (bool const shared : {false, true}) {
        ring.plan->set_transport(transport);
        std::array<Cells, 3> cells{Cells(shared), Cells(shared), Cells(shared)};
        for (int call = 0; call < 3; ++call)
          std::fill_n(cells[std::size_t(call)].source, 4, 100.0 * call + comm.rank());
        auto const before = cells[0].field();
        auto const between = refuses ? wrong(cells[1].field()) : cells[1].field();
        auto const after = cells[2].field();
        auto first = ring.plan->start(std::span(&before, 1));
        Pending second;
        EXPECT_EQ(test::rule_of([&] { second = ring.plan->start(std::span(&between, 1)); }),
                  refuses ? "FieldMismatch" : "nothing was thrown");
        auto third = ring.plan->start(std::span(&after, 1));

        third.wait();
        auto const thrown = test::thrown_by([&] { second.wait(); });
        first.wait();

        ASSERT_EQ(thrown.rule, needs ? "PeerRefused" : "nothing was thrown") << thrown.text;
        for (int i = 0; i < 4; ++i) {
          ASSERT_EQ(cells[0].target[i], ring.expected(0));
          ASSERT_EQ(cells[2].target[i], ring.expected(200));
        }
      }
}

TEST(Transport, a_rank_that_refuses_a_call_waits_for_nobody) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  bool const refuses = comm.rank() == 0;
  bool const needs = (comm.rank() + 1) % comm.num_ranks() == 0;
  for (auto const transport : {Transport::point_to_point, Transport::node_shared}) {
    Ring ring(comm);
    ring.plan->set_transport(transport);
    Cells cells(false);
    auto const field = refuses ? wrong(cells.field()) : cells.field();
    int token = 0;
    // The others begin the call when rank 0 has refused it.
    if (!refuses) check_mpi(MPI_Recv(&token, 1, MPI_INT, 0, 999, comm.handle(), MPI_STATUS_IGNORE), "MPI_Recv");
    auto const rule = test::rule_of([&] { ring.plan->apply(std::span(&field, 1)); });
    EXPECT_EQ(rule, refuses ? "FieldMismatch" : needs ? "PeerRefused" : "nothing was thrown");
    for (int r = 1; refuses && r < comm.num_ranks(); ++r)
      check_mpi(MPI_Send(&token, 1, MPI_INT, r, 999, comm.handle()), "MPI_Send");
  }
}

// GRATICULE_STALL_SECONDS=1 is set for this test.
TEST(Transport, a_refused_call_that_no_peer_makes_ends_with_the_plan) {
  auto const comm = Comm::world();
  char const* const limit = std::getenv("GRATICULE_STALL_SECONDS");
  if (comm.num_ranks() == 1 || !limit || std::string(limit) != "1") GTEST_SKIP() << "for ranks that stall after 1 s";
  for (auto const transport : {Transport::point_to_point, Transport::node_shared}) {
    Ring ring(comm);
    ring.plan->set_transport(transport);
    Cells cells(false);
    auto const field = wrong(cells.field());
    double const begin = MPI_Wtime();
    if (comm.rank() == 0) {
      EXPECT_EQ(test::rule_of([&] { ring.plan->apply(std::span(&field, 1)); }), "FieldMismatch");
    }
    EXPECT_LT(MPI_Wtime() - begin, 60);
    ring.plan.reset();
    EXPECT_LT(MPI_Wtime() - begin, 60);
  }
  test::forgive_left_objects();
}

}  // namespace
}  // namespace graticule
