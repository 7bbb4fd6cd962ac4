// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <graticule/partition/comm.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace graticule::test {

namespace detail {

/// The communicator of the running test.
struct World : testing::Environment {
  std::optional<Comm> comm;
  testing::TestInfo const* test = nullptr;

  static World& get() {
    // GoogleTest owns it and tears it down before MPI ends.
    static auto* const world = new World;
    return *world;
  }
  void TearDown() override { comm.reset(); }
};

inline testing::Environment* const released_world = testing::AddGlobalTestEnvironment(&World::get());

}  // namespace detail

/// A communicator of all ranks for the running test, which it shares with no other test. To duplicate
/// `MPI_COMM_WORLD` for each case takes most of the time where ranks outnumber cores. The first call in a test is
/// collective.
inline Comm world() {
  auto& world = detail::World::get();
  auto const* const test = testing::UnitTest::GetInstance()->current_test_info();
  if (!world.comm || world.test != test) world.comm.emplace(Comm::world());
  world.test = test;
  return *world.comm;
}

/// This rank in `MPI_COMM_WORLD`, without communication.
inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace graticule::test
