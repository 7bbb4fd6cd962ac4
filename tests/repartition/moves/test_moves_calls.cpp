// SPDX-License-Identifier: BSD-3-Clause
// Calls in flight, busy and refusing peers, and the limit on buffers.
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;
using test::Trial;

namespace {

bool is_set(char const* name, std::string_view value) {
  char const* const given = std::getenv(name);
  return given && std::string_view(given) == value;
}

bool compares_calls() { return std::getenv("GRATICULE_CHECK") != nullptr; }

/// Columns of a grid for each rank: messages that MPI sends at once, and messages of three segments, one more than
/// there are slots, that wait for their receiver.
constexpr Index few_columns = 3;
constexpr Index many_columns = 80000;

/// A transpose of `2 * num_ranks` rows between all ranks.
struct Transpose {
  explicit Transpose(Comm const& comm, Index columns_per_rank, Index workspace_bytes = 0)
      : extents{2 * comm.num_ranks(), columns_per_rank * comm.num_ranks()},
        plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, extents), Layout(ProcessGrid{1, comm.num_ranks()}, extents),
             {.workspace_bytes = workspace_bytes}) {}
  [[nodiscard]] TestField<float> source(std::uint64_t salt = 0) const {
    return test::numbered<float>(plan.source_box(), {}, MemoryShape::dense(2, 0), salt);
  }
  [[nodiscard]] TestField<float> target() const { return {plan.target_box(), {}, MemoryShape::dense(2, 0), -2.0F}; }
  [[nodiscard]] TestField<float> filled_target(std::uint64_t salt = 0) const {
    auto result = target();
    result.set(plan.target_box(), [&](auto const& b, auto const& cell) { return bits_of<float>(b, cell, salt); });
    return result;
  }

  Indices extents;
  RepartitionPlan plan;
};

void barrier(Comm const& comm) { EXPECT_EQ(MPI_Barrier(comm.handle()), MPI_SUCCESS); }

enum class Way { forward, adjoint, inverse };

/// A call in flight and what it must leave.
struct Flight {
  Way way;
  TestField<float> from;
  TestField<float> to;
  TestField<float> expected;
  Pending pending = {};

  Flight(Transpose const& move, Way way_, std::uint64_t salt)
      : way(way_),
        from(move.source(salt)),
        to(way == Way::forward ? move.target() : move.filled_target(salt)),
        expected(way == Way::forward ? move.filled_target(salt) : from) {
    if (way == Way::inverse || way == Way::adjoint)
      from.set(from.cover(), [](auto const&, auto const&) { return 0.0F; });
  }
  void start(Transpose const& move) {
    if (way == Way::forward) pending = move.plan.start(from.view(), to.view());
    if (way == Way::inverse) pending = move.plan.start_inverse(from.view(), to.view());
    if (way == Way::adjoint) pending = move.plan.start_adjoint(from.view(), to.view(), {.beta = 0.0});
  }
  [[nodiscard]] testing::AssertionResult is_right() const { return (way == Way::forward ? to : from).holds(expected); }
};

TEST(MovesCalls, in_flight_end_in_any_order_with_others_between) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(163);
  for (Index const columns : {few_columns, many_columns}) {
    Transpose const move(comm, columns);
    for (int t = 0; t < (columns > 1000 ? 1 : 4); ++t) {
      Trial trial(seed, t);
      SCOPED_TRACE(trial.name);
      std::vector<Flight> calls;
      for (int c = 0; c < 6; ++c) calls.emplace_back(move, Way(draw(trial.random, 0, 2)), std::uint64_t(10 * t + c));
      for (std::size_t c = 0; c < calls.size(); ++c) {
        if (c == 3) {
          auto from = move.source(99);
          auto to = move.target();
          move.plan.apply(from.view(), to.view());
          ASSERT_TRUE(to.holds(move.filled_target(99)));
        }
        calls[c].start(move);
      }
      // Each rank in its own order.
      Trial own(seed + std::uint64_t(comm.rank()) + 1, t);
      for (Index const c : test::random_permutation(own.random, int(calls.size()))) {
        if (c % 2 == 0)
          while (!calls[std::size_t(c)].pending.test()) std::this_thread::yield();
        calls[std::size_t(c)].pending.wait();
        ASSERT_TRUE(calls[std::size_t(c)].is_right()) << "call " << c;
      }
    }
  }
}

