// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/partition/detail/node_order.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

using namespace graticule;
using test::MemoryShape;
using test::rule_of;
using test::TestField;
using test::thrown_by;

namespace {

TEST(RanksByNode, gathers_ranks_that_were_dealt_out) {
  std::vector<int> const dealt{0, 1, 0, 1};
  std::vector<int> const uneven{0, 1, 2, 0, 1, 0};

  EXPECT_EQ(detail::ranks_by_node(dealt), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(detail::ranks_by_node(uneven), (std::vector<int>{0, 3, 5, 1, 4, 2}));
}

/// Ranks of `comm` as numbers of `world`.
std::vector<Index> members(Comm const& comm, Comm const& world) { return comm.gather_to_all(world.rank()); }

TEST(Teams, put_each_rank_in_one_team_of_every_axis) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  for (int domain = 1; domain <= n; ++domain) {
    if (n % domain != 0) continue;

    Teams const teams(comm, {{"data", 0}, {"domain", domain}});

    auto const& world = teams.world();
    ASSERT_EQ(world.num_ranks(), n);
    ASSERT_EQ(teams.axes()[0].size, n / domain);
    ASSERT_EQ(teams.team("domain").num_ranks(), domain);
    ASSERT_EQ(teams.team("data").num_ranks(), n / domain);
    EXPECT_EQ(teams.team("domain").rank(), world.rank() % domain);
    EXPECT_EQ(teams.team("data").rank(), world.rank() / domain);
    // The domain team has neighboring ranks, the data team every domain-th.
    auto const neighbors = members(teams.team("domain"), world);
    auto const peers = members(teams.team("data"), world);
    for (int i = 0; i < domain; ++i) EXPECT_EQ(neighbors[std::size_t(i)], world.rank() / domain * domain + i);
    for (int i = 0; i < n / domain; ++i) EXPECT_EQ(peers[std::size_t(i)], i * domain + world.rank() % domain);
  }
}

TEST(Teams, of_three_axes_number_the_last_fastest) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  if (n % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";

  Teams const teams(comm, {{"ensemble", 2}, {"data", 1}, {"domain", 0}});

  EXPECT_EQ(teams.team("ensemble").rank(), teams.world().rank() / (n / 2));
  EXPECT_EQ(teams.team("data").num_ranks(), 1);
  EXPECT_EQ(teams.team("domain").num_ranks(), n / 2);
  EXPECT_EQ(teams.team("domain").rank(), teams.world().rank() % (n / 2));
}

TEST(Teams, sum_over_the_domain_and_then_the_data_as_over_all) {
  auto const comm = Comm::world();
  int const domain = comm.num_ranks() % 3 == 0 ? 3 : 1;
  Teams const teams(comm, {{"data", 0}, {"domain", domain}});
  std::array<Index, 1> sum{Index(1) << (5 * comm.rank())};
  auto all = sum;

  teams.team("domain").sum(sum);
  teams.team("data").sum(sum);

  comm.sum(all);
  EXPECT_EQ(sum, all);
}

TEST(Teams, refuse_shapes_that_do_not_fit) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  auto const rule = [&](std::vector<Teams::Axis> const& axes) { return rule_of([&] { (void)Teams(comm, axes); }); };

  EXPECT_EQ(rule({}), "BadProcessGrid");
  EXPECT_EQ(rule({{"domain", n + 1}}), "BadProcessGrid");
  EXPECT_EQ(rule({{"data", 2}, {"domain", n}}), "BadProcessGrid");
  EXPECT_EQ(rule({{"data", 0}, {"domain", 0}}), "BadProcessGrid");
  EXPECT_EQ(rule({{"data", -1}, {"domain", -n}}), "BadProcessGrid");
  EXPECT_EQ(rule({{"domain", 1}, {"domain", n}}), "BadProcessGrid");
  if (n > 2) {
    auto const thrown = thrown_by([&] { (void)Teams(comm, {{"data", 0}, {"domain", n - 1}}); });
    EXPECT_EQ(thrown.rule, "BadProcessGrid");
    EXPECT_EQ(thrown.text, "teams of data 0 x domain " + std::to_string(n - 1) + " on " + std::to_string(n) +
                               " ranks: 1 are left over");
  }
  if (n > 1) {
    EXPECT_EQ(rule({{"domain", 1}}), "BadProcessGrid");
    EXPECT_EQ(rule({{"domain", comm.rank() == 0 ? n : 0}}), "ArgumentDisagreement");
  }
  EXPECT_EQ(rule_of([&] { (void)Teams(comm, {{"domain", n}}).team("data"); }), "UnknownName");
}

