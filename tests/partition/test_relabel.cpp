// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/placement.hpp>
#include <graticule/partition/relabel.hpp>

#include "expect_error.hpp"
#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

using namespace graticule;
using test::draw;
using test::Random;
using test::rule_of;

namespace {

/// Two layouts, the second with its axes permuted, and what to weigh.
struct Problem {
  Layout from;
  Layout to;
  RelabelOptions options;
  int num_ranks = 0;
};

Problem random_problem(Random& random, int most_ranks, Index most_cells) {
  int const ndim = int(draw(random, 1, 3));
  auto const extents = test::random_extents(random, ndim, most_cells);
  auto const permutation = test::random_permutation(random, ndim);
  auto permuted = extents;
  for (int a = 0; a < ndim; ++a) permuted[a] = extents[int(permutation[a])];
  auto const ranks_of = [&](Layout const& layout) { return layout.num_ranks(); };
  Problem problem{test::random_layout(random, int(draw(random, 1, most_ranks)), extents),
                  test::random_layout(random, int(draw(random, 1, most_ranks)), permuted),
                  {.permutation = permutation}};
  problem.num_ranks = std::max(ranks_of(problem.from), ranks_of(problem.to));
  if (draw(random, 0, 1) == 0) {
    for (int rank = 0; rank < problem.num_ranks; ++rank)
      problem.options.node_of_rank.push_back(int(draw(random, 0, 2)));
    problem.options.off_node_weight = draw(random, 1, 5);
  }
  return problem;
}

struct Moved {
  Index cells = 0;
  Index off_node = 0;
};

/// Counted cell by cell.
Moved moved(Problem const& problem, Layout const& to) {
  Moved result;
  auto const& nodes = problem.options.node_of_rank;
  auto const node = [&](int rank) { return nodes.empty() ? 0 : nodes[std::size_t(rank)]; };
  for (int rank = 0; rank < problem.num_ranks; ++rank)
    test::for_each_cell(to.owned(rank), [&](Indices const& cell) {
      auto source = cell;
      for (int a = 0; a < cell.size(); ++a) source[int(problem.options.permutation[a])] = cell[a];
      problem.from.for_each_owner(Box(source,
                                      [&] {
                                        auto hi = source;
                                        for (auto& h : hi) ++h;
                                        return hi;
                                      }()),
                                  [&](int owner, Box const&) {
                                    result.cells += owner != rank;
                                    result.off_node += node(owner) != node(rank);
                                  });
    });
  return result;
}

Index cost(Problem const& problem, Moved const& moved) {
  return moved.cells + (problem.options.off_node_weight - 1) * moved.off_node;
}

/// Cost of giving the box of each rank of the target (first index) to each rank.
std::vector<std::vector<Index>> cost_table(Problem const& problem) {
  auto const n = std::size_t(problem.num_ranks);
  std::vector<std::vector<Index>> costs(n, std::vector<Index>(n, 0));
  auto const& nodes = problem.options.node_of_rank;
  for (std::size_t label = 0; label < n; ++label) {
    auto box = problem.to.owned(int(label));
    auto source = box;
    for (int a = 0; a < box.ndim(); ++a) source.set(int(problem.options.permutation[a]), box.lo(a), box.hi(a));
    for (std::size_t owner = 0; owner < n; ++owner) {
      Index const cells = intersection(source, problem.from.owned(int(owner))).num_cells();
      for (std::size_t rank = 0; rank < n; ++rank) {
        if (rank == owner) continue;
        bool const off_node = !nodes.empty() && nodes[rank] != nodes[owner];
        costs[label][rank] += cells * (off_node ? problem.options.off_node_weight : 1);
      }
    }
  }
  return costs;
}

Index cost_of(std::vector<std::vector<Index>> const& costs, std::vector<int> const& rank_of) {
  Index total = 0;
  for (std::size_t label = 0; label < costs.size(); ++label) total += costs[label][std::size_t(rank_of[label])];
  return total;
}

/// The least cost among all permutations, and the most labels that one of that cost leaves with their rank.
std::pair<Index, int> tried_all(Problem const& problem) {
  auto const costs = cost_table(problem);
  std::vector<int> rank_of(costs.size());
  std::iota(rank_of.begin(), rank_of.end(), 0);
  std::pair best{std::numeric_limits<Index>::max(), 0};
  do {
    int kept = 0;
    for (std::size_t label = 0; label < rank_of.size(); ++label)
      kept += rank_of[label] == int(label) && !problem.to.owned(int(label)).empty();
    Index const cost = cost_of(costs, rank_of);
    if (cost < best.first || (cost == best.first && kept > best.second)) best = {cost, kept};
  } while (std::next_permutation(rank_of.begin(), rank_of.end()));
  return best;
}

/// The least cost by the Hungarian algorithm on the whole table (Kuhn 1955, in the form with prices of rows and
/// columns).
Index hungarian(std::vector<std::vector<Index>> const& costs) {
  auto const n = costs.size();
  std::vector<Index> u(n + 1, 0);
  std::vector<Index> v(n + 1, 0);
  std::vector<std::size_t> row_of(n + 1, 0);
  for (std::size_t row = 1; row <= n; ++row) {
    std::vector<Index> least(n + 1, std::numeric_limits<Index>::max());
    std::vector<std::size_t> before(n + 1, 0);
    std::vector<bool> used(n + 1, false);
    std::size_t column = 0;
    row_of[0] = row;
    do {
      used[column] = true;
      Index step = std::numeric_limits<Index>::max();
      std::size_t next = 0;
      for (std::size_t j = 1; j <= n; ++j) {
        if (used[j]) continue;
        Index const reduced = costs[row_of[column] - 1][j - 1] - u[row_of[column]] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          before[j] = column;
        }
        if (least[j] < step) {
          step = least[j];
          next = j;
        }
      }
      for (std::size_t j = 0; j <= n; ++j) {
        if (used[j]) {
          u[row_of[j]] += step;
          v[j] -= step;
        } else {
          least[j] -= step;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    while (column != 0) {
      row_of[column] = row_of[before[column]];
      column = before[column];
    }
  }
  Index total = 0;
  for (std::size_t j = 1; j <= n; ++j) total += costs[row_of[j] - 1][j - 1];
  return total;
}

bool is_permutation_of_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != int(i)) return false;
  return true;
}

void expect_relabelled(Problem const& problem, Relabelling const& result) {
  ASSERT_EQ(std::ssize(result.ranks), problem.num_ranks);
  ASSERT_TRUE(is_permutation_of_ranks(result.ranks));
  for (int label = 0; label < problem.num_ranks; ++label) {
    Box const box = result.layout.owned(result.ranks[std::size_t(label)]);
    if (box.empty() && problem.to.owned(label).empty()) continue;
    EXPECT_EQ(box, problem.to.owned(label));
  }
  auto const before = moved(problem, problem.to);
  auto const after = moved(problem, result.layout);
  EXPECT_EQ(result.moved_cells_before, before.cells);
  EXPECT_EQ(result.moved_cells, after.cells);
  EXPECT_EQ(result.off_node_cells_before, before.off_node);
  EXPECT_EQ(result.off_node_cells, after.off_node);
  EXPECT_EQ(result.cost_above_least, 0);
}

TEST(Relabel, costs_least_of_all_permutations_and_leaves_most_boxes_with_their_rank) {
  Random random(41);
  for (int trial = 0; trial < 400; ++trial) {
    auto const problem = random_problem(random, trial < 20 ? 7 : 5, 9);
    SCOPED_TRACE(to_string(problem.from) + " to " + to_string(problem.to));

    auto const result = relabel(problem.from, problem.to, problem.options);

    expect_relabelled(problem, result);
    auto const [least, kept] = tried_all(problem);
    EXPECT_EQ(cost(problem, moved(problem, result.layout)), least);
    int stayed = 0;
    for (int label = 0; label < problem.num_ranks; ++label)
      stayed += result.ranks[std::size_t(label)] == label && !problem.to.owned(label).empty();
    EXPECT_EQ(stayed, kept);
    if (HasFailure()) return;
  }
}

TEST(Relabel, costs_what_the_hungarian_algorithm_finds_on_forty_ranks) {
  Random random(43);
  for (int trial = 0; trial < 100; ++trial) {
    auto const problem = random_problem(random, 40, 24);
    SCOPED_TRACE(to_string(problem.from) + " to " + to_string(problem.to));

    auto const result = relabel(problem.from, problem.to, problem.options);

    expect_relabelled(problem, result);
    EXPECT_EQ(cost(problem, moved(problem, result.layout)), hungarian(cost_table(problem)));
    if (HasFailure()) return;
  }
}

TEST(Relabel, moves_nothing_for_a_permutation_of_the_ranks) {
  Random random(47);
  for (int trial = 0; trial < 100; ++trial) {
    int const num_ranks = int(draw(random, 1, 12));
    auto const layout = test::random_layout(random, num_ranks, test::random_extents(random, 2, 12));
    std::vector<int> order(std::size_t(layout.num_ranks()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Box> boxes(order.size());
    for (std::size_t rank = 0; rank < order.size(); ++rank) boxes[std::size_t(order[rank])] = layout.owned(int(rank));
    auto const shuffled = Layout::from_boxes(layout.global().extents(), boxes);

    auto const result = relabel(layout, shuffled);

    EXPECT_EQ(result.moved_cells, 0);
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      if (layout.owned(rank).empty()) continue;
      EXPECT_EQ(result.layout.owned(rank), layout.owned(rank));
    }
  }
}

TEST(Relabel, returns_the_target_itself_where_nothing_is_gained) {
  auto const blocks = ProcessGrid::in_blocks({4, 4}, {2, 2});
  Layout const layout(blocks, Indices{8, 8});

  auto const same = relabel(layout, layout);
  auto const transposed = relabel(Layout(ProcessGrid{8, 1}, Indices{8, 8}), Layout(ProcessGrid{1, 8}, Indices{8, 8}));

  EXPECT_EQ(same.layout.fingerprint(), layout.fingerprint());
  EXPECT_EQ(same.moved_cells_before, 0);
  // All overlaps are alike.
  EXPECT_EQ(transposed.layout.fingerprint(), Layout(ProcessGrid{1, 8}, Indices{8, 8}).fingerprint());
  EXPECT_EQ(transposed.moved_cells, 56);
}

TEST(Relabel, takes_the_documented_example_back) {
  Layout const rows(ProcessGrid{3, 1}, Indices{6, 4});
  Layout const elsewhere(ProcessGrid::on_ranks({3, 1}, {2, 0, 1}), Indices{6, 4});

  auto const result = relabel(rows, elsewhere);

  EXPECT_EQ(result.moved_cells_before, 24);
  EXPECT_EQ(result.moved_cells, 0);
  EXPECT_EQ(result.ranks, (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(result.layout.fingerprint(), rows.fingerprint());
}

TEST(Relabel, prefers_the_node_of_most_cells_to_the_rank_of_most) {
  // The box of rank 0 has 4 cells on rank 0, and 3 on each of ranks 2 and 3, which share a node.
  std::vector<Box> const from{Box({0}, {4}), Box({10}, {12}), Box({4}, {7}), Box({7}, {10})};
  std::vector<Box> const to{Box({0}, {10}), Box({10}, {12})};
  auto const source = Layout::from_boxes({12}, from);
  auto const target = Layout::from_boxes({12}, to);
  RelabelOptions const options{.node_of_rank = consecutive_nodes(4, 2), .off_node_weight = 5};

  auto const blind = relabel(source, target);
  auto const aware = relabel(source, target, options);

  EXPECT_EQ(blind.ranks[0], 0);
  EXPECT_EQ(blind.moved_cells, 6);
  EXPECT_EQ(aware.ranks[0], 2);
  EXPECT_EQ(aware.moved_cells, 7);
  EXPECT_EQ(aware.off_node_cells, 4);
  EXPECT_EQ(aware.off_node_cells_before, 6);
}

TEST(Relabel, gives_boxes_to_the_given_ranks_only) {
  Layout const from(ProcessGrid{6, 1}, Indices{12, 4});
  Layout const to(ProcessGrid{3, 1}, Indices{12, 4});

  auto const anywhere = relabel(from, to);
  auto const result = relabel(from, to, {.ranks = {5, 1, 8}});

  EXPECT_EQ(anywhere.moved_cells, 24);
  EXPECT_EQ(result.moved_cells, 32);
  EXPECT_EQ(result.ranks[0], 1);
  EXPECT_EQ(result.ranks[1], 8);
  EXPECT_EQ(result.ranks[2], 5);
  EXPECT_EQ(result.layout.owned(8), Box({4, 0}, {8, 4}));
  EXPECT_TRUE(is_permutation_of_ranks(result.ranks));
}

TEST(Relabel, undoes_a_shuffle_of_4096_ranks_on_nodes) {
  Random random(53);
  std::vector<int> order(4096);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Layout const from(ProcessGrid{64, 64}, Indices{640, 640});
  // Cuts that lie a little beside those of the source.
  std::vector<Index> sizes(64, 10);
  for (std::size_t p = 0; p + 1 < sizes.size(); p += 2) {
    sizes[p] = 11;
    sizes[p + 1] = 9;
  }
  Layout const to(ProcessGrid::on_ranks({64, 64}, order), {Cuts(sizes), Cuts(sizes)});

  auto const result = relabel(from, to, {.node_of_rank = consecutive_nodes(4096, 64)});

  EXPECT_EQ(result.moved_cells, 640 * 640 - 608 * 608);
  for (int rank = 0; rank < 4096; ++rank) ASSERT_EQ(result.ranks[std::size_t(order[std::size_t(rank)])], rank);
}

/// Rows to columns, both of random sizes: the box of c columns shares r c cells with the rank of r rows, so that the
/// most cells stay where the sizes of both ascend.
TEST(Relabel, says_how_far_from_the_least_cost_dense_overlaps_may_be) {
  Random random(59);
  std::size_t const n = 1100;
  auto const random_sizes = [&] {
    std::vector<Index> sizes(n, 1);
    for (int i = 0; i < 3000; ++i) ++sizes[std::size_t(draw(random, 0, Index(n) - 1))];
    return sizes;
  };
  auto rows = random_sizes();
  auto columns = random_sizes();
  Index const extent = Index(n) + 3000;
  Layout const from(ProcessGrid{Index(n), 1}, {Cuts(rows), Cuts{extent}});
  Layout const to(ProcessGrid{1, Index(n)}, {Cuts{extent}, Cuts(columns)});

  auto const result = relabel(from, to);

  std::sort(rows.begin(), rows.end());
  std::sort(columns.begin(), columns.end());
  auto const most = std::inner_product(rows.begin(), rows.end(), columns.begin(), Index(0));
  auto const best_of_each = rows.back() * extent;
  auto const least_cost = extent * extent - most;
  EXPECT_TRUE(is_permutation_of_ranks(result.ranks));
  EXPECT_GE(result.moved_cells, least_cost);
  EXPECT_LE(result.moved_cells - result.cost_above_least, least_cost);
  EXPECT_LE(result.cost_above_least,
            std::max(best_of_each / 64, std::min(best_of_each / 16, extent * extent / 1000)) + 1);
}

TEST(Relabel, refuses_what_does_not_fit) {
  Layout const layout(ProcessGrid{4, 1}, Indices{8, 6});

  EXPECT_EQ(rule_of([&] { (void)relabel(layout, Layout(ProcessGrid{4, 1}, Indices{8, 7})); }), "LayoutMismatch");
  EXPECT_EQ(rule_of([&] { (void)relabel(layout, Layout(ProcessGrid{4}, Indices{48})); }), "LayoutMismatch");
  EXPECT_EQ(rule_of([&] { (void)relabel(layout, layout, {.permutation = {1, 0}}); }), "LayoutMismatch");
  EXPECT_EQ(rule_of([&] {
              (void)relabel(layout, layout, {.permutation = {0, 0}});
            }),
            (test::ErrorWith{"AxesMismatch", "permutation"}));
  EXPECT_EQ(rule_of([&] {
              (void)relabel(layout, layout, {.node_of_rank = {0, 0, 1}});
            }),
            (test::ErrorWith{"BadProcessGrid", "nodes of 3 ranks"}));
  EXPECT_EQ(rule_of([&] { (void)relabel(layout, layout, {.off_node_weight = 0}); }),
            (test::ErrorWith{"BadProcessGrid", "the weight of cells"}));
  EXPECT_EQ(rule_of([&] { (void)relabel(layout, layout, {.ranks = {0, 1, 2}}); }), "BadProcessGrid");
  EXPECT_EQ(rule_of([&] {
              (void)relabel(layout, layout, {.ranks = {0, 1, 1, 2}});
            }),
            (test::ErrorWith{"BadProcessGrid", "rank 1 is negative, or listed twice"}));
  EXPECT_EQ(rule_of([&] {
              (void)relabel(layout, layout, {.ranks = {0, -1, 1, 2}});
            }),
            (test::ErrorWith{"BadProcessGrid", "rank -1 is negative, or listed twice"}));
  Index const huge = Index(1) << 59;
  EXPECT_EQ(
      rule_of([&] { (void)relabel(Layout(ProcessGrid{4}, Indices{huge}), Layout(ProcessGrid{4}, Indices{huge})); }),
      "nothing was thrown");
  EXPECT_EQ(rule_of([&] {
              (void)relabel(Layout(ProcessGrid{4}, Indices{4 * huge}), Layout(ProcessGrid{4}, Indices{4 * huge}));
            }),
            "OutOfRange");
}

}  // namespace