// As with MPI's own messages: what was started reaches the peers, wherever this rank is.
TEST(MovesCalls, started_end_while_a_peer_waits_elsewhere) {
  auto const comm = Comm::world();
  for (Index const columns : {few_columns, many_columns}) {
    Transpose const move(comm, columns);
    for (auto const way : {Way::forward, Way::adjoint, Way::inverse}) {
      for (int busy = 0; busy < std::min(2, comm.num_ranks()); ++busy) {
        std::vector<Flight> calls;
        for (std::uint64_t c = 0; c < 2; ++c) calls.emplace_back(move, way, c);
        for (auto& call : calls) call.start(move);
        if (comm.rank() == busy) barrier(comm);
        for (auto& call : calls) call.pending.wait();
        if (comm.rank() != busy) barrier(comm);
        for (auto& call : calls) ASSERT_TRUE(call.is_right()) << "way " << int(way);
      }
    }
  }
}

// The rank that refuses waits for nobody, and its peers do not wait for it.
TEST(MovesCalls, that_a_rank_refuses_end_on_its_peers_while_it_is_elsewhere) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1 || compares_calls()) GTEST_SKIP() << "no peer that goes on alone";
  for (Index const columns : {few_columns, many_columns}) {
    Transpose const move(comm, columns);
    bool const refuses = comm.rank() == 0;
    auto from = move.source();
    for (int repeat = 0; repeat < 3; ++repeat) {
      auto to = move.target();
      auto given = from.view();
      if (refuses) ++given.extents[0];

      EXPECT_EQ(rule_of([&] { move.plan.apply(given, to.view()); }), refuses ? "FieldMismatch" : "PeerRefused");
      barrier(comm);
      auto sums = from;
      auto view = sums.view();
      if (refuses) ++view.extents[0];
      EXPECT_EQ(rule_of([&] { move.plan.apply_adjoint(view, to.view()); }), refuses ? "FieldMismatch" : "PeerRefused");
      EXPECT_EQ(rule_of([&] { move.plan.start_inverse(view, to.view()).wait(); }),
                refuses ? "FieldMismatch" : "PeerRefused");
      barrier(comm);
      EXPECT_TRUE(sums.holds(from));

      move.plan.apply(from.view(), to.view());

      ASSERT_TRUE(to.holds(move.filled_target()));
    }
  }
}

TEST(MovesCalls, with_other_fields_on_one_rank_end_with_an_error_and_leave_nothing_behind) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1 || compares_calls()) GTEST_SKIP() << "no peer that goes on alone";
  for (Index const columns : {few_columns, many_columns}) {
    Transpose const move(comm, columns);
    bool const differs = comm.rank() == comm.num_ranks() - 1;
    auto from = move.source();
    auto to = move.target();
    std::vector<RepartitionField> fields{{.from = from.view(), .to = to.view()}};
    auto second_from = move.source();
    auto second = move.target();
    if (differs) fields.push_back({.from = second_from.view(), .to = second.view()});

    EXPECT_EQ(rule_of([&] { move.plan.apply(fields); }), "FieldMismatch");
    EXPECT_EQ(rule_of([&] { move.plan.apply_adjoint(fields); }), "FieldMismatch");
    EXPECT_TRUE(from.holds(move.source()));
    EXPECT_EQ(rule_of([&] { move.plan.apply(from.view(), to.view(), {.alpha = differs ? 2.0 : 1.0}); }),
              "FieldMismatch");

    move.plan.apply(from.view(), to.view());

    ASSERT_TRUE(to.holds(move.filled_target()));
  }
}

