// SPDX-License-Identifier: BSD-3-Clause
// Runs with GRATICULE_CHECK=all and GRATICULE_STALL_SECONDS=1.
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "transposition.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

namespace graticule {
namespace {

using test::Transposition;

TEST(CheckMode, compares_the_calls_of_all_ranks) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Transposition t(comm);
  t.plan.apply(t.source(), t.target());

  bool const adjoint = comm.rank() == 1;
  auto const thrown = test::thrown_by([&] {
    if (adjoint)
      t.plan.apply_adjoint(t.source(), t.target());
    else
      t.plan.apply(t.source(), t.target());
  });

  EXPECT_EQ(thrown.rule, "CallDisagreement");
  EXPECT_NE(thrown.text.find("call"), std::string::npos);
  EXPECT_NE(thrown.text.find("adjoint"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("rank 1"), std::string::npos) << thrown.text;
}

// Calls that differ in one thing only, which the text names.
TEST(CheckMode, names_what_differs_between_calls) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Transposition t(comm);
  bool const other = comm.rank() == comm.num_ranks() - 1;
  std::vector<float> floats(t.to.size());
  auto const pulled = [&] { return PullField{.source = t.source(), .targets = {}}; };
  auto const expect_named = [&](PullField field, FieldView const& target, char const* words) {
    field.targets = std::span(&target, 1);
    auto const thrown = test::thrown_by([&] { t.plan.pull_plan().apply(std::span(&field, 1)); });
    EXPECT_EQ(thrown.rule, "CallDisagreement");
    EXPECT_NE(thrown.text.find(words), std::string::npos) << thrown.text << ": not " << words;
  };

  auto field = pulled();
  field.parity = other ? Parity::odd : Parity::even;
  expect_named(field, t.target(), "odd parity");
  field = pulled();
  if (other) field.update.alpha = 2.5;
  expect_named(field, t.target(), "alpha 2.5");
  field = pulled();
  field.update.beta = other ? 1 : 2;
  expect_named(field, t.target(), "beta 2");
  field = pulled();
  auto target = t.target();
  if (other) target.data = floats.data();
  if (other) target.dtype = DType::f32;
  expect_named(field, target, "f64 to f32");
  // Behind many others.
  std::vector<FieldView> targets(40, t.target());
  std::vector<std::vector<double>> memory(40, t.to);
  std::vector<PullField> many;
  for (std::size_t f = 0; f < targets.size(); ++f) {
    targets[f].data = memory[f].data();
    many.push_back({.source = t.source(), .targets = std::span(&targets[f], 1)});
  }
  many.back().parity = other ? Parity::odd : Parity::even;
  auto const thrown = test::thrown_by([&] { t.plan.pull_plan().apply(many); });
  EXPECT_NE(thrown.text.find("39 times f64"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("odd parity"), std::string::npos) << thrown.text;
}

TEST(CheckMode, names_what_differs_between_plans) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  bool const other = comm.rank() == comm.num_ranks() - 1;
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{4 * comm.num_ranks(), 4 * comm.num_ranks()});

  auto const turned = test::thrown_by([&] {
    RepartitionPlan(comm, rows, rows, {.permutation = other ? Indices{1, 0} : Indices{0, 1}});
  });
  EXPECT_EQ(turned.rule, "ArgumentDisagreement");
  EXPECT_NE(turned.text.find("permutation (1, 0)"), std::string::npos) << turned.text;
  auto const chosen = test::thrown_by([&] {
    RepartitionPlan(comm, rows, rows.owned(comm.rank()),
                    {.from = Selection::every_nth(rows.global(), other ? Indices{-1, 1} : Indices{1, 1})});
  });
  EXPECT_EQ(chosen.rule, "ArgumentDisagreement");
  EXPECT_NE(chosen.text.find("from "), std::string::npos) << chosen.text;
}

TEST(CheckMode, tells_all_ranks_of_a_refused_call) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Transposition t(comm);
  auto source = t.source();
  if (comm.rank() == 1) ++source.extents[1];

  auto const thrown = test::thrown_by([&] { t.plan.apply(source, t.target()); });

  EXPECT_EQ(thrown.rule, comm.rank() == 1 ? "FieldMismatch" : "CallDisagreement");
  EXPECT_NE(thrown.text.find("the plan's box"), std::string::npos) << thrown.text;
  t.plan.apply(t.source(), t.target());
  for (double const value : t.to) EXPECT_EQ(value, 3.0);
}

TEST(CheckMode, poisons_what_a_call_fills) {
  auto const comm = Comm::world();
  Transposition t(comm);

  auto pending = t.plan.start(t.source(), t.target());

  for (double const value : t.to) EXPECT_TRUE(std::isnan(value));
  pending.wait();
  for (double const value : t.to) EXPECT_EQ(value, 3.0);
}

// The map of one rank reads another cell than its pieces say to the others: the plan itself notices.
TEST(CheckMode, verifies_every_cell_of_a_plan) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks()}, Indices{4 * comm.num_ranks()});
  Box const owned = layout.owned(comm.rank());
  int num_calls = 0;
  auto const changing = [&](Box const& needed) {
    // Another answer at the second call, when the plan is checked.
    AxisMaps maps{};
    maps[0] = {0, num_calls++ == 0 ? 1 : -1, num_calls == 1 ? 0 : needed.lo(0) + needed.hi(0) - 1};
    return std::vector<Piece>{{needed, maps}};
  };

  auto const thrown = test::thrown_by([&] {
    PullPlan(comm, {layout, {{owned, {{owned, {owned}}}, changing}}, 1, AfterAdjoint::keep});
  });

  EXPECT_EQ(thrown.rule, "CheckFailed") << thrown.text;
  EXPECT_NE(thrown.text.find("expected"), std::string::npos) << thrown.text;
}

TEST(CheckMode, names_the_ranks_that_a_stalled_call_waits_for) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  Transposition t(comm);
  int const late = comm.num_ranks() - 1;
  if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  double const begin = MPI_Wtime();

  auto const thrown = test::thrown_by([&] { t.plan.apply(t.source(), t.target()); });

  EXPECT_EQ(thrown.rule, "StalledExchange");
  EXPECT_LT(MPI_Wtime() - begin, 60) << "the limit is 1 s";
  auto const missing = comm.rank() == 0 ? "for the same call of rank " + std::to_string(late) : std::string("rank 0");
  EXPECT_NE(thrown.text.find(missing), std::string::npos) << thrown.text;
  test::forgive_left_objects();
}

}  // namespace
}  // namespace graticule