double number(Indices const& /*batch*/, Indices const& cell) { return double(1 + cell[1] + 100 * cell[0]); }

/// The ranks of `comm` from `first` on, every `step`-th.
std::vector<int> some_ranks(Comm const& comm, int first, int step) {
  std::vector<int> ranks;
  for (int r = std::min(first, comm.num_ranks() - 1); r < comm.num_ranks(); r += step) ranks.push_back(r);
  return ranks;
}

Layout bands_on(std::vector<int> const& ranks) {
  return {ProcessGrid::on_ranks({Index(ranks.size()), 1}, ranks), Indices{9, 6}};
}

// Ranks without a place in the domain make every call, each with a field of no cells.
TEST(SubDomain, exchanges_halos_on_some_of_the_ranks) {
  auto const comm = Comm::world();
  for (int const first : {0, 1}) {
    auto const ranks = some_ranks(comm, first, 2);
    auto const layout = bands_on(ranks);

    HaloPlan const plan(comm, layout, {{2, 2}, {1, 1}}, Boundary::sphere(Edge::pole_face));
    bool const active = std::find(ranks.begin(), ranks.end(), comm.rank()) != ranks.end();
    EXPECT_EQ(plan.owned().empty(), !active);
    TestField<double> field(plan.local(), {1}, MemoryShape::dense(2, 1), -1);
    field.set(plan.owned(), number);
    auto expected = field;
    plan.exchange(field.view());

    expected.set(plan.local(), [](Indices const& batch, Indices cell) {
      bool const beyond = cell[0] < 0 || cell[0] >= 9;
      if (beyond) cell[0] = cell[0] < 0 ? -1 - cell[0] : 17 - cell[0];
      cell[1] = (cell[1] + 6 + (beyond ? 3 : 0)) % 6;
      return number(batch, cell);
    });
    EXPECT_TRUE(field.holds(expected)) << "first rank " << first;
    plan.exchange_adjoint(field.view());
  }
}

// From some ranks to others, which may be the same, overlap, or be none of them.
TEST(SubDomain, moves_between_groups_of_ranks) {
  auto const comm = Comm::world();
  for (auto const& [first, step] : std::vector<std::array<int, 2>>{{0, 1}, {0, 2}, {1, 2}, {2, 3}}) {
    auto const from = bands_on(some_ranks(comm, 0, 2));
    auto const to = bands_on(some_ranks(comm, first, step));

    RepartitionPlan const plan(comm, from, to);
    TestField<double> source(plan.source_box(), {1}, MemoryShape::dense(2, 1), -1);
    TestField<double> target(plan.target_box(), {1}, MemoryShape::dense(2, 1), -1);
    source.set(plan.source_box(), number);
    auto expected = target;
    plan.apply(source.view(), target.view());

    expected.set(plan.target_box(), number);
    EXPECT_TRUE(target.holds(expected)) << "from " << to_string(from) << " to " << to_string(to);
    Index num_cells = plan.target_box().num_cells();
    std::array<Index, 1> all{num_cells};
    comm.sum(all);
    EXPECT_EQ(all[0], 9 * 6);
  }
}

TEST(SubDomain, of_a_team_leaves_its_other_ranks_idle) {
  auto const comm = Comm::world();
  int const domain = comm.num_ranks() % 2 == 0 ? comm.num_ranks() / 2 : comm.num_ranks();
  Teams const teams(comm, {{"data", 0}, {"domain", domain}});
  auto const& team = teams.team("domain");
  Layout const layout(ProcessGrid{std::max(1, domain - 1), 1}, Indices{9, 6});

  HaloPlan const plan(team, layout, {{1, 1}, {0, 0}}, Boundary::uniform(2, Edge::periodic));
  TestField<double> field(plan.local(), {1}, MemoryShape::dense(2, 1), -1);
  field.set(plan.owned(), number);
  auto expected = field;
  plan.exchange(field.view());

  expected.set(plan.local(), [](Indices const& batch, Indices cell) {
    cell[0] = (cell[0] + 9) % 9;
    return number(batch, cell);
  });
  EXPECT_TRUE(field.holds(expected));
  EXPECT_EQ(plan.owned().empty(), domain > 1 && team.rank() == domain - 1);
}

}  // namespace
