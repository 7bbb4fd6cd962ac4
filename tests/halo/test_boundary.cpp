// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/boundary.hpp>
#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/halo/detail/edges.hpp>
#include <graticule/halo/detail/halo_boxes.hpp>

#include "expect_error.hpp"
#include "reference.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

using namespace graticule;
using detail::boundary_map;
using detail::copied_boxes;
using test::draw;
using test::for_each_cell;
using test::Image;
using test::image_of;
using test::Random;
using test::rule_of;

namespace {

using test::all_edges;
using test::mirrors_at_row;

bool is_pole(Edge edge) { return edge == Edge::pole_face || edge == Edge::pole_row; }

constexpr std::array all_places{Stagger::low_face, Stagger::centre, Stagger::high_face};

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
      ASSERT_EQ(piece.negated, expected.negated) << to_string(cell) << " with " << text;
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
        if (is_fold(lower) || is_fold(upper) || (lower == Edge::periodic) != (upper == Edge::periodic)) continue;
        if (n == 1 && (mirrors_at_row(lower) || mirrors_at_row(upper))) continue;
        bool const faces_end_here = lower == Edge::periodic || mirrors_at_row(lower) || mirrors_at_row(upper);
        for (Stagger const place : {Stagger::low_face, Stagger::centre, Stagger::high_face, Stagger::all_faces})
          for (Index lo = faces_end_here && place == Stagger::all_faces ? 2 * n + 1 : -3 * n - 2; lo <= 2 * n; ++lo)
            for (Index const hi : {lo + 1, lo + 2, lo + n, lo + 2 * n + 1, Index(4 * n + 2)}) {
              ++num_tried;
              expect_pieces_as_by_formula({n}, {{{lower, upper, 7, place}}, -1}, Box({lo}, {hi}));
              if (HasFatalFailure()) return;
            }
      }
  EXPECT_GT(num_tried, 20000);
}

/// Both orders of the axes, halos several times as wide as the grid.
void expect_folds_as_by_formula(Index rows, Index columns, AxisBoundary const& latitude, AxisBoundary const& longitude,
                                MirrorLine line) {
  Boundary boundary{{latitude, longitude}, 1};
  boundary.mirror_line = line;
  boundary.odd_longitudes = line == MirrorLine::keep ? OddLongitudes::shift_floor : OddLongitudes::refuse;
  expect_pieces_as_by_formula({rows, columns}, boundary,
                              Box({-3 * rows - 1, -2 * columns - 1}, {4 * rows + 1, 3 * columns + 1}));
  std::swap(boundary.axes[0], boundary.axes[1]);
  boundary.longitude_axis = 0;
  boundary.pivot = columns / 2;
  expect_pieces_as_by_formula({columns, rows}, boundary, Box({-1, -2 * rows}, {columns + 3, 3 * rows}));
}

// Tripolar seams on each of the four edges, poles, odd numbers of longitudes, and all places of staggered values.
TEST(BoundaryMap, crosses_folds_as_often_as_needed) {
  for (Index rows = 1; rows <= 4; ++rows)
    for (Index columns = 1; columns <= 6; ++columns)
      for (Edge const lower : all_edges)
        for (Edge const upper : all_edges) {
          if (lower == Edge::periodic || upper == Edge::periodic || !(is_fold(lower) || is_fold(upper))) continue;
          if (rows == 1 && (mirrors_at_row(lower) || mirrors_at_row(upper))) continue;
          auto const line = (rows + columns) % 2 == 0 || rows == 1 ? MirrorLine::keep : MirrorLine::copy;
          if (line == MirrorLine::copy && columns % 2 == 1 && (is_pole(lower) || is_pole(upper))) continue;
          for (Stagger const place : all_places)
            for (Stagger const turned : all_places) {
              expect_folds_as_by_formula(rows, columns, {lower, upper, 3, place},
                                         {Edge::periodic, Edge::periodic, 0, turned}, line);
              if (HasFatalFailure()) return;
            }
        }
}