/// Buffers of the host, and as many again of the device where fields lie there.
Index allowed(Index workspace_bytes) {
  bool const on_device = is_set("GRATICULE_TEST_MEMORY", "device") || is_set("GRATICULE_TEST_MEMORY", "gpu");
  return on_device ? 2 * workspace_bytes : workspace_bytes;
}

/// The least bytes that a plan takes, as the refusal of one says.
Index least_workspace(Comm const& comm, Layout const& from, Layout const& to) {
  auto const thrown = test::thrown_by([&] { RepartitionPlan(comm, from, to, {.workspace_bytes = 1}); });
  EXPECT_EQ(thrown.rule, "BudgetTooSmall");
  auto const at = thrown.text.find("the least is ");
  EXPECT_NE(at, std::string::npos) << thrown.text;
  return std::atoll(thrown.text.c_str() + at + 13);
}

TEST(MovesCalls, keep_to_the_limit_of_their_buffers_and_give_the_same_bits) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank needs no buffers";
  constexpr Index columns_per_rank = 700;
  Indices const extents{2 * comm.num_ranks(), columns_per_rank * comm.num_ranks()};
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, extents);
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, extents);
  Index const least = least_workspace(comm, rows, columns);
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, columns, {.workspace_bytes = least - 1}); }), "BudgetTooSmall");
  EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, columns, {.workspace_bytes = -1}); }), "BudgetTooSmall");
  // On one rank too little, and so refused on all.
  EXPECT_EQ(rule_of([&] {
              RepartitionPlan(comm, rows, columns, {.workspace_bytes = comm.rank() == 0 ? least - 1 : 4 * least});
            }),
            "BudgetTooSmall");
  for (Index const limit : {least, least + 100, 5 * least, comm.rank() == 0 ? least : 3 * least}) {
    Transpose const move(comm, columns_per_rank, limit);
    auto const expect_within = [&] { ASSERT_LE(move.plan.stats().buffer_bytes, allowed(limit)); };
    std::uint64_t salt = 0;
    for (Index const batch : {1, 3, 0, 2}) {
      auto const shape = MemoryShape::dense(2, 1);
      auto from = test::numbered<float>(move.plan.source_box(), {batch}, shape, ++salt);
      TestField<double> wide(move.plan.target_box(), {batch}, shape, 0);
      TestField<float> to(move.plan.target_box(), {batch}, shape, 0);
      auto expected = to;
      expected.set(expected.cover(), [&](auto const& b, auto const& cell) { return bits_of<float>(b, cell, salt); });

      move.plan.apply(from.view(), to.view());
      expect_within();
      ASSERT_TRUE(to.holds(expected));
      move.plan.apply(from.view(), wide.view());
      expect_within();
      auto returned = from;
      returned.set(returned.cover(), [](auto const&, auto const&) { return 0.0F; });
      move.plan.apply_adjoint(returned.view(), to.view(), {.beta = 0.0});
      expect_within();
      ASSERT_TRUE(returned.holds(from));
      RepartitionField const two[] = {{.from = from.view(), .to = to.view()},
                                      {.from = returned.view(), .to = wide.view()}};
      move.plan.apply_inverse(two);
      expect_within();
    }
    // Several in flight, of which the last is ended first.
    std::vector<Flight> calls;
    for (std::uint64_t c = 0; c < 5; ++c) calls.emplace_back(move, Way(c % 3), c);
    for (auto& call : calls) call.start(move);
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      call->pending.wait();
      expect_within();
    }
    for (auto& call : calls) ASSERT_TRUE(call.is_right());
  }
}

TEST(MovesCalls, without_a_limit_need_little_for_much) {
  auto const comm = Comm::world();
  Transpose const move(comm, many_columns);
  auto from = move.source();
  auto to = move.target();

  move.plan.apply(from.view(), to.view());

  // Two slots of a segment each way and peer.
  Index const slots = 4 * (comm.num_ranks() - 1);
  EXPECT_LE(move.plan.stats().buffer_bytes, allowed(slots * ((Index(256) << 10U) + 128)));
}

}  // namespace
