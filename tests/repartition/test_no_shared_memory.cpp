// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "no_files.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace graticule {
namespace {

// The first plan of the process, so that no shared memory is at hand yet.
TEST(NoSharedMemory, on_one_rank_sends_messages_to_and_from_it) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers open files to look at memory";
#endif
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{6, 4});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{6, 4});
  // All ranks have talked to each other before files run out.
  std::vector<Index> const greetings = comm.gather_to_all(1);
  std::optional<test::NoFiles> no_files;
  if (comm.rank() == 0) no_files.emplace();

  RepartitionPlan const plan(comm, rows, columns);
  if (comm.rank() == 0) {
    EXPECT_FALSE(NodeMemory(100).shared());
  }
  no_files.reset();

  for (auto const& path : plan.paths()) {
    bool const without = comm.rank() == 0 || path.peer == 0;
    EXPECT_EQ(path.path, without ? Transport::point_to_point : Transport::node_shared);
    if (without) {
      EXPECT_EQ(path.reason, comm.rank() == 0 ? "this rank has no memory to share" : "the peer shares no memory");
    }
  }
  std::vector<double> from(std::size_t(plan.source_box().num_cells()), comm.rank());
  std::vector<double> to(std::size_t(plan.target_box().num_cells()), -1);
  plan.apply(field_view(from.data(), plan.source_box().extents(), 2),
             field_view(to.data(), plan.target_box().extents(), 2));
  for (Index row = 0; row < 6; ++row)
    for (Index j = 0; j < plan.target_box().extent(1); ++j) {
      int owner = 0;
      while (!rows.owned(owner).contains({row, 0})) ++owner;
      EXPECT_EQ(to[std::size_t(row * plan.target_box().extent(1) + j)], owner);
    }
}

}  // namespace
}  // namespace graticule
