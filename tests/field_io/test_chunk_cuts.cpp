// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/chunk_cuts.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace graticule {
namespace {

struct ChunkCutsCase {
  Index extent;
  Index chunk;
  int num_parts;
  std::vector<Index> sizes;
};

TEST(ChunkAlignedCuts, end_at_chunks_and_are_as_even_as_chunks_allow) {
  for (auto const& one : std::vector<ChunkCutsCase>{{241, 61, 3, {61, 61, 119}},
                                                    {9, 4, 2, {4, 5}},
                                                    {8, 4, 2, {4, 4}},
                                                    {10, 4, 5, {4, 4, 2, 0, 0}},
                                                    {10, 100, 2, {10, 0}},
                                                    {7, 1, 3, {2, 2, 3}},
                                                    {0, 4, 2, {0, 0}}}) {
    EXPECT_EQ(chunk_aligned_cuts(one.extent, one.chunk, one.num_parts).sizes(), one.sizes) << one.extent;
  }
}

/// Least size of the largest part, by trying all ways.
Index best(Index extent, Index chunk, int num_parts) {
  if (num_parts == 1) return extent;
  Index result = extent;
  for (Index size = 0; size <= extent; size += chunk)
    result = std::min(result, std::max(size, best(extent - size, chunk, num_parts - 1)));
  return result;
}

TEST(ChunkAlignedCuts, have_the_smallest_largest_part) {
  for (Index extent = 0; extent < 24; ++extent)
    for (Index chunk = 1; chunk < 8; ++chunk)
      for (int num_parts = 1; num_parts < 5; ++num_parts) {
        auto const cuts = chunk_aligned_cuts(extent, chunk, num_parts);
        auto const sizes = cuts.sizes();

        EXPECT_EQ(cuts.extent(), extent);
        EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), best(extent, chunk, num_parts))
            << extent << " " << chunk << " " << num_parts;
        for (int part = 0; part < num_parts; ++part) EXPECT_TRUE(cuts.hi(part) % chunk == 0 || cuts.hi(part) == extent);
      }
}

TEST(ChunkAlignedCuts, refuse_bad_arguments) {
  EXPECT_THROW((void)chunk_aligned_cuts(-1, 1, 1), Error);
  EXPECT_THROW((void)chunk_aligned_cuts(4, 0, 1), Error);
  EXPECT_THROW((void)chunk_aligned_cuts(4, 1, 0), Error);
}

}  // namespace
}  // namespace graticule
