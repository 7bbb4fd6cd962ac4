// SPDX-License-Identifier: BSD-3-Clause
// Cutting of long messages: each cell once, no block or segment too long, whole lines where there is room.
#include <graticule/repartition/detail/row_major.hpp>

#include "kernels/blocks.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

using namespace graticule;
using detail::Block;
using detail::BlockCursor;
using detail::BlockField;
using detail::Transfer;
using test::draw;
using test::Random;
using test::Trial;

namespace {

Transfer transfer_of(Indices const& extents, Indices const& permutation, int kind = 0) {
  Transfer result;
  result.kind = kind;
  result.to = Box::from_extents(extents);
  for (int a = 0; a < extents.size(); ++a) result.maps[std::size_t(a)].source_axis = int(permutation[a]);
  return result;
}

struct Walk {
  std::vector<Transfer> transfers;
  std::vector<BlockField> fields;
};

Walk random_walk(Random& random) {
  Walk walk;
  int const ndim = int(draw(random, 1, 3));
  int const num_kinds = int(draw(random, 1, 2));
  for (Index t = draw(random, 0, 4); t > 0; --t)
    walk.transfers.push_back(transfer_of(test::random_extents(random, ndim, 30), test::random_permutation(random, ndim),
                                         int(draw(random, 0, num_kinds - 1))));
  constexpr std::array<Index, 5> sizes{1, 2, 4, 8, 16};
  for (Index f = draw(random, 0, 3); f > 0; --f) {
    auto batch = test::random_batch(random, 4);
    if (batch.size() > 0 && draw(random, 0, 5) == 0) batch[0] = 0;
    walk.fields.push_back({int(draw(random, 0, num_kinds - 1)), batch, sizes[std::size_t(draw(random, 0, 4))]});
  }
  return walk;
}

/// Times that each element of each field and transfer was met.
using Visits = std::map<std::array<int, 2>, std::vector<int>>;

Indices extents_of(Walk const& walk, int field, int transfer) {
  auto extents = walk.fields[std::size_t(field)].batch;
  auto const& to = walk.transfers[std::size_t(transfer)].to;
  for (int a = 0; a < to.ndim(); ++a) extents.push_back(to.extent(a));
  return extents;
}

Visits no_visits(Walk const& walk) {
  Visits visits;
  for (int f = 0; f < int(walk.fields.size()); ++f)
    for (int t = 0; t < int(walk.transfers.size()); ++t)
      if (walk.fields[std::size_t(f)].kind == walk.transfers[std::size_t(t)].kind)
        visits[{f, t}].assign(std::size_t(Box::from_extents(extents_of(walk, f, t)).num_cells()), 0);
  return visits;
}

void visit(Walk const& walk, Block const& block, Visits& visits) {
  auto const extents = extents_of(walk, block.field, block.transfer);
  auto const strides = row_major_strides(extents);
  auto& seen = visits.at({block.field, block.transfer});
  auto hi = block.lo;
  for (int a = 0; a < hi.size(); ++a) hi[a] += block.extents[a];
  ASSERT_TRUE(Box::from_extents(extents).contains(Box(block.lo, hi)));
  test::for_each_cell(Box(block.lo, hi), [&](auto const& at) {
    Index index = 0;
    for (int a = 0; a < at.size(); ++a) index += at[a] * strides[a];
    ++seen[std::size_t(index)];
  });
}

TEST(Blocks, of_a_walk_hold_each_cell_once_and_are_short_enough) {
  auto const seed = test::seed_or(137);
  for (int t = 0; t < 200; ++t) {
    Trial trial(seed, t);
    auto const walk = random_walk(trial.random);
    SCOPED_TRACE(trial.name);
    std::size_t const segment_bytes = std::size_t(draw(trial.random, 1, 20)) * 64 + 192;
    auto visits = no_visits(walk);
    BlockCursor cursor;
    cursor.reset(walk.transfers, walk.fields, segment_bytes);
    auto const count = detail::count_segments(cursor, segment_bytes);
    std::size_t num_segments = 0;
    std::size_t num_bytes = 0;
    std::vector<Block> blocks;
    while (!cursor.done()) {
      auto const bytes = cursor.take_segment(segment_bytes, blocks);
      ++num_segments;
      num_bytes += bytes;
      ASSERT_LE(bytes, segment_bytes);
      ASSERT_FALSE(blocks.empty());
      std::size_t end = 0;
      for (auto const& block : blocks) {
        ASSERT_GE(block.offset, end);
        ASSERT_EQ(block.offset % detail::block_alignment, 0U);
        Index elements = 1;
        for (Index extent : block.extents) elements *= extent;
        end = block.offset + std::size_t(elements * walk.fields[std::size_t(block.field)].cell_bytes);
        visit(walk, block, visits);
      }
      ASSERT_LE(end, bytes);
    }

    for (auto const& [place, seen] : visits)
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }))
          << "field " << place[0] << ", transfer " << place[1];
    ASSERT_EQ(count.segments, num_segments);
    ASSERT_EQ(count.bytes, num_bytes);
  }
}

