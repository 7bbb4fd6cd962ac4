// SPDX-License-Identifier: BSD-3-Clause
#include "expect_error.hpp"
#include "tiling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace graticule::archive {
namespace {

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Index product(Indices const& values) {
  return std::accumulate(values.begin(), values.end(), Index(1), std::multiplies<>());
}

/// Every cell of every round is read by one rank and written by one rank, as whole target chunks, within the budget.
void expect_sound(Tiling const& tiling) {
  auto const& task = tiling.task;
  auto const global = Box::from_extents(task.extents);
  Index num_cells = 0;
  for (Index number = 0; number < tiling.num_rounds(); ++number) {
    auto const round = tiling.round(number);
    num_cells += round.num_cells();
    ASSERT_TRUE(global.contains(round));
    for (bool const reads : {true, false}) {
      // Layouts are disjoint covers by their own invariant.
      auto const layout = reads ? tiling.readers(round) : tiling.writers(round);
      ASSERT_EQ(layout.global().num_cells(), round.num_cells());
      for (int rank = 0; rank < layout.num_ranks(); ++rank) {
        auto const box = layout.owned(rank);
        if (box.empty()) continue;
        EXPECT_LE(box.num_cells(), reads ? tiling.read_cells : tiling.written_cells);
        if (reads) continue;
        EXPECT_TRUE(std::find(task.writers.begin(), task.writers.end(), rank) != task.writers.end());
        for (int a = 0; a < box.ndim() && task.target.chunk.size() > 0; ++a) {
          auto const axis = int(task.permutation[a]);
          Index const end = round.lo(axis) + box.hi(a);
          EXPECT_EQ((round.lo(axis) + box.lo(a)) % task.target.chunk[a], 0);
          EXPECT_TRUE(end % task.target.chunk[a] == 0 || end == task.extents[axis]);
        }
      }
    }
    if (tiling.move == Move::between) continue;
    for (int rank = 0; rank < task.num_ranks; ++rank) {
      auto const read = tiling.readers(round).owned(rank);
      auto const written = tiling.writers(round).owned(rank);
      for (int a = 0; a < written.ndim() && !written.empty(); ++a) {
        EXPECT_EQ(written.lo(a), read.lo(int(task.permutation[a])));
        EXPECT_EQ(written.hi(a), read.hi(int(task.permutation[a])));
      }
    }
  }
  EXPECT_EQ(num_cells, global.num_cells());
  EXPECT_LE(tiling.workspace_bytes, task.budget);
}

TEST(Tiling, parts_end_at_chunks) {
  EXPECT_EQ(aligned_parts(0, 10, 4, 2), (std::vector<Index>{8, 2}));
  EXPECT_EQ(aligned_parts(0, 10, 4, 4), (std::vector<Index>{4, 4, 2, 0}));
  EXPECT_EQ(aligned_parts(6, 14, 4, 2), (std::vector<Index>{6, 2}));
  EXPECT_EQ(aligned_parts(5, 6, 4, 1), (std::vector<Index>{1}));
  EXPECT_EQ(aligned_parts(0, 7, 1, 3), (std::vector<Index>{3, 2, 2}));
}

TEST(Tiling, rounds_are_sound_for_any_storage_ranks_and_budget) {
  unsigned const seed = 20;
  std::mt19937 random(seed);
  auto const pick = [&](Index lo, Index hi) { return std::uniform_int_distribution<Index>(lo, hi)(random); };
  for (int turn = 0; turn < 300; ++turn) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", turn " + std::to_string(turn));
    int const ndim = int(pick(1, 4));
    TilingTask task;
    for (int a = 0; a < ndim; ++a) {
      task.extents.push_back(pick(1, 13));
      task.permutation.push_back(a);
    }
    std::shuffle(task.permutation.begin(), task.permutation.end(), random);
    task.source = {.value_bytes = pick(0, 1) * 4 + 4, .converted = pick(0, 2) == 0};
    task.target = {.value_bytes = pick(0, 1) * 4 + 4, .converted = pick(0, 2) == 0};
    for (int a = 0; a < ndim && turn % 3 != 0; ++a) task.source.chunk.push_back(pick(1, task.extents[a]));
    for (int a = 0; a < ndim && turn % 4 != 0; ++a)
      task.target.chunk.push_back(pick(1, task.extents[int(task.permutation[a])]));
    task.source.filtered = turn % 3 == 1;
    task.target.filtered = turn % 4 == 1;
    task.value_bytes = 8;
    task.num_ranks = int(pick(1, 5));
    task.writers = first_ranks(int(pick(1, task.num_ranks)));
    task.shared_memory = turn % 2 == 0;

