// SPDX-License-Identifier: BSD-3-Clause
// Plans after a failure: refused when their communicator was renewed, made again, and destroyed with calls under way.
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "transposition.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace graticule {
namespace {

using test::Transposition;

bool fails(Comm const& comm) { return comm.rank() == comm.num_ranks() - 1; }

TEST(StalePlan, is_refused_after_its_communicator_was_renewed_and_a_new_one_is_right) {
  auto const comm = Comm::world();
  Transposition old(comm);
  old.expect_right();
  auto pending = old.plan.start(old.source(), old.target());
  pending.wait();

  comm.renew();

  auto const thrown = test::thrown_by([&] { old.plan.apply(old.source(), old.target()); });
  EXPECT_EQ(thrown.rule, "StalePlan");
  EXPECT_NE(thrown.text.find("construct it again"), std::string::npos) << thrown.text;
  Transposition renewed(comm);
  renewed.expect_right();
  test::forgive_left_objects();
}

// The last rank fails between two calls, with a call of its own under way on the others.
TEST(StalePlan, is_destroyed_in_no_time_with_a_call_under_way) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  for (int turn = 0; turn < 3; ++turn) {
    auto old = std::make_unique<Transposition>(comm);
    old->expect_right();
    if (fails(comm))
      announce_failure(std::span(&comm, 1), "lost");
    else
      EXPECT_EQ(test::rule_of([&] { old->expect_right(); }), "PeerFailed");
    double const begin = MPI_Wtime();

    if (turn == 0) old.reset();
    comm.renew();
    old.reset();

    EXPECT_LT(MPI_Wtime() - begin, 9) << "a plan that nobody answers may take 10 s";
    Transposition(comm).expect_right();
  }
  test::forgive_left_objects();
}

TEST(StalePlan, ends_a_call_that_was_started_before_the_failure) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  Transposition old(comm);
  auto started = fails(comm) ? Pending() : old.plan.start(old.source(), old.target());
  if (fails(comm))
    announce_failure(std::span(&comm, 1), "lost");
  else
    EXPECT_EQ(test::rule_of([&] { comm.barrier(); }), "PeerFailed");

  comm.renew();

  if (!fails(comm)) {
    EXPECT_EQ(test::rule_of([&] { started.wait(); }), "StalePlan");
  }
  Transposition(comm).expect_right();
  test::forgive_left_objects();
}

}  // namespace
}  // namespace graticule
