// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/virtual_plan.hpp>

#include "expect_error.hpp"
#include "formula.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <vector>

using namespace graticule;
using test::draw;
using test::for_each_cell;
using test::Formula;
using test::Image;
using test::Random;
using test::rule_of;

namespace {

std::atomic<std::size_t> heap_bytes{0};
std::atomic<std::size_t> num_allocations{0};

}  // namespace

// Counts what the library allocates, in this program only. Not inlined: GCC 12 takes the pair for mismatched then.
[[gnu::noinline]] void* operator new(std::size_t size) {
  heap_bytes += size;
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// A sanitizer's own would not go through ours.
[[gnu::noinline]] void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
  heap_bytes += size;
  ++num_allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

Formula random_case(Random& random, int num_ranks) {
  auto const extents = test::random_extents(random, int(draw(random, 1, 3)), 6);
  auto const boundary = test::random_boundary(random, extents);
  Formula f{test::random_layout(random, num_ranks, extents), {{}, boundary}};
  for (int a = 0; a < extents.size(); ++a) {
    Index const widest = draw(random, 0, 3) == 0 ? 2 * extents[a] + 1 : 2;
    f.kind.widths.push_back({draw(random, 0, widest), draw(random, 0, widest)});
  }
  if (draw(random, 0, 3) == 0) f.kind.corners = Corners::skip;
  if (draw(random, 0, 3) == 0)
    for (auto const& width : f.kind.widths)
      f.kind.memory.push_back({width.lower + draw(random, 0, 2), width.upper + draw(random, 0, 2)});
  while (draw(random, 0, 2) == 0) {
    auto direction = Indices::filled(extents.size(), 0);
    for (auto& step : direction) step = draw(random, -1, 1);
    f.kind.directions.push_back(direction);
  }
  return f;
}

/// Ghost cells of all ranks, one by one: `cells[{reader, owner}]`, and `filled[reader]`.
struct ByCells {
  std::map<std::pair<int, int>, Index> cells;
  std::map<int, Index> filled;
};

ByCells count_by_cells(Formula const& f) {
  ByCells counts;
  for (int reader = 0; reader < f.layout.num_ranks(); ++reader)
    for_each_cell(f.local(reader), [&](Indices const& cell) {
      if (!f.fills(cell, reader)) return;
      auto const image = f.image(cell);
      if (image.kind == Image::Kind::constant) ++counts.filled[reader];
      if (image.kind != Image::Kind::cell) return;
      for (int owner = 0; owner < f.layout.num_ranks(); ++owner)
        if (f.owned(owner).contains(image.cell)) ++counts.cells[{reader, owner}];
    });
  return counts;
}

void expect_as_by_cells(Formula const& f) {
  auto const expected = count_by_cells(f);
  VirtualHalo const halo(f.layout, f.kind);
  std::map<std::pair<int, int>, Index> received;
  std::map<std::pair<int, int>, Index> sent;
  std::map<std::pair<int, int>, Index> runs;
  for (int rank = 0; rank < f.layout.num_ranks(); ++rank) {
    auto const plan = halo.plan(rank);
    ASSERT_EQ(plan.local, f.local(rank));
    int last = -1;
    for (auto const& peer : plan.peers) {
      ASSERT_GT(peer.peer, last);
      last = peer.peer;
      ASSERT_NE(peer.peer, rank);
      if (peer.receive_cells > 0) received[{rank, peer.peer}] = peer.receive_cells;
      if (peer.send_cells > 0) sent[{peer.peer, rank}] = peer.send_cells;
      runs[{rank, peer.peer}] += peer.receive_runs;
      runs[{peer.peer, rank}] -= peer.send_runs;
    }
    if (plan.local_cells > 0) received[{rank, rank}] = sent[{rank, rank}] = plan.local_cells;
    auto const filled = expected.filled.find(rank);
    ASSERT_EQ(plan.filled_cells, filled == expected.filled.end() ? 0 : filled->second) << "rank " << rank;
  }
  ASSERT_EQ(received, expected.cells);
  ASSERT_EQ(sent, expected.cells);
  for (auto const& [pair, difference] : runs) ASSERT_EQ(difference, 0) << pair.first << " and " << pair.second;
}

TEST(VirtualHalo, finds_both_ends_of_every_message_of_random_layouts) {
  Random random(17);
  for (int trial = 0; trial < 1500; ++trial) {
    auto const c = random_case(random, int(draw(random, 1, 12)));
    SCOPED_TRACE("trial " + std::to_string(trial) + ": " + describe(c));
    expect_as_by_cells(c);
    if (HasFatalFailure()) return;
  }
}

TEST(VirtualHalo, counts_what_the_real_plan_counts) {
  auto const comm = Comm::world();
  Random random(23);
  std::array<Index, 1> num_cells{0};
  for (int trial = 0; trial < 150; ++trial) {
    auto const c = random_case(random, comm.num_ranks());
    SCOPED_TRACE("trial " + std::to_string(trial) + ": " + describe(c));
    HaloPlan const real(comm, c.layout, std::vector<HaloKind>{c.kind});
    auto const expected = real.counts();

    auto const plan = VirtualHalo(c.layout, c.kind).plan(comm.rank());

    auto const counts = plan.counts();
    EXPECT_EQ(plan.owned, real.owned(0));
    EXPECT_EQ(plan.local, real.local());
    EXPECT_EQ(counts.num_send_peers, expected.num_send_peers);
    EXPECT_EQ(counts.num_receive_peers, expected.num_receive_peers);
    EXPECT_EQ(counts.send_cells, expected.send_cells);
    EXPECT_EQ(counts.receive_cells, expected.receive_cells);
    EXPECT_EQ(counts.local_cells, expected.local_cells);
    EXPECT_EQ(counts.filled_cells, expected.filled_cells);
    num_cells[0] += counts.receive_cells + counts.local_cells;
  }
  comm.sum(num_cells);
  EXPECT_GT(num_cells[0], 500);
}

TEST(VirtualHalo, plans_the_documented_ring) {
  VirtualHalo const halo(Layout(ProcessGrid{4}, Indices{8}), {{{1, 1}}, Boundary::uniform(1, Edge::periodic)});

  auto const plan = halo.plan(0);

  EXPECT_EQ(plan.peers, (std::vector<VirtualHalo::Plan::Peer>{{1, 1, 1, 1, 1}, {3, 1, 1, 1, 1}}));
  EXPECT_EQ(plan.local, Box({-1}, {3}));
}

// 4 x 4 ranks on 8 x 16 cells, poles on the outer faces, width 1: the partner across the pole is two columns away.
TEST(VirtualHalo, sends_across_the_pole_to_the_other_side_of_the_globe) {
  VirtualHalo const halo(Layout(ProcessGrid{4, 4}, Indices{8, 16}),
                         {{{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face)});

  auto const plan = halo.plan(0);

  EXPECT_EQ(plan.peers,
            (std::vector<VirtualHalo::Plan::Peer>{{1, 3, 3, 3, 3},  // 2 cells to the east, and a corner across the pole
                                                  {2, 4, 4, 1, 1},
                                                  {3, 3, 3, 3, 3},
                                                  {4, 4, 4, 1, 1},
                                                  {5, 1, 1, 1, 1},
                                                  {7, 1, 1, 1, 1}}));
}

struct Cost {
  std::size_t bytes;
  std::size_t allocations;
};

Cost cost_of_plans(VirtualHalo const& halo, Indices const& coords) {
  int const rank = halo.layout().grid()->rank(coords);
  heap_bytes = 0;
  num_allocations = 0;
  auto const plan = halo.plan(rank);
  EXPECT_EQ(plan.peers.size(), 8U);
  return {heap_bytes, num_allocations};
}

// 16 times the ranks on 16 times the cells, so that each rank's own box stays the same.
TEST(VirtualHalo, costs_the_same_for_4096_and_for_65536_ranks) {
  HaloKind const kind{{{3, 3}, {3, 3}}, Boundary::sphere(Edge::pole_face)};
  VirtualHalo const small(Layout(ProcessGrid{64, 64}, Indices{11 * 64, 22 * 64}), kind);
  VirtualHalo const large(Layout(ProcessGrid{256, 256}, Indices{11 * 256, 22 * 256}), kind);

  for (Indices const& from_corner : std::vector<Indices>{{0, 0}, {0, 5}, {7, 0}, {20, 30}}) {
    auto const few = cost_of_plans(small, from_corner);
    auto const many = cost_of_plans(large, from_corner);

    EXPECT_EQ(many.bytes, few.bytes) << to_string(from_corner);
    EXPECT_EQ(many.allocations, few.allocations) << to_string(from_corner);
    EXPECT_LT(many.bytes, 100000U);
  }
}

TEST(VirtualHalo, plans_nothing_for_ranks_that_own_nothing) {
  VirtualHalo const halo(Layout(ProcessGrid{3}, {Cuts{2, 0, 3}}), {{{1, 1}}, Boundary::uniform(1, Edge::periodic)});
  VirtualHalo const nowhere(Layout(ProcessGrid{2, 1}, Indices{0, 4}),
                            {{{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::reflect)});

  for (int rank : {1, 3, 70}) {
    EXPECT_TRUE(halo.plan(rank).peers.empty()) << rank;
    EXPECT_EQ(halo.plan(rank).local.num_cells(), 0) << rank;
  }
  EXPECT_EQ(halo.plan(0).peers.size(), 1U);
  EXPECT_TRUE(nowhere.plan(0).peers.empty());
}

TEST(VirtualHalo, refuses_what_the_real_plan_refuses) {
  Layout const layout(ProcessGrid{2, 1}, Indices{1, 5});
  auto const rule = [&](std::vector<Width> const& widths, Boundary const& boundary) {
    return rule_of([&] { (void)VirtualHalo(layout, {widths, boundary}); });
  };

  EXPECT_EQ(rule({{1, -1}, {0, 0}}, Boundary::uniform(2, Edge::constant)), "BadHaloWidth");
  EXPECT_EQ(rule({{1, 1}}, Boundary::uniform(2, Edge::constant)), "AxesMismatch");
  EXPECT_EQ(rule({{1, 1}, {0, 0}}, Boundary::sphere(Edge::pole_face)), "BadBoundary");
  EXPECT_EQ(rule({{1, 1}, {0, 0}}, Boundary::uniform(2, Edge::reflect)), "BadHaloWidth");
  EXPECT_EQ(rule({{0, 0}, {1, 1}}, Boundary::uniform(2, Edge::reflect)), "nothing was thrown");
  HaloKind kind{{{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::constant)};
  auto const rule_after = [&](auto&& change) {
    auto changed = kind;
    change(changed);
    return rule_of([&] { (void)VirtualHalo(layout, changed); });
  };
  EXPECT_EQ(rule_after([](auto& k) { k.memory = {{1, 1}, {1, 0}}; }), "BadHaloWidth");
  EXPECT_EQ(rule_after([](auto& k) { k.memory = {{1, 1}}; }), "AxesMismatch");
  EXPECT_EQ(rule_after([](auto& k) { k.directions = {{0, 2}}; }), (test::ErrorWith{"AxesMismatch", "direction"}));
  EXPECT_EQ(rule_after([](auto& k) { k.widths_of = WidthsOf::this_rank; }), "BadHaloWidth");
}

}  // namespace