TEST(BoundaryMap, follows_the_formula_for_random_rules_in_three_axes) {
  Random random(41);
  for (int trial = 0; trial < 10000; ++trial) {
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

// The pivots of ocean models on a grid of 6 rows and 8 columns, rows counted from the south: NEMO's T-point pivot is
// `tripolar_row`, its F-point pivot and that of MOM6 `tripolar_face`.
TEST(BoundaryMap, takes_known_cells_across_a_seam) {
  struct Row {
    Edge seam;
    Stagger latitude;
    Stagger longitude;
    Indices cell;
    Indices image;
    bool odd;
  };
  constexpr auto low = Stagger::low_face;
  constexpr auto mid = Stagger::centre;
  constexpr auto high = Stagger::high_face;
  std::vector<Row> const rows{
      // T points: the row on the seam is stored twice, its upper half is a copy.
      {Edge::tripolar_row, mid, mid, {6, 1}, {4, 7}, true},
      {Edge::tripolar_row, mid, mid, {6, 0}, {4, 0}, true},
      {Edge::tripolar_row, mid, mid, {5, 3}, {5, 3}, false},
      {Edge::tripolar_row, mid, mid, {5, 7}, {5, 1}, true},
      {Edge::tripolar_row, mid, mid, {5, 4}, {5, 4}, false},
      // U points on east faces: column i pairs with -1 - i.
      {Edge::tripolar_row, mid, high, {6, 0}, {4, 7}, true},
      {Edge::tripolar_row, mid, high, {5, 4}, {5, 3}, true},
      // V points on north faces: the last row lies beyond the seam.
      {Edge::tripolar_row, high, mid, {5, 1}, {4, 7}, true},
      {Edge::tripolar_row, high, mid, {6, 1}, {3, 7}, true},
      {Edge::tripolar_row, high, high, {6, 2}, {3, 5}, true},
      // Corner pivot.
      {Edge::tripolar_face, mid, mid, {6, 0}, {5, 7}, true},
      {Edge::tripolar_face, mid, mid, {7, 2}, {4, 5}, true},
      {Edge::tripolar_face, mid, high, {6, 0}, {5, 6}, true},
      {Edge::tripolar_face, high, mid, {6, 0}, {4, 7}, true},
      {Edge::tripolar_face, high, mid, {5, 6}, {5, 1}, true},
      {Edge::tripolar_face, high, high, {5, 5}, {5, 1}, true},
      {Edge::tripolar_face, high, high, {5, 7}, {5, 7}, false},
      {Edge::tripolar_face, low, mid, {7, 0}, {5, 7}, true},
  };
  for (auto const& row : rows) {
    auto const rules = Boundary::tripolar(Edge::constant, row.seam).staggered({row.latitude, row.longitude});

    auto const pieces = boundary_map({6, 8}, rules)(Box(row.cell, {row.cell[0] + 1, row.cell[1] + 1}));

    ASSERT_EQ(pieces.size(), 1U);
    EXPECT_EQ(source_box(pieces[0]).lo(), row.image) << test::describe(rules) << " " << to_string(row.cell);
    EXPECT_EQ(pieces[0].odd_folds, row.odd) << test::describe(rules) << " " << to_string(row.cell);
  }
}

// Two times the value at the mirror less the ghost's image is what a wall asks of an odd continuation: zero there.
TEST(BoundaryMap, changes_the_sign_once_for_each_antisymmetric_edge_crossed) {
  Boundary const walls{{{Edge::antisymmetric, Edge::antireflect}, {Edge::antisymmetric, Edge::replicate}}, -1};
  auto const map = boundary_map({4, 4}, walls);
  auto const negated = [&](Index row, Index column) {
    auto const pieces = map(Box({row, column}, {row + 1, column + 1}));
    EXPECT_EQ(pieces.size(), 1U);
    return pieces.at(0).negated;
  };

  EXPECT_FALSE(negated(0, 0));
  EXPECT_TRUE(negated(-1, 0));
  EXPECT_TRUE(negated(4, 0));
  EXPECT_FALSE(negated(-1, -1)) << "both walls of a corner";
  EXPECT_FALSE(negated(-6, 0)) << "across the lower wall, then the upper";
  EXPECT_TRUE(negated(-1, 5));
}

// On faces beside an outer face lies a ghost on the mirror itself, which no owned cell is the image of.
TEST(BoundaryMap, fills_with_the_constant_what_lies_on_a_mirror_and_is_nobodys) {
  for (Edge const edge : {Edge::symmetric, Edge::antisymmetric}) {
    auto const low = boundary_map({4}, {{{edge, edge, 2.5, Stagger::high_face}}, -1})(Box({-2}, {0}));
    auto const high = boundary_map({4}, {{{edge, edge, 2.5, Stagger::low_face}}, -1})(Box({4}, {6}));

    ASSERT_EQ(low.size(), 2U);
    EXPECT_EQ(source_box(low[0]), Box({0}, {1}));
    EXPECT_TRUE(low[1].filled);
    EXPECT_EQ(low[1].fill, 2.5);
    ASSERT_EQ(high.size(), 2U);
    EXPECT_TRUE(high[0].filled);
    EXPECT_EQ(source_box(high[1]), Box({3}, {4}));
  }
}

TEST(BoundaryMap, shifts_an_odd_number_of_longitudes_by_the_floor_of_its_half) {
  auto rules = Boundary::sphere(Edge::pole_face);
  rules.odd_longitudes = OddLongitudes::shift_floor;
  auto const map = boundary_map({3, 5}, rules);
  for (Index const row : {-1, 3}) {
    std::set<Index> read;
    for (Index column = 0; column < 5; ++column) {
      auto const pieces = map(Box({row, column}, {row + 1, column + 1}));
      EXPECT_EQ(source_box(pieces.at(0)).lo(), Indices({row < 0 ? 0 : 2, (column + 2) % 5}));
      read.insert(source_box(pieces.at(0)).lo(1));
    }
    EXPECT_EQ(read.size(), 5U) << "each column is read once";
  }
}

TEST(CopiedBoxes, are_the_owned_cells_that_do_not_map_to_themselves) {
  Random random(47);
  int num_copies = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    auto const extents = test::random_extents(random, 3, 6);
    auto const boundary = test::random_boundary(random, extents);
    auto lo = extents;
    auto hi = extents;
    for (int a = 0; a < 3; ++a) {
      lo[a] = draw(random, 0, extents[a] / 2);
      hi[a] = draw(random, lo[a], extents[a]);
    }
    Box const owned(lo, hi);

    auto const boxes = copied_boxes(extents, boundary, owned);

    for_each_cell(owned, [&](Indices const& cell) {
      int num_boxes = 0;
      for (auto const& box : boxes) num_boxes += box.contains(cell) ? 1 : 0;
      auto const image = image_of(cell, extents, boundary).cell;
      ASSERT_EQ(num_boxes, image == cell ? 0 : 1) << to_string(cell) << " with " << test::describe(boundary);
      // A cell that is copied is no copy: an exchange reads what it does not write.
      ASSERT_EQ(image_of(image, extents, boundary).cell, image) << to_string(cell) << test::describe(boundary);
      num_copies += num_boxes;
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(num_copies, 100);
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
  EXPECT_EQ(rule({4}, {{{Edge::constant, Edge(77), 0}}, -1}), (test::ErrorWith{"BadBoundary", "axis 0 has "}));
  EXPECT_EQ(rule({4}, {{{Edge::constant, Edge::reflect, 0, Stagger(3)}}, -1}),
            (test::ErrorWith{"BadBoundary", "at offset 3"}));
  EXPECT_EQ(rule({4}, {{{Edge::periodic, Edge::constant, 0}}, -1}),
            (test::ErrorWith{"BadBoundary", "is periodic on one side"}));
  EXPECT_EQ(rule({4}, {{{Edge::reflect, Edge::periodic, 0}}, -1}),
            (test::ErrorWith{"BadBoundary", "is periodic on one side"}));
  EXPECT_EQ(rule({4, 6}, {{pole, periodic}, -1}), "BadBoundary");
  EXPECT_EQ(rule({4, 6}, {{pole, periodic}, 0}), "BadBoundary");
  EXPECT_EQ(rule({4, 6}, {{pole, periodic}, 2}), "BadBoundary");
  EXPECT_EQ(rule({4, 6}, {{pole, zero}, 1}), "BadBoundary");
  EXPECT_EQ(rule({4, 6}, {{{Edge::constant, Edge::pole_row, 0}, zero}, 1}), "BadBoundary");
  EXPECT_EQ(rule({4, 7}, {{pole, periodic}, 1}), "BadBoundary");
  EXPECT_EQ(rule({7, 4}, {{periodic, {Edge::constant, Edge::pole_row, 0}}, 0}), "BadBoundary");
  auto const with = [](Boundary boundary, OddLongitudes odd, MirrorLine line) {
    boundary.odd_longitudes = odd;
    boundary.mirror_line = line;
    return boundary;
  };
  auto const poles = Boundary::sphere(Edge::pole_row);
  EXPECT_EQ(rule({4, 7}, with(poles, OddLongitudes::shift_floor, MirrorLine::copy)), "BadBoundary");
  EXPECT_EQ(rule({4, 7}, with(poles, OddLongitudes::shift_floor, MirrorLine::keep)), "nothing was thrown");
  EXPECT_EQ(rule({1, 6}, with(poles, OddLongitudes::refuse, MirrorLine::copy)), "BadHaloWidth");
  EXPECT_EQ(rule_of([] { (void)Boundary::sphere(Edge::periodic); }), "BadBoundary");
  EXPECT_EQ(rule_of([] { (void)Boundary::tripolar(Edge::constant, Edge::pole_row); }), "BadBoundary");
  EXPECT_EQ(rule({4, 7}, Boundary::tripolar(Edge::constant, Edge::tripolar_row)), "nothing was thrown");
  EXPECT_EQ(rule({4, 7}, Boundary::tripolar(Edge::pole_face, Edge::tripolar_row)), "BadBoundary");
  EXPECT_EQ(rule({4, 6}, {{{Edge::constant, Edge::tripolar_row, 0}, zero}, 1}), "BadBoundary");
  EXPECT_EQ(rule({4, 4, 6}, poles.behind(pole)), (test::ErrorWith{"BadBoundary", "both end at a pole"}));
  EXPECT_EQ(rule({4, 4, 6}, poles.behind({Edge::antireflect, Edge::constant})), "nothing was thrown");
  EXPECT_EQ(rule_of([&] { (void)poles.staggered({Stagger::centre}); }), "AxesMismatch");
  EXPECT_EQ(rule({7, 4}, Boundary::sphere(Edge::pole_face)), "nothing was thrown");
  EXPECT_EQ(rule({4, 7}, Boundary::uniform(2, Edge::periodic)), "nothing was thrown");
}

TEST(BoundaryMap, refuses_a_mirror_at_the_only_cell_when_ghosts_ask_for_it) {
  auto const map = boundary_map({1}, Boundary::uniform(1, Edge::reflect));
  auto const rows = boundary_map({1, 4}, Boundary::sphere(Edge::pole_row));

  EXPECT_EQ(rule_of([&] { (void)map(Box({-1}, {1})); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { (void)map(Box({0}, {2})); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { (void)rows(Box({-1, 0}, {0, 4})); }), "BadHaloWidth");
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
        for (int const longitude : {-1, 1})
          for (Stagger const place : all_places) {
            Boundary boundary{{{lower, upper, constant, place}, {}}, longitude};
            for (int variant = 0; variant < 5; ++variant) {
              if (variant == 1) boundary.odd_longitudes = OddLongitudes::shift_floor;
              if (variant == 2) boundary.mirror_line = MirrorLine::copy;
              if (variant >= 3) boundary.pivot = variant - 3;
              ++num_rules;
              seen.insert(boundary.fingerprint());
            }
          }
  EXPECT_EQ(seen.size(), num_rules);
  EXPECT_EQ(Boundary::sphere(Edge::pole_row).fingerprint(), Boundary::sphere(Edge::pole_row).fingerprint());
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

TEST(BoundaryMap, refuses_halos_that_wrap_a_thousand_times) {
  auto const map = boundary_map({8}, Boundary::uniform(1, Edge::periodic));

  EXPECT_EQ(map(Box({-80}, {0})).size(), 10U);
  EXPECT_EQ(test::rule_of([&] { (void)map(Box({-100'000'000}, {0})); }), "BadHaloWidth");
}

}  // namespace
