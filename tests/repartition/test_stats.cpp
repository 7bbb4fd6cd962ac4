// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/stats.hpp>

#include "test_field.hpp"

#include <gtest/gtest.h>

#include <string>

using namespace graticule;
using test::MemoryShape;
using test::TestField;

namespace {

/// Two rows and three columns of a transpose for each rank.
struct Transpose {
  explicit Transpose(Comm const& comm)
      : extents{2 * comm.num_ranks(), 3 * comm.num_ranks()},
        plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, extents),
             Layout(ProcessGrid{1, comm.num_ranks()}, extents)) {}

  void apply(int num_calls) {
    TestField<double> from(plan.source_box(), {}, MemoryShape::dense(2, 0), 1);
    TestField<double> to(plan.target_box(), {}, MemoryShape::dense(2, 0), 0);
    for (int call = 0; call < num_calls; ++call) plan.apply(from.view(), to.view());
  }

  Indices extents;
  RepartitionPlan plan;
};

TEST(PullStats, are_zero_before_the_first_call) {
  Transpose const move(Comm::world());

  auto const stats = move.plan.stats();

  EXPECT_EQ(stats.num_calls, 0);
  EXPECT_EQ(stats.point_to_point.num_messages + stats.node_packed.num_messages + stats.node_in_place.num_messages, 0);
  EXPECT_EQ(stats.local_bytes, 0);
  EXPECT_EQ(stats.wait_seconds, 0);
}

TEST(PullStats, count_calls_and_the_bytes_of_cells_by_path) {
  auto const comm = Comm::world();
  Transpose move(comm);
  Index const peers = comm.num_ranks() - 1;
  Index const block_bytes = 2 * 3 * Index(sizeof(double));

  move.apply(4);
  auto const stats = move.plan.stats();

  EXPECT_EQ(stats.num_calls, 4);
  EXPECT_EQ(stats.local_bytes, 4 * block_bytes);
  EXPECT_EQ(stats.point_to_point.num_messages + stats.node_packed.num_messages + stats.node_in_place.num_messages,
            4 * peers);
  EXPECT_EQ(stats.point_to_point.bytes + stats.node_packed.bytes + stats.node_in_place.bytes, 4 * peers * block_bytes);
  EXPECT_GE(stats.pack_seconds, 0);
  EXPECT_GE(stats.wait_seconds, 0);
  EXPECT_GE(stats.num_workspaces, 1);
}

TEST(PullStats, follow_the_path_that_is_chosen) {
  auto const comm = Comm::world();
  Transpose move(comm);
  move.plan.set_transport(Transport::point_to_point);

  move.apply(2);
  auto const stats = move.plan.stats();

  EXPECT_EQ(stats.point_to_point.num_messages, 2 * (comm.num_ranks() - 1));
  EXPECT_EQ(stats.node_packed.num_messages + stats.node_in_place.num_messages, 0);
}

TEST(PullStats, print_one_line_for_each_path) {
  PullStats stats;
  stats.num_calls = 7;
  stats.point_to_point = {.num_messages = 3, .bytes = 48};
  stats.node_in_place = {.num_messages = 5, .bytes = 96};
  stats.local_bytes = 11;
  stats.wait_seconds = 0.25;

  auto const text = to_string(stats);

  EXPECT_EQ(text.rfind("7 calls\n", 0), 0U) << text;
  for (auto const* line : {"  point-to-point: 3 messages, 48 bytes\n", "  node-shared, packed: 0 messages, 0 bytes\n",
                           "  node-shared, in place: 5 messages, 96 bytes\n", "  local: 11 bytes\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_NE(text.find("waiting 250.0"), std::string::npos) << text;
}

}  // namespace
