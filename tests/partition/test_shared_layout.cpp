// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/shared_layout.hpp>

#include "expect_error.hpp"
#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

using namespace graticule;
using test::draw;
using test::Random;
using test::rule_of;
using test::thrown_by;

namespace {

/// Some ranks of a communicator, at least one, in any order.
std::vector<int> random_members(Random& random, int num_ranks) {
  std::vector<int> members(std::size_t(num_ranks), 0);
  std::iota(members.begin(), members.end(), 0);
  std::shuffle(members.begin(), members.end(), random);
  members.resize(std::size_t(draw(random, 1, num_ranks)));
  return members;
}

/// Place of `rank` in `members`, or -1.
int place_in(std::vector<int> const& members, int rank) {
  auto const at = std::find(members.begin(), members.end(), rank);
  return at == members.end() ? -1 : int(at - members.begin());
}

/// The communicator of the members in their order; another one on the other ranks. Collective.
Comm part_of(Comm const& comm, std::vector<int> const& members) {
  int const place = place_in(members, comm.rank());
  return comm.split(place < 0 ? 1 : 0, place < 0 ? comm.rank() : place);
}

TEST(SharedLayout, is_known_to_all_ranks_when_those_of_a_part_know_it) {
  Random random(61);
  auto const comm = Comm::world();
  for (int trial = 0; trial < 30; ++trial) {
    auto const members = random_members(random, comm.num_ranks());
    auto const extents = test::random_extents(random, int(draw(random, 1, 3)), 9);
    auto const layout = test::random_layout(random, int(members.size()), extents);
    Comm const part = part_of(comm, members);
    bool const is_member = place_in(members, comm.rank()) >= 0;
    SCOPED_TRACE(to_string(layout));

    auto const shared = shared_layout(comm, is_member ? std::optional(PartLayout{layout, part}) : std::nullopt);

    ASSERT_EQ(shared.global(), layout.global());
    EXPECT_EQ(shared.grid() == nullptr, layout.grid() == nullptr);
    for (int rank = 0; rank < comm.num_ranks(); ++rank) {
      int const place = place_in(members, rank);
      Box const expected = place < 0 ? Box() : layout.owned(place);
      if (expected.ndim() == 0 || expected.empty()) {
        EXPECT_TRUE(shared.owned(rank).empty()) << "rank " << rank;
      } else {
        EXPECT_EQ(shared.owned(rank), expected) << "rank " << rank;
      }
    }
    std::vector<Index> fingerprint{Index(shared.fingerprint() >> 1U), -Index(shared.fingerprint() >> 1U)};
    comm.max(fingerprint);
    EXPECT_EQ(fingerprint[0], -fingerprint[1]);
    if (HasFailure()) return;
  }
}

TEST(SharedLayout, may_come_from_one_rank_for_all) {
  auto const comm = Comm::world();
  int const last = comm.num_ranks() - 1;
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{10, 2});

  auto const shared = shared_layout(comm, comm.rank() == last ? std::optional(PartLayout{layout, comm}) : std::nullopt);

  EXPECT_EQ(shared.fingerprint(), layout.fingerprint());
}

TEST(SharedLayout, of_the_first_ranks_in_order_is_described_as_before) {
  auto const comm = Comm::world();
  if (comm.num_ranks() < 4) GTEST_SKIP() << "a part of 2 x 2 ranks";
  bool const is_member = comm.rank() < 4;
  auto const part = comm.split(is_member ? 0 : 1, 0);
  Layout const blocks(ProcessGrid::in_blocks({2, 2}, {2, 1}), Indices{9, 3});
  ASSERT_FALSE(blocks.grid()->in_order());

  auto const shared = shared_layout(comm, is_member ? std::optional(PartLayout{blocks, part}) : std::nullopt);

  EXPECT_EQ(shared.fingerprint(), blocks.fingerprint());
  EXPECT_EQ(shared.grid()->block(), (Indices{2, 1}));
}

TEST(SharedLayout, is_refused_on_all_ranks_where_it_is_missing_or_differs) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{8, 6});
  Layout const columns(ProcessGrid{1, n}, Indices{8, 6});
  Layout const many(ProcessGrid{n + 1, 1}, Indices{8, 6});
  bool const is_last = comm.rank() == n - 1;
  auto const alone = comm.split(comm.rank(), 0);
  auto const share = [](Comm const& parent, std::optional<PartLayout> const& mine) {
    return thrown_by([&] { (void)shared_layout(parent, mine); });
  };

  auto const missing = share(comm, std::nullopt);
  EXPECT_EQ(missing.rule, "BadLayout");
  EXPECT_NE(missing.text.find("provides a layout"), std::string::npos) << missing.text;
  EXPECT_EQ(share(comm, is_last ? std::optional(PartLayout{many, comm}) : std::nullopt).rule, "BadProcessGrid");
  EXPECT_EQ(share(comm, PartLayout{rows, comm}).rule, "nothing was thrown");
  if (n == 1) return;
  auto const differs = share(comm, PartLayout{is_last ? columns : rows, comm});
  EXPECT_EQ(differs.rule, "ArgumentDisagreement");
  EXPECT_NE(differs.text.find("rank 0 gives " + to_string(rows)), std::string::npos) << differs.text;
  EXPECT_NE(differs.text.find(to_string(columns)), std::string::npos) << differs.text;
  // One rank is a parent of its own: all others are outside.
  auto const outside = share(alone, PartLayout{rows, comm});
  EXPECT_EQ(outside.rule, "BadLayout");
  EXPECT_NE(outside.text.find("is not in the parent"), std::string::npos) << outside.text;
}

TEST(OnRanks, gives_each_box_to_its_new_rank) {
  Random random(67);
  for (int trial = 0; trial < 50; ++trial) {
    auto const layout = test::random_layout(random, 6, test::random_extents(random, 2, 8));
    std::vector<int> ranks(9);
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random);
    ranks.resize(std::size_t(layout.num_ranks()));

    auto const moved = on_ranks(layout, ranks);

    Index cells = 0;
    for (int r = 0; r < layout.num_ranks(); ++r) {
      Box const box = moved.owned(ranks[std::size_t(r)]);
      cells += box.num_cells();
      if (layout.owned(r).empty()) continue;
      ASSERT_EQ(box, layout.owned(r));
    }
    EXPECT_EQ(cells, layout.global().num_cells());
  }
}

TEST(OnRanks, refuses_ranks_that_repeat_or_are_too_few) {
  Layout const rows(ProcessGrid{3, 1}, Indices{6, 4});
  std::vector<Box> const list{rows.owned(0), rows.owned(1), rows.owned(2)};
  auto const boxes = Layout::from_boxes({6, 4}, list);
  for (auto const& layout : {rows, boxes}) {
    auto const rule = [&](std::vector<int> const& ranks) { return rule_of([&] { (void)on_ranks(layout, ranks); }); };

    EXPECT_EQ(rule({0, 1}), "BadProcessGrid");
    EXPECT_EQ(rule({0, 2, 2}), "BadProcessGrid");
    EXPECT_EQ(rule({0, -1, 2}), "BadProcessGrid");
    EXPECT_EQ(rule({7, 1, 2}), "nothing was thrown");
  }
}

}  // namespace
