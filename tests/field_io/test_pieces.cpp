// SPDX-License-Identifier: BSD-3-Clause
#include "read/pieces.hpp"

#include <gtest/gtest.h>

namespace graticule::detail {
namespace {

TEST(ContiguousPieces, end_at_chunks_where_that_fits) {
  EXPECT_EQ(contiguous_pieces(Box({0, 0}, {10, 4}), {4, 4}, 20),
            (std::vector<Box>{Box({0, 0}, {4, 4}), Box({4, 0}, {8, 4}), Box({8, 0}, {10, 4})}));
  // From row 3 on, the first piece ends at the chunk's end, in global coordinates.
  EXPECT_EQ(contiguous_pieces(Box({3, 0}, {10, 4}), {4, 4}, 16),
            (std::vector<Box>{Box({3, 0}, {4, 4}), Box({4, 0}, {8, 4}), Box({8, 0}, {10, 4})}));
  // Two rows fit and a chunk does not: chunks cannot be kept whole.
  EXPECT_EQ(contiguous_pieces(Box({0, 0}, {4, 4}), {4, 4}, 8),
            (std::vector<Box>{Box({0, 0}, {2, 4}), Box({2, 0}, {4, 4})}));
}

TEST(ContiguousPieces, cut_inner_axes_when_one_row_is_too_large) {
  EXPECT_EQ(contiguous_pieces(Box({0, 0}, {2, 5}), {}, 3),
            (std::vector<Box>{Box({0, 0}, {1, 3}), Box({0, 3}, {1, 5}), Box({1, 0}, {2, 3}), Box({1, 3}, {2, 5})}));
}

TEST(ContiguousPieces, cover_each_cell_once_in_row_major_order) {
  Box const box({1, 2, 3}, {6, 9, 14});
  for (Index const most : {1, 2, 7, 10, 11, 12, 50, 76, 77, 78, 200, 384, 385, 1000}) {
    Index place = 0;
    for (auto const& piece : contiguous_pieces(box, {2, 3, 4}, most)) {
      EXPECT_FALSE(piece.empty());
      EXPECT_TRUE(box.contains(piece));
      EXPECT_LE(piece.num_cells(), most);
      // The first cell of the piece is the next cell of the box, and the piece is one run of it.
      Index first = 0;
      for (int axis = 0; axis < 3; ++axis) first = first * box.extent(axis) + piece.lo(axis) - box.lo(axis);
      EXPECT_EQ(first, place);
      int axis = 0;
      while (axis < 3 && piece.extent(axis) == 1) ++axis;
      for (int inner = axis + 1; inner < 3; ++inner) EXPECT_EQ(piece.extent(inner), box.extent(inner));
      place += piece.num_cells();
    }
    EXPECT_EQ(place, box.num_cells()) << most;
  }
}

TEST(ContiguousPieces, of_nothing_are_none_and_of_a_scalar_one) {
  EXPECT_TRUE(contiguous_pieces(Box({0, 0}, {0, 4}), {}, 8).empty());
  EXPECT_EQ(contiguous_pieces(Box(), {}, 8).size(), 1U);
}

}  // namespace
}  // namespace graticule::detail
