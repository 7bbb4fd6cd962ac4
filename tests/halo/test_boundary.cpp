// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/boundary.hpp>

#include "expect_error.hpp"
#include "reference.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

using namespace graticule;
using test::draw;
using test::for_each_cell;
using test::Image;
using test::image_of;
using test::Random;
using test::rule_of;

namespace {

constexpr std::array all_edges{Edge::untouched, Edge::constant,  Edge::periodic,  Edge::reflect,
                               Edge::symmetric, Edge::replicate, Edge::pole_face, Edge::pole_row};

bool is_pole(Edge edge) { return edge == Edge::pole_face || edge == Edge::pole_row; }
bool mirrors_at_cell(Edge edge) { return edge == Edge::reflect || edge == Edge::pole_row; }

/// Every cell of `needed` lies in exactly one piece, with the image that the formula gives, or in none when untouched.
void expect_pieces_as_by_formula(Indices const& extents, Boundary const& boundary, Box const& needed) {
  auto const text = test::describe(boundary) + " on " + to_string(extents) + ", needed " + to_string(needed);
  std::map<std::vector<Index>, int> num_pieces;
  for (auto const& piece : boundary_map(extents, boundary)(needed)) {
    ASSERT_TRUE(needed.contains(piece.box)) << to_string(piece.box) << " in " << text;
    for_each_cell(piece.box, [&](Indices const& cell) {
      ++num_pieces[{cell.begin(), cell.end()}];
      auto const expected = image_of(cell, extents, boundary);
      ASSERT_EQ(piece.filled, expected.kind == Image::Kind::constant) << to_string(cell) << " with " << text;
      if (piece.filled) {
        ASSERT_EQ(piece.fill, expected.constant) << to_string(cell) << " with " << text;
        return;
      }
      auto image = cell;
      for (int a = 0; a < cell.size(); ++a) {
        auto const& map = piece.maps[std::size_t(a)];
        ASSERT_EQ(map.source_axis, a);
        image[a] = map.slope * cell[a] + map.offset;
      }
      ASSERT_EQ(image, expected.cell) << to_string(cell) << " with " << text;
      ASSERT_EQ(piece.odd_folds, expected.odd_folds) << to_string(cell) << " with " << text;
    });
    if (testing::Test::HasFatalFailure()) return;
  }
  for_each_cell(needed, [&](Indices const& cell) {
    bool const touched = image_of(cell, extents, boundary).kind != Image::Kind::nothing;
    ASSERT_EQ(num_pieces[std::vector<Index>(cell.begin(), cell.end())], touched ? 1 : 0)
        << to_string(cell) << " with " << text;
  });
}

TEST(BoundaryMap, follows_the_formula_for_every_pair_of_rules_on_one_axis) {
  int num_tried = 0;
  for (Index n = 1; n <= 5; ++n)
    for (Edge const lower : all_edges)
      for (Edge const upper : all_edges) {
        if (is_pole(lower) || is_pole(upper) || (lower == Edge::periodic) != (upper == Edge::periodic)) continue;
        if (n == 1 && (mirrors_at_cell(lower) || mirrors_at_cell(upper))) continue;
        Boundary const boundary{{{lower, upper, 7}}, -1};
        for (Index lo = -3 * n - 2; lo <= 2 * n; ++lo)
          for (Index const hi : {lo + 1, lo + 2, lo + n, lo + 2 * n + 1, Index(4 * n + 2)}) {
            ++num_tried;
            expect_pieces_as_by_formula({n}, boundary, Box({lo}, {hi}));
            if (HasFatalFailure()) return;
          }
      }
  EXPECT_GT(num_tried, 5000);
}

TEST(BoundaryMap, crosses_poles_on_faces_and_on_rows_as_often_as_needed) {
  for (Index rows = 1; rows <= 4; ++rows)
    for (Index columns : {2, 4, 6})
      for (Edge const lower : all_edges)
        for (Edge const upper : all_edges) {
          if (lower == Edge::periodic || upper == Edge::periodic || !(is_pole(lower) || is_pole(upper))) continue;
          if (rows == 1 && (mirrors_at_cell(lower) || mirrors_at_cell(upper))) continue;
          AxisBoundary const latitude{lower, upper, 3};
          AxisBoundary const longitude{Edge::periodic, Edge::periodic, 0};
          expect_pieces_as_by_formula({rows, columns}, {{latitude, longitude}, 1},
                                      Box({-3 * rows - 1, -2 * columns - 1}, {4 * rows + 1, 3 * columns + 1}));
          expect_pieces_as_by_formula({columns, rows}, {{longitude, latitude}, 0},
                                      Box({-1, -2 * rows}, {columns + 3, 3 * rows}));
          if (HasFatalFailure()) return;
        }
}

TEST(BoundaryMap, follows_the_formula_for_random_rules_in_three_axes) {
  Random random(41);
  for (int trial = 0; trial < 400; ++trial) {
    auto const extents = test::random_extents(random, 3, 4);
    auto const boundary = test::random_boundary(random, extents);
    auto lo = extents;
    auto hi = extents;
    for (int a = 0; a < 3; ++a) {
      lo[a] = draw(random, -2 * extents[a] - 1, extents[a]);
      hi[a] = lo[a] + draw(random, 0, 2 * extents[a] + 2);
    }
    expect_pieces_as_by_formula(extents, boundary, Box(lo, hi));
    if (HasFatalFailure()) return;
  }
}

// The documented numbers, by hand: 4 rows, 6 columns, poles on the outer faces; then on the rows.
TEST(BoundaryMap, takes_known_cells_across_the_pole) {
  struct Row {
    Edge pole;
    Indices ghost;
    Indices image;
    bool odd;
  };
  std::vector<Row> const rows{
      {Edge::pole_face, {-1, 0}, {0, 3}, true},  {Edge::pole_face, {-2, 1}, {1, 4}, true},
      {Edge::pole_face, {-1, -1}, {0, 2}, true}, {Edge::pole_face, {4, 5}, {3, 2}, true},
      {Edge::pole_face, {5, 6}, {2, 3}, true},   {Edge::pole_face, {-5, 0}, {3, 0}, false},
      {Edge::pole_row, {-1, 0}, {1, 3}, true},   {Edge::pole_row, {-3, 2}, {3, 5}, true},
      {Edge::pole_row, {4, 0}, {2, 3}, true},    {Edge::pole_row, {6, -4}, {0, 5}, true},
      {Edge::pole_row, {-4, 1}, {2, 1}, false},  {Edge::pole_row, {2, -2}, {2, 4}, false},
  };
  for (auto const& row : rows) {
    auto const pieces =
        boundary_map({4, 6}, Boundary::sphere(row.pole))(Box(row.ghost, {row.ghost[0] + 1, row.ghost[1] + 1}));

    ASSERT_EQ(pieces.size(), 1U);
    EXPECT_EQ(source_box(pieces[0]).lo(), row.image) << to_string(row.pole) << " " << to_string(row.ghost);
    EXPECT_EQ(pieces[0].odd_folds, row.odd) << to_string(row.pole) << " " << to_string(row.ghost);
  }
}

TEST(BoundaryMap, refuses_rules_that_make_no_sense) {
  auto const rule = [](Indices const& extents, Boundary const& boundary) {
    return rule_of([&] { (void)boundary_map(extents, boundary); });
  };
  AxisBoundary const zero{Edge::constant, Edge::constant, 0};
  AxisBoundary const periodic{Edge::periodic, Edge::periodic, 0};
  AxisBoundary const pole{Edge::pole_face, Edge::constant, 0};

  EXPECT_EQ(rule({4, 6}, {{zero}, -1}), "AxesMismatch");
  EXPECT_EQ(rule({4}, {{zero, zero}, -1}), "AxesMismatch");
  EXPECT_EQ(rule({4}, {{{Edge::periodic, Edge::constant, 0}}, -1}), "PeriodicOnOneSide");
  EXPECT_EQ(rule({4}, {{{Edge::reflect, Edge::periodic, 0}}, -1}), "PeriodicOnOneSide");
  EXPECT_EQ(rule({4, 6}, {{pole, periodic}, -1}), "PoleNeedsPeriodicLongitude");
  EXPECT_EQ(rule({4, 6}, {{pole, periodic}, 0}), "PoleNeedsPeriodicLongitude");
  EXPECT_EQ(rule({4, 6}, {{pole, periodic}, 2}), "PoleNeedsPeriodicLongitude");
  EXPECT_EQ(rule({4, 6}, {{pole, zero}, 1}), "PoleNeedsPeriodicLongitude");
  EXPECT_EQ(rule({4, 6}, {{{Edge::constant, Edge::pole_row, 0}, zero}, 1}), "PoleNeedsPeriodicLongitude");
  EXPECT_EQ(rule({4, 7}, {{pole, periodic}, 1}), "OddLongitudeFold");
  EXPECT_EQ(rule({7, 4}, {{periodic, {Edge::constant, Edge::pole_row, 0}}, 0}), "OddLongitudeFold");
  EXPECT_EQ(rule({7, 4}, Boundary::sphere(Edge::pole_face)), "nothing was thrown");
  EXPECT_EQ(rule({4, 7}, Boundary::uniform(2, Edge::periodic)), "nothing was thrown");
}

TEST(BoundaryMap, refuses_a_mirror_at_the_only_cell_when_ghosts_ask_for_it) {
  auto const map = boundary_map({1}, Boundary::uniform(1, Edge::reflect));
  auto const rows = boundary_map({1, 4}, Boundary::sphere(Edge::pole_row));

  EXPECT_EQ(rule_of([&] { (void)map(Box({-1}, {1})); }), "ReflectTooWide");
  EXPECT_EQ(rule_of([&] { (void)map(Box({0}, {2})); }), "ReflectTooWide");
  EXPECT_EQ(rule_of([&] { (void)rows(Box({-1, 0}, {0, 4})); }), "ReflectTooWide");
  EXPECT_EQ(map(Box({0}, {1})).size(), 1U);
  EXPECT_EQ(rows(Box({0, -1}, {1, 0})).size(), 1U);
}

TEST(BoundaryMap, does_nothing_for_an_empty_box) {
  EXPECT_TRUE(boundary_map({4, 6}, Boundary::sphere(Edge::pole_row))(Box({-1, 3}, {0, 3})).empty());
}

TEST(Boundary, fingerprints_tell_rules_apart) {
  std::set<std::uint64_t> seen;
  std::size_t num_rules = 0;
  for (Edge const lower : all_edges)
    for (Edge const upper : all_edges)
      for (double const constant : {0.0, 1.0})
        for (int const longitude : {-1, 1}) {
          ++num_rules;
          seen.insert(fingerprint(Boundary{{{lower, upper, constant}, {}}, longitude}));
        }
  EXPECT_EQ(seen.size(), num_rules);
  EXPECT_EQ(fingerprint(Boundary::sphere(Edge::pole_row)), fingerprint(Boundary::sphere(Edge::pole_row)));
}

TEST(HaloBoxes, cover_each_ghost_once) {
  Random random(43);
  for (int trial = 0; trial < 500; ++trial) {
    int const ndim = int(draw(random, 1, 3));
    auto const lo = test::random_extents(random, ndim, 5);
    auto hi = lo;
    std::vector<Width> widths;
    for (int a = 0; a < ndim; ++a) {
      hi[a] += draw(random, 1, 3);
      widths.push_back({draw(random, 0, 2), draw(random, 0, 2)});
    }
    Box const owned(lo, hi);
    Box const local = grown(owned, widths);
    for (Corners const corners : {Corners::fill, Corners::skip}) {
      auto const boxes = halo_boxes(owned, local, corners);
      for_each_cell(grown(local, std::vector<Width>(std::size_t(ndim), {1, 1})), [&](Indices const& cell) {
        int num_boxes = 0;
        for (auto const& box : boxes) num_boxes += box.contains(cell) ? 1 : 0;
        bool const expected = local.contains(cell) && test::is_ghost(cell, owned, corners);
        ASSERT_EQ(num_boxes, expected ? 1 : 0) << to_string(cell) << " round " << to_string(owned);
      });
      for (auto const& box : boxes) ASSERT_FALSE(box.empty());
    }
  }
}

TEST(HaloBoxes, of_nothing_are_none) {
  EXPECT_TRUE(halo_boxes(Box({3, 0}, {3, 4}), Box({3, 0}, {3, 4}), Corners::fill).empty());
}

}  // namespace
