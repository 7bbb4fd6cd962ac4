// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/grid_choice.hpp>

#include "expect_error.hpp"
#include "reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace graticule;
using test::draw;
using test::Random;
using test::rule_of;
using test::thrown_by;

namespace {

/// Quarter-degree winds in single precision on 64 ranks, 4 per node.
GridRequest quarter_degree(int num_ranks = 64, int ranks_per_node = 4) {
  GridRequest request;
  request.extents = {721, 1440};
  request.halo = {{{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_row)};
  request.node_of_rank = consecutive_nodes(num_ranks, ranks_per_node);
  request.element_bytes = 4;
  request.num_batch = 73;
  request.num_candidates = 100;
  return request;
}

std::vector<Indices> grids_of(std::vector<GridCandidate> const& candidates) {
  std::vector<Indices> grids;
  for (auto const& candidate : candidates) grids.push_back(candidate.layout.grid()->extents());
  return grids;
}

GridCandidate const& candidate_with(std::vector<GridCandidate> const& candidates, Indices const& grid) {
  for (auto const& candidate : candidates)
    if (candidate.layout.grid()->extents() == grid) return candidate;
  throw std::runtime_error("no candidate " + to_string(grid));
}

TEST(GridCandidates, are_all_factorizations_the_best_first) {
  auto const candidates = grid_candidates(quarter_degree());

  auto grids = grids_of(candidates);
  ASSERT_EQ(candidates.size(), 7U);
  for (std::size_t i = 1; i < candidates.size(); ++i) EXPECT_LE(candidates[i - 1].seconds, candidates[i].seconds);
  std::sort(grids.begin(), grids.end());
  EXPECT_EQ(grids, (std::vector<Indices>{{1, 64}, {2, 32}, {4, 16}, {8, 8}, {16, 4}, {32, 2}, {64, 1}}));
}

TEST(GridCandidates, say_what_64_bands_exchange) {
  auto const candidates = grid_candidates(quarter_degree());

  auto const& bands = candidate_with(candidates, {64, 1});

  EXPECT_EQ(bands.min_extents, Indices({11, 1440}));
  EXPECT_EQ(bands.max_extents, Indices({12, 1440}));
  EXPECT_DOUBLE_EQ(bands.imbalance, 12.0 * 64 / 721);
  EXPECT_EQ(bands.num_evaluated, 64);
  EXPECT_EQ(bands.messages.max, 2);
  EXPECT_EQ(bands.messages.mean, (62 * 2 + 2) / 64.0);
  // A row of 1440 cells and both corners, each 73 levels of 4 bytes, to either side.
  EXPECT_EQ(bands.bytes.max, 2 * 1442 * 73 * 4);
  EXPECT_EQ(bands.node_off_bytes.max, 2 * 1442 * 73 * 4);
  EXPECT_EQ(bands.node_on_bytes.max, 6 * 1442 * 73 * 4);
  EXPECT_EQ(bands.off_node_bytes, 15 * 2.0 * 1442 * 73 * 4);
  EXPECT_EQ(bands.off_node_bytes_before, bands.off_node_bytes);
  EXPECT_EQ(bands.field_bytes, 14 * 1442 * 73 * 4);
  EXPECT_EQ(bands.buffer_bytes, 4 * 1442 * 73 * 4);
  EXPECT_TRUE(bands.warnings.empty());
}

TEST(GridCandidates, put_neighbors_on_a_node) {
  auto const candidates = grid_candidates(quarter_degree());

  auto const& square = candidate_with(candidates, {8, 8});

  EXPECT_EQ(square.layout.grid()->block(), Indices({2, 2}));
  EXPECT_LT(square.off_node_bytes, 0.85 * square.off_node_bytes_before);
  EXPECT_LT(square.bytes.max, 0.5 * candidate_with(candidates, {64, 1}).bytes.max);
}

/// The cost of a layout by its definition: the slowest of all ranks.
double seconds_by_definition(GridRequest const& request, Layout const& layout) {
  VirtualHalo const halo(layout, request.halo);
  double const cell_bytes = double(request.element_bytes * request.num_batch);
  double slowest = 0;
  for (int rank = 0; rank < layout.num_ranks(); ++rank) {
    auto const plan = halo.plan(rank);
    double seconds = double(plan.local_runs * request.num_batch) * request.cost.run;
    for (auto const& peer : plan.peers) {
      bool const on = request.node_of_rank[std::size_t(rank)] == request.node_of_rank[std::size_t(peer.peer)];
      seconds += on ? request.cost.on_node_message : request.cost.off_node_message;
      seconds += double(std::max(peer.send_cells, peer.receive_cells)) * cell_bytes *
                 (on ? request.cost.on_node_byte : request.cost.off_node_byte);
      seconds += double((peer.send_runs + peer.receive_runs) * request.num_batch) * request.cost.run;
    }
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

GridRequest random_request(Random& random) {
  GridRequest request;
  request.extents = test::random_extents(random, int(draw(random, 1, 3)), 30);
  request.halo.boundary = test::random_boundary(random, request.extents);
  for (int a = 0; a < request.extents.size(); ++a)
    request.halo.widths.push_back({draw(random, 0, 3), draw(random, 0, 3)});
  request.node_of_rank = consecutive_nodes(int(draw(random, 1, 24)), int(draw(random, 1, 6)));
  request.num_batch = draw(random, 1, 100);
  request.min_extents = Indices::filled(request.extents.size(), draw(random, 0, 1));
  return request;
}

// Looking closely at few candidates must not lose the best one, nor get any figure of it wrong.
TEST(GridCandidates, find_the_best_of_random_grids_by_looking_at_few) {
  Random random(29);
  int num_tried = 0;
  int num_pruned = 0;
  for (int trial = 0; trial < 50; ++trial) {
    auto request = random_request(random);
    SCOPED_TRACE("trial " + std::to_string(trial) + ", " + to_string(request.extents) + ", " +
                 test::describe(request.halo.boundary));
    std::vector<GridCandidate> all;
    try {
      request.num_candidates = 1000;
      all = grid_candidates(request);
    } catch (Error const& error) {
      ASSERT_TRUE(error.rule() == "BadProcessGrid" || error.rule() == "BadHaloWidth") << error.what();
      continue;
    }
    ++num_tried;
    for (auto const& candidate : all)
      ASSERT_NEAR(candidate.seconds, seconds_by_definition(request, candidate.layout), 1e-9 * candidate.seconds);

    request.num_candidates = 1;
    auto const few = grid_candidates(request);

    num_pruned += few.size() < all.size() ? 1 : 0;
    ASSERT_EQ(few.front().layout.fingerprint(), all.front().layout.fingerprint());
  }
  EXPECT_GT(num_tried, 25);
  EXPECT_GT(num_pruned, 8);
}

TEST(GridCandidates, prefer_few_cut_axes_and_slow_ones_on_ties) {
  GridRequest request;
  request.extents = {24, 24, 24};
  request.halo = {{{0, 0}, {0, 0}, {0, 0}}, Boundary::uniform(3, Edge::constant)};
  request.node_of_rank = consecutive_nodes(12, 12);
  request.num_candidates = 100;

  auto const grids = grids_of(grid_candidates(request));

  ASSERT_EQ(grids.size(), 18U);
  EXPECT_EQ(grids[0], Indices({12, 1, 1}));
  EXPECT_EQ(grids[1], Indices({1, 12, 1}));
  EXPECT_EQ(grids[2], Indices({1, 1, 12}));
  EXPECT_EQ(grids[3], Indices({6, 2, 1}));
}

TEST(GridCandidates, cut_where_no_halo_is_needed) {
  auto request = quarter_degree();
  request.halo.widths = {{2, 2}, {0, 0}};
  request.halo.boundary = Boundary::uniform(2, Edge::constant);

  auto const best = grid_candidates(request).front();

  EXPECT_EQ(best.layout.grid()->extents(), Indices({1, 64}));
  EXPECT_EQ(best.messages.max, 0);
  EXPECT_EQ(best.seconds, 0);
}

TEST(GridCandidates, weigh_messages_against_bytes) {
  auto request = quarter_degree();
  request.cost = {1, 1e-12, 1, 1e-12, 0};
  auto const few_messages = grid_candidates(request).front();
  request.cost = {0, 1e-9, 0, 1e-9, 0};
  auto const few_bytes = grid_candidates(request).front();
  request.cost = {0, 0, 0, 0, 1e-9};
  auto const few_columns = grid_candidates(request).front();

  EXPECT_EQ(few_messages.messages.max, 2);
  EXPECT_LT(few_bytes.bytes.max, 0.3 * few_messages.bytes.max);
  EXPECT_EQ(few_columns.layout.grid()->extents(), Indices({64, 1}));
}

TEST(GridCandidates, respect_what_the_user_fixes) {
  auto request = quarter_degree();
  request.ranks = {0, 1};
  EXPECT_EQ(grids_of(grid_candidates(request)), (std::vector<Indices>{{64, 1}}));
  request.ranks = {4, 0};
  EXPECT_EQ(grids_of(grid_candidates(request)), (std::vector<Indices>{{4, 16}}));
  request.ranks = {};
  request.min_extents = {60, 60};
  auto grids = grids_of(grid_candidates(request));
  std::sort(grids.begin(), grids.end());
  EXPECT_EQ(grids, (std::vector<Indices>{{4, 16}, {8, 8}}));
}

TEST(GridCandidates, take_the_cuts_that_are_given) {
  auto request = quarter_degree(4, 4);
  request.cuts = [](int axis, int num_parts) {
    return axis == 0 ? weighted_cuts(area_weights(721, PoleRows::on_pole), num_parts) : balanced_cuts(1440, num_parts);
  };
  request.ranks = {4, 1};

  auto const best = grid_candidates(request).front();

  auto const rows = best.layout.cuts(0)->sizes();
  EXPECT_GT(rows.front(), 200);
  EXPECT_LT(rows[1], 160);
  EXPECT_EQ(best.max_extents[0], *std::max_element(rows.begin(), rows.end()));
}

TEST(GridCandidates, refuse_the_impossible_by_name) {
  auto const thrown = [](auto&& change) {
    auto request = quarter_degree();
    change(request);
    return thrown_by([&] { (void)grid_candidates(request); });
  };

  auto const prime = thrown([](auto& r) {
    r.extents = {10, 20};
    r.node_of_rank = consecutive_nodes(97, 4);
  });
  EXPECT_EQ(prime.rule, "BadProcessGrid");
  EXPECT_NE(prime.text.find("97 ranks cannot be arranged over 10 x 20 cells"), std::string::npos) << prime.text;
  EXPECT_EQ(thrown([](auto& r) { r.ranks = {3, 0}; }).rule, "BadProcessGrid");
  EXPECT_EQ(thrown([](auto& r) { r.ranks = {8, 4}; }).rule, "BadProcessGrid");
  EXPECT_EQ(thrown([](auto& r) { r.min_extents = {200, 200}; }).rule, "BadProcessGrid");
  EXPECT_EQ(thrown([](auto& r) { r.ranks = {8}; }).rule, "BadOption");
  EXPECT_EQ(thrown([](auto& r) { r.ranks = {-8, 8}; }).rule, "BadOption");
  EXPECT_EQ(thrown([](auto& r) { r.min_extents = {8}; }).rule, "BadOption");
  EXPECT_EQ(thrown([](auto& r) { r.num_batch = 0; }).rule, "BadOption");
  EXPECT_EQ(thrown([](auto& r) { r.cost.run = std::nan(""); }).rule, "BadOption");
  EXPECT_EQ(thrown([](auto& r) { r.cost.on_node_byte = -1; }).rule, "BadOption");
  EXPECT_EQ(thrown([](auto& r) { r.node_of_rank.clear(); }).rule, "BadProcessGrid");
  EXPECT_EQ(thrown([](auto& r) { r.halo.widths = {{1, 1}}; }).rule, "AxesMismatch");
  EXPECT_EQ(thrown([](auto& r) { r.cuts = [](int, int parts) { return balanced_cuts(7, parts); }; }).rule, "BadOption");
}

TEST(GridCandidates, warn_of_parts_thinner_than_the_halo) {
  GridRequest request;
  request.extents = {24, 40};
  request.halo = {{{5, 5}, {1, 1}}, Boundary::sphere(Edge::pole_face)};
  request.node_of_rank = consecutive_nodes(8, 4);
  request.ranks = {8, 1};
  request.axis_names = {"latitude", "longitude"};

  auto const warnings = grid_candidates(request).front().warnings;

  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0],
            "ranks with 3 cells of latitude under a halo of 5: up to 2 messages more, to second neighbors");
  EXPECT_EQ(warnings[1], "the smallest rank owns 120 cells and has 426 ghost cells");
}

TEST(GridCandidates, count_ranks_that_own_nothing) {
  GridRequest request;
  request.extents = {3, 40};
  request.halo = {{{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::constant)};
  request.node_of_rank = consecutive_nodes(5, 4);
  request.ranks = {5, 1};
  EXPECT_EQ(rule_of([&] { (void)grid_candidates(request); }), "BadProcessGrid");
  request.min_extents = {0, 0};

  auto const best = grid_candidates(request).front();

  EXPECT_EQ(best.num_idle, 2);
  EXPECT_EQ(best.min_extents, Indices({1, 40}));
  EXPECT_NE(std::find(best.warnings.begin(), best.warnings.end(), "2 of 5 ranks own nothing"), best.warnings.end());
}

// Ranks at the ends and in the middle stand for the others, and the largest; at a pole, the partners of others differ.
TEST(GridCandidates, of_many_ranks_are_weighed_by_a_few_of_them) {
  auto request = quarter_degree(8192, 16);
  request.ranks = {64, 128};

  auto const candidate = grid_candidates(request).front();

  EXPECT_LE(candidate.num_evaluated, 26 * 16);
  EXPECT_NEAR(candidate.seconds, seconds_by_definition(request, candidate.layout), 0.03 * candidate.seconds);
  EXPECT_EQ(candidate.layout.grid()->block(), Indices({4, 4}));
}

TEST(GridCandidates, see_one_thick_band_among_many_ranks) {
  auto request = quarter_degree(8192, 16);
  request.ranks = {64, 128};
  request.cuts = [](int axis, int num_parts) {
    if (axis == 1) return balanced_cuts(1440, num_parts);
    std::vector<Index> rows(64, 11);
    rows[40] = 28;
    return Cuts(rows);
  };

  auto const candidate = grid_candidates(request).front();

  EXPECT_EQ(candidate.field_bytes, (28 + 2) * (12 + 2) * 73 * 4);
  EXPECT_NEAR(candidate.seconds, seconds_by_definition(request, candidate.layout), 0.03 * candidate.seconds);
}

TEST(BestLayout, is_the_same_on_all_ranks_and_carries_an_exchange) {
  auto const comm = Comm::world();
  auto request = quarter_degree();
  request.extents = {45, 90};

  auto const layout = best_layout(comm, request);

  HaloPlan const plan(comm, layout, request.halo.widths, request.halo.boundary);
  EXPECT_EQ(layout.num_ranks(), comm.num_ranks());
  EXPECT_EQ(plan.counts().send_cells, VirtualHalo(layout, request.halo).plan(comm.rank()).counts().send_cells);
}

}  // namespace
