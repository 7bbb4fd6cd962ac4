// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/grid_sample.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/placement.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace graticule;
using graticule::test::rule_of;

namespace {

/// Bytes to the two neighbors along each axis; axes are rings where `periodic`.
struct Ring {
  Indices extents;
  Indices bytes;
  Indices periodic;

  void operator()(int place, std::function<void(int, Index)> const& visit) const {
    auto const coords = coords_of(place, extents);
    for (int a = 0; a < extents.size(); ++a)
      for (Index const step : {-1, 1}) {
        auto peer = coords;
        peer[a] += step;
        if (periodic[a] != 0) peer[a] = (peer[a] + extents[a]) % extents[a];
        if (peer[a] < 0 || peer[a] >= extents[a] || peer == coords) continue;
        visit(int(number_of(peer, extents)), bytes[a]);
      }
  }
};

/// All bytes between nodes, counted over every rank.
template <class Traffic>
double counted(ProcessGrid const& grid, std::vector<int> const& nodes, Traffic const& traffic) {
  double total = 0;
  for (int place = 0; place < grid.num_ranks(); ++place)
    traffic(place, [&](int peer, Index bytes) {
      if (nodes[std::size_t(grid.rank_at(place))] != nodes[std::size_t(grid.rank_at(peer))]) total += double(bytes);
    });
  return total;
}

TEST(ConsecutiveNodes, fill_one_after_the_other) {
  EXPECT_EQ(consecutive_nodes(10, 4), (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(rule_of([] { (void)consecutive_nodes(4, 0); }), "BadProcessGrid");
}

TEST(NodesOfRanks, are_the_nodes_of_the_communicator) {
  auto const comm = Comm::world();

  auto const nodes = nodes_of_ranks(comm);

  ASSERT_EQ(int(nodes.size()), comm.num_ranks());
  EXPECT_EQ(nodes.front(), 0);
  EXPECT_EQ(1 + *std::max_element(nodes.begin(), nodes.end()), comm.num_nodes());
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), nodes[std::size_t(comm.rank())]), comm.num_node_ranks());
}

TEST(PlaceOnNodes, takes_squares_of_four_in_the_documented_example) {
  Ring const traffic{{8, 8}, {1, 1}, {1, 1}};

  auto const placement = place_on_nodes({8, 8}, consecutive_nodes(64, 4), traffic);

  EXPECT_EQ(placement.grid, ProcessGrid::in_blocks({8, 8}, {2, 2}));
  EXPECT_EQ(placement.off_node_bytes, 16 * 8);
  EXPECT_EQ(placement.off_node_bytes_before, 16 * 10);
}

TEST(PlaceOnNodes, keeps_the_costly_axis_on_the_node) {
  Ring const tall{{8, 8}, {100, 1}, {0, 1}};
  Ring const wide{{8, 8}, {1, 100}, {0, 1}};

  EXPECT_EQ(place_on_nodes({8, 8}, consecutive_nodes(64, 4), tall).grid, ProcessGrid::in_blocks({8, 8}, {4, 1}));
  EXPECT_TRUE(place_on_nodes({8, 8}, consecutive_nodes(64, 4), wide).grid.in_order());
}

TEST(PlaceOnNodes, leaves_the_ranks_in_order_where_nothing_is_gained) {
  Ring const traffic{{16, 1}, {1, 1}, {1, 1}};
  for (int per_node : {1, 3, 4, 16}) {
    auto const placement = place_on_nodes({16, 1}, consecutive_nodes(16, per_node), traffic);
    EXPECT_TRUE(placement.grid.in_order()) << per_node;
    EXPECT_EQ(placement.off_node_bytes, placement.off_node_bytes_before);
  }
}

// 7 x 9 ranks divide into no blocks of 6: walks do it, and better than rows.
TEST(PlaceOnNodes, walks_where_no_blocks_fit) {
  Ring const traffic{{7, 9}, {1, 1}, {0, 0}};
  auto const nodes = consecutive_nodes(63, 6);

  auto const placement = place_on_nodes({7, 9}, nodes, traffic);

  EXPECT_FALSE(placement.grid.in_order());
  EXPECT_EQ(placement.off_node_bytes, counted(placement.grid, nodes, traffic));
  EXPECT_LT(placement.off_node_bytes, 0.8 * placement.off_node_bytes_before);
}

