// SPDX-License-Identifier: BSD-3-Clause
// Repartition between two parts of one communicator, each of which knows its own layout only.
#include <graticule/partition/relabel.hpp>
#include <graticule/partition/shared_layout.hpp>
#include <graticule/repartition/plan.hpp>

#include "test_field.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::MemoryShape;
using test::Random;
using test::TestField;

namespace {

/// The ranks of one side, in the order of their communicator.
using Members = std::vector<int>;

/// One side of a movement, as one of its ranks sees it; empty on the ranks of the other side.
using Side = std::optional<PartLayout>;

bool has(Members const& members, int rank) { return std::find(members.begin(), members.end(), rank) != members.end(); }

/// A random layout that the members draw alone. Collective on `comm`.
Side random_side(Comm const& comm, Members const& members, Indices const& extents, std::uint64_t seed) {
  auto const at = std::find(members.begin(), members.end(), comm.rank());
  bool const is_member = at != members.end();
  auto part = comm.split(is_member ? 0 : 1, is_member ? int(at - members.begin()) : comm.rank());
  if (!is_member) return std::nullopt;
  Random random(seed);
  return PartLayout{test::random_layout(random, int(members.size()), extents), std::move(part)};
}

Members every(int step, int first, int num_ranks) {
  Members members;
  for (int rank = first; rank < num_ranks; rank += step) members.push_back(rank);
  return members;
}

struct Sets {
  std::string name;
  Members source;
  Members target;
};

std::vector<Sets> rank_sets(Random& random, int n) {
  auto const all = every(1, 0, n);
  Members backwards(all.rbegin(), all.rend());
  std::vector<Sets> sets{{"equal", all, all},
                         {"equal, in another order", all, backwards},
                         {"all to one", all, {n - 1}},
                         {"one to all", {n - 1}, backwards}};
  if (n > 1) {
    sets.push_back({"disjoint halves", every(1, 0, n / 2), every(1, n / 2, n)});
    sets.push_back({"disjoint, every other rank", every(2, 1, n), every(2, 0, n)});
  }
  if (n > 2) {
    sets.push_back(
        {"overlapping", Members(all.begin(), all.end() - 1), Members(backwards.begin(), backwards.end() - 1)});
    sets.push_back({"rank 0 in neither", every(1, 1, n - 1), {n - 1}});
  }
  auto any = all;
  std::shuffle(any.begin(), any.end(), random);
  any.resize(std::size_t(draw(random, 1, n)));
  auto other = all;
  std::shuffle(other.begin(), other.end(), random);
  other.resize(std::size_t(draw(random, 1, n)));
  sets.push_back({"any", any, other});
  return sets;
}

template <class T>
void expect_there_and_back(RepartitionPlan const& there, RepartitionPlan const& back, Indices const& batch) {
  int const ndim = there.source_box().ndim();
  TestField<T> from(there.source_box(), batch, MemoryShape::dense(ndim, batch.size()), bits_of<T>({}, {}, 1));
  from.set(there.source_box(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });
  TestField<T> to(there.target_box(), batch, MemoryShape::dense(ndim, batch.size()), bits_of<T>({}, {}, 2));
  auto expected = to;
  expected.set(there.target_box(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });
  TestField<T> returned(there.source_box(), batch, MemoryShape::dense(ndim, batch.size()), bits_of<T>({}, {}, 1));

  there.apply(from.view(), to.view());
  back.apply(to.view(), returned.view());

  EXPECT_TRUE(to.holds(expected));
  EXPECT_TRUE(returned.holds(from));
}

TEST(TwoSides, there_and_back_is_the_identity_for_any_two_sets_of_ranks) {
  Random random(71);
  auto const comm = Comm::world();
  for (int trial = 0; trial < 3; ++trial) {
    for (auto const& [name, source, target] : rank_sets(random, comm.num_ranks())) {
      SCOPED_TRACE(name);
      auto const extents = test::random_extents(random, int(draw(random, 1, 3)), 8);
      auto const from = shared_layout(comm, random_side(comm, source, extents, random()));
      auto const to = shared_layout(comm, random_side(comm, target, extents, random()));
      RepartitionPlan const there(comm, from, to);
      RepartitionPlan const back(comm, to, from);
      EXPECT_TRUE(has(source, comm.rank()) || there.source_box().empty());
      EXPECT_TRUE(has(target, comm.rank()) || there.target_box().empty());

      expect_there_and_back<double>(there, back, {});
      expect_there_and_back<std::uint8_t>(there, back, {3});
      expect_there_and_back<std::complex<double>>(there, back, {2, 1});

      if (HasFailure()) return;
    }
  }
}

TEST(TwoSides, a_relabelled_permutation_sends_nothing) {
  Random random(73);
  auto const comm = Comm::world();
  auto const all = every(1, 0, comm.num_ranks());
  Members shuffled = all;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{4 * comm.num_ranks() + 1, 6});
  Layout const elsewhere = on_ranks(rows, shuffled);

  auto const result = relabel(rows, elsewhere);
  RepartitionPlan const plan(comm, rows, result.layout);

  EXPECT_EQ(plan.counts().send_cells, 0);
  EXPECT_EQ(plan.counts().num_receive_peers, 0);
  expect_there_and_back<float>(plan, RepartitionPlan(comm, result.layout, rows), {2});
}

TEST(TwoSides, relabelling_counts_what_the_plan_sends) {
  Random random(79);
  auto const comm = Comm::world();
  for (int trial = 0; trial < 5; ++trial) {
    auto const extents = test::random_extents(random, 2, 12);
    auto const from = test::random_layout(random, comm.num_ranks(), extents);
    auto const to = test::random_layout(random, comm.num_ranks(), extents);

    auto const result = relabel(from, to);

    std::vector<Index> sent{RepartitionPlan(comm, from, to).counts().send_cells,
                            RepartitionPlan(comm, from, result.layout).counts().send_cells};
    comm.sum(std::span(sent));
    EXPECT_EQ(sent[0], result.moved_cells_before);
    EXPECT_EQ(sent[1], result.moved_cells);
  }
}

}  // namespace