    Index const least = least_budget(task);
    ASSERT_GT(least, 0);
    task.budget = least - 1;
    auto const thrown = test::thrown_by([&] { static_cast<void>(make_tiling(task)); });
    EXPECT_EQ(thrown.rule, "BudgetTooSmall");
    EXPECT_EQ(thrown.fault, Fault::usage);
    EXPECT_NE(thrown.text.find("at least " + std::to_string(least) + " "), std::string::npos) << thrown.text;
    for (Index const budget : {least, 2 * least, 20 * least}) {
      task.budget = budget;
      expect_sound(make_tiling(task));
    }
  }
}

/// 1.5 GB of f32 in maps, one chunk a map, to series.
TilingTask maps_to_series(Index budget, int num_ranks) {
  return {.extents = {365, 4, 361, 720},
          .permutation = {2, 3, 1, 0},
          .source = {.chunk = {1, 1, 361, 720}, .filtered = true},
          .target = {.chunk = {8, 64, 4, 365}, .filtered = true},
          .value_bytes = 4,
          .num_ranks = num_ranks,
          .writers = first_ranks(num_ranks),
          .budget = budget};
}

TEST(Tiling, source_chunks_are_read_once_where_memory_allows) {
  auto const tiling = make_tiling(maps_to_series(Index(4) << 30, 1));

  EXPECT_EQ(tiling.num_rounds(), 1);
  EXPECT_EQ(tiling.read_factor, 1);
}

TEST(Tiling, ranks_together_read_fewer_chunks_twice_than_each_alone) {
  auto const one = make_tiling(maps_to_series(Index(256) << 20, 1));
  auto const eight = make_tiling(maps_to_series(Index(256) << 20, 8));

  // A map is a chunk: every round that takes a part of all maps inflates all of them.
  EXPECT_GT(one.read_factor, 8);
  EXPECT_LE(eight.read_factor, 4);
  EXPECT_EQ(eight.move, Move::between);
}

TEST(Tiling, two_passes_take_the_place_of_many_readings) {
  auto task = maps_to_series(Index(190) << 20, 1);
  auto const one = make_passes(task);
  EXPECT_FALSE(one.store);
  EXPECT_GT(one.read_factor(), 8);

  task.one_node = true;
  auto const two = make_passes(task);
  ASSERT_TRUE(two.store);
  EXPECT_EQ(two.read_factor(), 1);
  EXPECT_EQ(two.last.move, Move::fetched);
  EXPECT_EQ(two.num_rounds(), two.store->num_rounds() + two.last.num_rounds());
  EXPECT_LE(std::max(two.store->workspace_bytes, two.last.workspace_bytes), task.budget);

  // Where each chunk is read once anyway, or nothing is compressed, there is nothing to gain.
  task.budget = Index(4) << 30;
  EXPECT_FALSE(make_passes(task).store);
  task.budget = Index(190) << 20;
  task.source.filtered = false;
  EXPECT_FALSE(make_passes(task).store);
}