// A launcher that deals ranks out one by one to 4 nodes; the best order is as good as with consecutive ranks.
TEST(PlaceOnNodes, gathers_ranks_that_were_dealt_out) {
  Ring const traffic{{4, 4}, {1, 1}, {0, 0}};
  std::vector<int> dealt(16);
  for (std::size_t rank = 0; rank < 16; ++rank) dealt[rank] = int(rank % 4);

  auto const placement = place_on_nodes({4, 4}, dealt, traffic);

  EXPECT_EQ(placement.off_node_bytes, counted(placement.grid, dealt, traffic));
  EXPECT_EQ(placement.off_node_bytes, place_on_nodes({4, 4}, consecutive_nodes(16, 4), traffic).off_node_bytes);
  EXPECT_LT(placement.off_node_bytes, placement.off_node_bytes_before);
}

TEST(PlaceOnNodes, never_does_worse_and_counts_right_on_random_grids) {
  std::mt19937_64 random(9);
  auto const draw = [&](Index low, Index high) { return low + Index(random() % std::uint64_t(high - low + 1)); };
  int num_better = 0;
  for (int trial = 0; trial < 60; ++trial) {
    auto extents = Indices::filled(int(draw(1, 3)), 1);
    Ring traffic{extents, extents, extents};
    for (int a = 0; a < extents.size(); ++a) {
      extents[a] = draw(1, 6);
      traffic.bytes[a] = draw(0, 9);
      traffic.periodic[a] = draw(0, 1);
    }
    traffic.extents = extents;
    int const num_ranks = ProcessGrid(extents).num_ranks();
    auto nodes = consecutive_nodes(num_ranks, int(draw(1, 8)));
    if (draw(0, 1) == 0) std::shuffle(nodes.begin(), nodes.end(), random);
    SCOPED_TRACE(to_string(extents));

    auto const placement = place_on_nodes(extents, nodes, traffic);

    ASSERT_EQ(placement.grid.extents(), extents);
    ASSERT_EQ(placement.grid.last_rank(), num_ranks - 1);
    ASSERT_EQ(placement.off_node_bytes_before, counted(ProcessGrid(extents), nodes, traffic));
    ASSERT_NEAR(placement.off_node_bytes, counted(placement.grid, nodes, traffic), 1e-9);
    ASSERT_LE(placement.off_node_bytes, placement.off_node_bytes_before);
    num_better += placement.off_node_bytes < placement.off_node_bytes_before ? 1 : 0;
  }
  EXPECT_GT(num_better, 10);
}

TEST(PlaceOnNodes, needs_no_list_for_65536_ranks_and_counts_close) {
  Ring const traffic{{256, 256}, {3, 2}, {0, 1}};
  auto const nodes = consecutive_nodes(65536, 64);
  int num_asked = 0;

  auto const placement = place_on_nodes({256, 256}, nodes, [&](int place, auto const& visit) {
    ++num_asked;
    traffic(place, visit);
  });

  EXPECT_EQ(placement.grid, ProcessGrid::in_blocks({256, 256}, {8, 8}));
  double const exact = counted(placement.grid, nodes, traffic);
  EXPECT_NEAR(placement.off_node_bytes, exact, 0.02 * exact);
  EXPECT_LT(num_asked, 65536);
}

TEST(PlaceOnNodes, refuses_nodes_that_do_not_fit) {
  Ring const traffic{{2, 2}, {1, 1}, {0, 0}};
  for (std::vector<int> const& nodes : std::vector<std::vector<int>>{{0, 0, 0}, {0, 0, 0, -1}, {0, 0, 0, 9}})
    EXPECT_EQ(rule_of([&] { (void)place_on_nodes({2, 2}, nodes, traffic); }), "BadProcessGrid");
}

TEST(GridSample, has_all_places_of_a_small_grid) {
  auto const all = graticule::detail::sample_of({3, 4});

  ASSERT_EQ(all.places.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(all.places[i], int(i));
    EXPECT_EQ(all.weights[i], 1);
  }
}

TEST(GridSample, stands_for_all_places_of_a_large_grid) {
  auto const few = graticule::detail::sample_of({300, 400, 3});

  EXPECT_EQ(few.places.size(), 5U * 5U * 3U);
  double total = 0;
  for (double const weight : few.weights) total += weight;
  EXPECT_EQ(total, 300 * 400 * 3);
  EXPECT_EQ(few.places.front(), 0);
  EXPECT_EQ(few.places.back(), 300 * 400 * 3 - 1);
}

}  // namespace