TEST(Blocks, of_a_permutation_hold_whole_lines_of_both_sides) {
  struct Case {
    Indices extents;
    Indices permutation;
    Index cell_bytes;
  };
  for (auto const& [extents, permutation, cell_bytes] : std::vector<Case>{{{512, 256, 64}, {2, 1, 0}, 8},
                                                                          {{512, 256, 64}, {1, 2, 0}, 4},
                                                                          {{300, 700}, {1, 0}, 8},
                                                                          {{300, 700}, {1, 0}, 1},
                                                                          {{64, 512, 512}, {0, 2, 1}, 2}}) {
    int const ndim = extents.size();
    int source_last = 0;
    for (int a = 0; a < ndim; ++a)
      if (permutation[a] == ndim - 1) source_last = a;
    std::vector const transfers{transfer_of(extents, permutation)};
    std::vector<BlockField> const fields{{0, {}, cell_bytes}};
    BlockCursor cursor;
    for (cursor.reset(transfers, fields, std::size_t(256) << 10U); !cursor.done(); cursor.advance()) {
      auto const& block = cursor.block();
      // The even pieces that an axis is cut into may be shorter by one line; the last one of each axis is a rest.
      for (int const axis : {ndim - 1, source_last})
        if (block.lo[axis] + block.extents[axis] < extents[axis]) {
          ASSERT_GE(block.extents[axis] * cell_bytes, std::min<Index>(64, extents[axis] * cell_bytes))
              << to_string(extents) << " by " << to_string(permutation) << ", axis " << axis;
        }
    }
  }
}

TEST(Blocks, of_cells_that_lie_alike_are_as_long_as_segments) {
  std::vector const transfers{transfer_of({512, 256, 64}, {0, 1, 2})};
  std::vector<BlockField> const fields{{0, {}, 8}};
  constexpr std::size_t segment = std::size_t(256) << 10U;
  BlockCursor cursor;
  cursor.reset(transfers, fields, segment);

  auto const count = detail::count_segments(cursor, segment);

  EXPECT_EQ(count.segments, std::size_t(512) * 256 * 64 * 8 / segment);
}

TEST(Blocks, of_cells_that_lie_alike_are_whole_planes) {
  std::vector const transfers{transfer_of({512, 256, 64}, {0, 1, 2})};
  std::vector<BlockField> const fields{{0, {}, 8}};
  BlockCursor cursor;

  cursor.reset(transfers, fields, std::size_t(256) << 10U);

  EXPECT_EQ(cursor.block().extents, (Indices{2, 256, 64}));
}

TEST(Blocks, count_beyond_32_bits) {
  constexpr Index rows = Index(1) << 20U;
  std::vector const transfers{transfer_of({rows, 8192}, {0, 1})};
  std::vector<BlockField> const fields{{0, {}, 1}};
  constexpr std::size_t block = std::size_t(1) << 30U;
  BlockCursor cursor;
  cursor.reset(transfers, fields, block);
  EXPECT_EQ(cursor.bytes(), block);

  auto const count = detail::count_segments(cursor, block);

  EXPECT_EQ(count.segments, 8U);
  EXPECT_EQ(count.bytes, std::size_t(8) << 30U);
}

TEST(Blocks, walk_over_nothing_ends_at_once) {
  BlockCursor cursor;
  cursor.reset({}, {}, 256);
  EXPECT_TRUE(cursor.done());
  std::vector const transfers{transfer_of({4, 4}, {0, 1})};
  std::vector<BlockField> const none{{0, {0, 3}, 8}, {1, {2}, 8}};

  cursor.reset(transfers, none, 256);

  EXPECT_TRUE(cursor.done());
  EXPECT_EQ(detail::count_segments(cursor, 256).segments, 0U);
}

}  // namespace