TEST(Tiling, two_passes_put_every_cell_at_a_place_of_its_own) {
  unsigned const seed = 23;
  std::mt19937 random(seed);
  auto const pick = [&](Index lo, Index hi) { return std::uniform_int_distribution<Index>(lo, hi)(random); };
  for (int turn = 0; turn < 200; ++turn) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", turn " + std::to_string(turn));
    int const ndim = int(pick(1, 4));
    TilingTask task;
    task.value_bytes = 8;
    task.num_ranks = int(pick(1, 5));
    for (int a = 0; a < ndim; ++a) {
      task.extents.push_back(pick(1, 13));
      task.permutation.push_back(a);
      task.source.chunk.push_back(pick(1, task.extents[a]));
    }
    std::shuffle(task.permutation.begin(), task.permutation.end(), random);
    for (int a = 0; a < ndim && turn % 4 != 0; ++a)
      task.target.chunk.push_back(pick(1, task.extents[int(task.permutation[a])]));
    task.source.filtered = true;
    task.target.filtered = turn % 4 == 1;
    task.writers = first_ranks(int(pick(1, task.num_ranks)));
    auto first = source_task(task);
    first.pass = Pass::store;
    auto second = task;
    second.pass = Pass::fetch;
    second.source = {.value_bytes = task.value_bytes};
    for (auto* pass : {&first, &second}) pass->budget = pick(2, 6) * least_budget(*pass);
    auto const store = make_tiling(first);
    auto const fetch = make_tiling(second);
    expect_sound(store);
    expect_sound(fetch);
    EXPECT_EQ(store.read_factor, 1);

    // Each block that one rank stores and one rank fetches covers places that no other does.
    std::vector<int> times(std::size_t(product(task.extents)));
    auto const all = Box::from_extents(task.extents);
    auto const parts = [](Tiling const& tiling, auto const& visit) {
      for (Index number = 0; number < tiling.num_rounds(); ++number) {
        auto const round = tiling.round(number);
        auto const layout = tiling.readers(round);
        for (int rank = 0; rank < layout.num_ranks(); ++rank) {
          auto part = layout.owned(rank);
          if (part.empty()) continue;
          for (int a = 0; a < part.ndim(); ++a) part.set(a, part.lo(a) + round.lo(a), part.hi(a) + round.lo(a));
          visit(round, part);
        }
      }
    };
    parts(store, [&](Box const&, Box const& stored) {
      parts(fetch, [&](Box const& round, Box const& fetched) {
        auto const block = intersection(stored, fetched);
        if (block.empty()) return;
        Index const place = place_in_scratch(all, round, fetched, block);
        for (Index i = 0; i < block.num_cells(); ++i) ++times.at(std::size_t(place + i));
      });
    });
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), std::ssize(times));
  }
}

TEST(Tiling, blocks_follow_each_other_in_a_scratch_file) {
  auto const all = Box::from_extents({4, 6});
  EXPECT_EQ(place_in_scratch(all, all, all, Box({0, 3}, {2, 6})), 6);
  EXPECT_EQ(place_in_scratch(all, all, all, Box({2, 3}, {4, 6})), 18);
  // The second round of 4 x 3 cells, in it the second rank's part of 2 x 3, in it the last row.
  EXPECT_EQ(place_in_scratch(all, Box({0, 3}, {4, 6}), Box({2, 3}, {4, 6}), Box({3, 3}, {4, 6})), 12 + 6 + 3);
}

TEST(Tiling, a_new_chunking_of_one_rank_keeps_cells_where_they_were_read) {
  auto task = maps_to_series(Index(256) << 20, 1);
  task.permutation = {0, 1, 2, 3};
  task.target.chunk = {1, 4, 91, 180};

  auto const tiling = make_tiling(task);

  EXPECT_EQ(tiling.move, Move::none);
  EXPECT_EQ(tiling.read_factor, 1);
}

TEST(Tiling, ranks_that_share_no_data_send_none) {
  TilingTask const task{.extents = {400, 100, 50},
                        .permutation = {0, 2, 1},
                        .source = {.chunk = {10, 100, 50}, .filtered = true},
                        .target = {.chunk = {20, 50, 100}, .filtered = true},
                        .num_ranks = 4,
                        .writers = first_ranks(4),
                        .budget = 4 << 20};

  auto const tiling = make_tiling(task);

  EXPECT_EQ(tiling.move, Move::local);
  EXPECT_EQ(tiling.read_factor, 1);
}

TEST(Tiling, large_variables_and_many_ranks_are_planned_at_once) {
  TilingTask task{.extents = {87600, 137, 721, 1440},
                  .permutation = {2, 3, 1, 0},
                  .source = {.chunk = {1, 1, 721, 1440}, .filtered = true},
                  .target = {.chunk = {4, 4, 137, 8760}, .filtered = true},
                  .num_ranks = 1024,
                  .writers = first_ranks(1024),
                  .shared_memory = false,
                  .budget = Index(4) << 30};
  auto const tiling = make_tiling(task);
  EXPECT_LE(tiling.workspace_bytes, task.budget);

  task.extents = {24, 30, 12, 5, 37, 50, 90, 180};
  task.permutation = {7, 6, 5, 4, 3, 2, 1, 0};
  task.source.chunk = {};
  task.target.chunk = {};
  EXPECT_LE(make_tiling(task).workspace_bytes, task.budget);
  EXPECT_EQ(product(make_tiling(task).task.extents), product(task.extents));
}

}  // namespace
}  // namespace graticule::archive
