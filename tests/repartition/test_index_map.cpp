// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/index_map.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>

#include "expect_error.hpp"
#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <array>

using namespace graticule;
using test::draw;
using test::for_each_cell;
using test::Random;
using test::rule_of;

namespace {

TEST(PermutationMap, refuses_what_is_no_permutation) {
  EXPECT_EQ(rule_of([] { (void)detail::permutation_map({0, 0}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)detail::permutation_map({1, 2}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)detail::permutation_map({-1}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { (void)detail::permutation_map({2, 0, 1}); }), "nothing was thrown");
}

// Every sub-box of the image leads back to exactly the cells that read it.
TEST(Piece, restricted_to_a_source_box_keeps_the_cells_that_read_it) {
  Random random(71);
  for (int trial = 0; trial < 500; ++trial) {
    Piece piece;
    auto const permutation = test::random_permutation(random, 2);
    Indices const lo{draw(random, -5, 5), draw(random, -5, 5)};
    piece.box = Box(lo, {lo[0] + draw(random, 1, 5), lo[1] + draw(random, 1, 5)});
    for (int a = 0; a < 2; ++a)
      piece.maps[std::size_t(a)] = {int(permutation[a]), int(draw(random, -1, 1)), draw(random, -3, 3)};
    Indices const corner{draw(random, -8, 8), draw(random, -8, 8)};
    Box const source(corner, {corner[0] + draw(random, 0, 6), corner[1] + draw(random, 0, 6)});
    auto const image = [&](Indices const& cell) {
      auto result = cell;
      for (int a = 0; a < 2; ++a) {
        auto const& map = piece.maps[std::size_t(a)];
        result[map.source_axis] = map.slope * cell[a] + map.offset;
      }
      return result;
    };

    Box const read = source_box(piece);
    Box const kept = restricted(piece, source).box;

    for_each_cell(grown(piece.box, std::array{Width{2, 2}, Width{2, 2}}), [&](Indices const& cell) {
      bool const in_piece = piece.box.contains(cell);
      if (in_piece) {
        ASSERT_TRUE(read.contains(image(cell)));
      }
      ASSERT_EQ(kept.contains(cell), in_piece && source.contains(image(cell))) << to_string(cell);
    });
    Index num_images = 1;
    for (int a = 0; a < 2; ++a) num_images *= piece.maps[std::size_t(a)].slope == 0 ? 1 : piece.box.extent(a);
    ASSERT_EQ(read.num_cells(), num_images);
  }
}

TEST(PermutationMap, reads_the_same_coordinate_of_the_permuted_axis) {
  Box const needed({2, -1, 0}, {5, 3, 2});

  auto const pieces = detail::permutation_map({2, 0, 1})(needed);

  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].box, needed);
  EXPECT_FALSE(pieces[0].filled || pieces[0].odd_folds || pieces[0].negated);
  EXPECT_EQ(pieces[0].maps[0], (AxisMap{2, 1, 0}));
  EXPECT_EQ(pieces[0].maps[1], (AxisMap{0, 1, 0}));
  EXPECT_EQ(pieces[0].maps[2], (AxisMap{1, 1, 0}));
  EXPECT_EQ(source_box(pieces[0]), Box({-1, 0, 2}, {3, 2, 5}));
}

TEST(Piece, of_any_slope_reads_from_its_first_to_its_last_cell) {
  Piece piece;
  piece.box = Box({0, 1}, {4, 3});
  piece.maps[0] = {1, -2, 10};
  piece.maps[1] = {0, 0, 7};

  EXPECT_EQ(source_box(piece), Box({7, 4}, {8, 11}));
}

}  // namespace
