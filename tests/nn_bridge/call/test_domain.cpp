// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/domain.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <array>

namespace graticule {
namespace test_domain {

using test::rule_of;

TEST(Domain, gives_each_rank_its_place_in_the_grid) {
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    nn::Domain const domain(comm, grid);

    EXPECT_EQ(domain.grid(), grid);
    EXPECT_EQ(domain.comm().rank(), comm.rank());
    EXPECT_EQ(grid.rank({domain.latitude_part(), domain.longitude_part()}), comm.rank());
    EXPECT_EQ(domain.sharding(), (nn::Sharding{{-2, -1}, grid}));
  }
}

TEST(Domain, copies_share_one_state) {
  auto const comm = Comm::world();
  nn::Domain domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::uniform(2, Edge::replicate));
  auto copy = domain;
  EXPECT_EQ(domain.call_checks(), nn::CallChecks::every_call);

  copy.set_call_checks(nn::CallChecks::new_structures);
  int const first = domain.next_ordinal();

  EXPECT_EQ(domain.call_checks(), nn::CallChecks::new_structures);
  EXPECT_EQ(copy.next_ordinal(), first + 1);
  EXPECT_EQ(copy.boundary().fingerprint(), Boundary::uniform(2, Edge::replicate).fingerprint());
  EXPECT_EQ(nn::Domain(comm, ProcessGrid{comm.num_ranks(), 1}).next_ordinal(), 1);
}

TEST(Domain, keeps_the_communicators_that_are_split_off) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  ASSERT_EQ(domain.comms().size(), 1U);

  auto const part = domain.split(comm.rank() % 2);

  EXPECT_EQ(part.num_ranks(), (comm.num_ranks() + 1 - comm.rank() % 2) / 2);
  EXPECT_EQ(part.rank(), comm.rank() / 2);
  ASSERT_EQ(domain.comms().size(), 2U);
  EXPECT_EQ(domain.comms()[0].handle(), domain.comm().handle());
  EXPECT_EQ(domain.comms()[1].handle(), part.handle());
  std::array<Index, 1> ones{1};
  part.sum(ones);
  EXPECT_EQ(ones[0], part.num_ranks());
}

TEST(Domain, refuses_grids_and_boundaries_that_are_not_of_latitude_and_longitude_over_all_ranks) {
  auto const comm = Comm::world();
  auto const n = comm.num_ranks();
  auto const make = [&](ProcessGrid const& grid, Boundary const& boundary = Boundary::sphere(Edge::pole_face)) {
    return rule_of([&] { nn::Domain const domain(comm, grid, boundary); });
  };

  EXPECT_EQ(make(ProcessGrid{n}), "BadProcessGrid");
  EXPECT_EQ(make(ProcessGrid{1, n, 1}), "BadProcessGrid");
  EXPECT_EQ(make(ProcessGrid{n + 1, 1}), "BadProcessGrid");
  EXPECT_EQ(make(ProcessGrid{n, 1}, Boundary::uniform(1, Edge::replicate)), "BadProcessGrid");
  EXPECT_EQ(make(ProcessGrid{n, 1}), "nothing was thrown");
  if (n > 1) {
    EXPECT_EQ(make(comm.rank() == 0 ? ProcessGrid{n, 1} : ProcessGrid{1, n}), "BadProcessGrid");
    EXPECT_EQ(make(ProcessGrid{n, 1}, Boundary::sphere(comm.rank() == 0 ? Edge::pole_face : Edge::pole_row)),
              "BadProcessGrid");
  }
}

}  // namespace test_domain
}  // namespace graticule
