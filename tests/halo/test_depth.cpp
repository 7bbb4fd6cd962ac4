// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/depth.hpp>

#include "expect_error.hpp"
#include "formula.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

using namespace graticule;
using test::Formula;
using test::Image;
using test::image_of;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;
using test::thrown_by;

namespace {

/// Weights of the 3 x 3 neighbors of a cell. Integers: results are exact whatever the order of the terms.
using Stencil = std::array<std::array<double, 3>, 3>;

/// The same to the north as to the south, and to the east as to the west.
constexpr Stencil mirrored{{{2, 3, 2}, {1, -4, 1}, {2, 3, 2}}};
constexpr Stencil lopsided{{{1, 2, 3}, {-1, 4, 2}, {0, 1, 5}}};
std::vector<Width> const reach{{1, 1}, {1, 1}};

using Grid = std::map<std::vector<Index>, double>;

/// What a cell inside or beyond the grid holds by the rules.
double value_at(Grid const& grid, Indices const& cell, Indices const& extents, Boundary const& boundary,
                Parity parity) {
  auto const image = image_of(cell, extents, boundary);
  if (image.kind == Image::Kind::constant) return image.constant;
  return test::sign_of(image, parity) * grid.at({image.cell.begin(), image.cell.end()});
}

/// One step of the whole grid, each neighbor found by the formula of the rules.
Grid step(Grid const& grid, Indices const& extents, Boundary const& boundary, Parity parity, Stencil const& stencil) {
  Grid result;
  test::for_each_cell(Box::from_extents(extents), [&](Indices const& cell) {
    double sum = 0;
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j < 3; ++j)
        sum += stencil[std::size_t(i)][std::size_t(j)] *
               value_at(grid, {cell[0] + i - 1, cell[1] + j - 1}, extents, boundary, parity);
    result[{cell.begin(), cell.end()}] = sum;
  });
  return result;
}

Grid first_grid(Indices const& extents) {
  Grid grid;
  test::for_each_cell(Box::from_extents(extents), [&](Indices const& cell) {
    grid[{cell.begin(), cell.end()}] = double(test::bits_of<std::int8_t>({}, cell));
  });
  return grid;
}

void apply(Stencil const& stencil, TestField<double>& field, Box const& cells) {
  auto const before = field;
  field.set(cells, [&](auto const& b, Indices const& cell) {
    double sum = 0;
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j < 3; ++j)
        sum += stencil[std::size_t(i)][std::size_t(j)] * before.at(b, {cell[0] + i - 1, cell[1] + j - 1});
    return sum;
  });
}

struct Run {
  int num_exchanges = 0;
  bool equal = true;
};

/// Steps with one exchange for as many of them as the halo allows; every cell that is said to be valid is compared with
/// the serial result. What an operator does not write is made invalid, so that reading beyond the valid cells shows.
Run run(Comm const& comm, Formula const& f, Parity parity, Stencil const& stencil, AtMirrors at_mirrors,
        int num_steps) {
  HaloPlan const plan(comm, f.layout, {f.kind});
  TestField<double> field(plan.local(), {}, MemoryShape::dense(2, 0), std::nan(""));
  field.set(plan.owned(),
            [](auto const&, Indices const& cell) { return double(test::bits_of<std::int8_t>({}, cell)); });
  HaloDepth depth(plan, "tracer", 0, parity);
  Run result;
  auto expected = first_grid(f.extents());
  for (int s = 0; s < num_steps; ++s) {
    if (!depth.suffices(reach)) {
      plan.exchange(std::vector<HaloField>{{field.view(), parity}});
      depth.exchanged();
      ++result.num_exchanges;
    }
    Box const cells = depth.apply(depth, reach, at_mirrors);
    EXPECT_TRUE(cells.contains(plan.owned()));
    apply(stencil, field, cells);
    field.for_each(plan.local(), [&](auto const& b, Indices const& cell) {
      if (!cells.contains(cell)) field.at(b, cell) = std::nan("");
    });
    expected = step(expected, f.extents(), f.kind.boundary, parity, stencil);
    for (bool const refilled : {false, true}) {
      if (refilled) depth.refill(field.view());
      field.for_each(depth.valid(), [&](auto const& b, Indices const& cell) {
        double const right = plan.owned().contains(cell)
                                 ? expected.at({cell.begin(), cell.end()})
                                 : value_at(expected, cell, f.extents(), f.kind.boundary, parity);
        result.equal = result.equal && field.at(b, cell) == right;
      });
    }
  }
  return result;
}

std::vector<Layout> layouts(Comm const& comm, Indices const& extents) {
  Index const n = comm.num_ranks();
  Random random(71);
  std::vector<Index> rows(std::size_t(n), 0);
  rows.front() = n > 1 ? 1 : extents[0];
  rows.back() = n > 1 ? extents[0] - 1 : extents[0];
  return {Layout(ProcessGrid{n, 1}, {Cuts(rows), Cuts({extents[1]})}), Layout(ProcessGrid{n, 1}, extents),
          Layout(ProcessGrid{1, n}, extents),
          Layout(ProcessGrid{n, 1}, {test::random_cuts(random, extents[0], n), Cuts({extents[1]})}),
          test::random_box_layout(random, comm.num_ranks(), extents)};
}

bool owns_whole_circles(Layout const& layout) {
  for (int r = 0; r < layout.num_ranks(); ++r)
    if (Box const owned = layout.owned(r); !owned.empty() && owned.extent(1) < layout.extent(1)) return false;
  return true;
}

TEST(HaloDepth, takes_one_exchange_for_as_many_steps_as_the_halo_is_wide) {
  auto const comm = Comm::world();
  std::vector<Width> const widths{{4, 4}, {4, 4}};
  auto copied = Boundary::sphere(Edge::pole_row);
  copied.mirror_line = MirrorLine::copy;
  auto antireflect = Boundary::uniform(2, Edge::periodic);
  antireflect.axes[0] = {Edge::antireflect, Edge::antireflect};
  // Values that are stored twice and not made equal do not commute with a mirror: a seam is not refilled, a pole only
  // on whole circles.
  struct Row {
    Boundary rules;
    int even;        ///< exchanges for four steps of a field of even parity
    int even_whole;  ///< the same where ranks own whole circles
    int odd;
    int odd_whole;
  };
  std::vector<Row> const rows{
      {Boundary::sphere(Edge::pole_face), 1, 1, 1, 1},
      {Boundary::sphere(Edge::pole_row), 4, 1, 4, 1},
      {copied, 1, 1, 1, 1},
      {Boundary::tripolar(Edge::antisymmetric, Edge::tripolar_face), 1, 1, 1, 1},
      {Boundary::tripolar(Edge::constant, Edge::tripolar_row), 1, 1, 4, 4},
      {Boundary::tripolar(Edge::replicate, Edge::tripolar_face).staggered({Stagger::high_face, Stagger::centre}), 1, 1,
       1, 1},
      {Boundary::uniform(2, Edge::periodic), 1, 1, 1, 1},
      {Boundary::uniform(2, Edge::symmetric), 1, 1, 1, 1},
      {Boundary::uniform(2, Edge::reflect), 1, 1, 1, 1},
      {antireflect, 1, 1, 1, 1},
  };
  for (auto const& row : rows)
    for (Parity const parity : {Parity::even, Parity::odd})
      for (auto const& layout : layouts(comm, {7, 8})) {
        bool const whole = owns_whole_circles(layout);
        bool const even = parity == Parity::even;

        auto const result = run(comm, {layout, {widths, row.rules}}, parity, mirrored, AtMirrors::commutes, 4);

        EXPECT_TRUE(result.equal) << test::describe(row.rules) << " " << to_string(layout);
        EXPECT_EQ(result.num_exchanges, even ? (whole ? row.even_whole : row.even) : (whole ? row.odd_whole : row.odd))
            << test::describe(row.rules) << (even ? " even " : " odd ") << to_string(layout);
      }
}

// Operator and rule do not commute: ghosts beyond the edges are filled anew by the rule after each step.
TEST(HaloDepth, refills_what_lies_beyond_edges_by_the_rules) {
  auto const comm = Comm::world();
  for (std::vector<Width> const& widths : {std::vector<Width>{{3, 4}, {4, 4}}, std::vector<Width>{{4, 2}, {2, 4}}})
    for (Edge const lower : {Edge::constant, Edge::replicate, Edge::symmetric, Edge::reflect, Edge::antireflect})
      for (Edge const upper : {Edge::constant, Edge::symmetric, Edge::reflect})
        for (auto const& layout : layouts(comm, {7, 8})) {
          Boundary rules{{{lower, upper, 3}, {upper, lower, -2}}, -1};
          if (lower == upper) rules.axes[1] = {Edge::periodic, Edge::periodic};
          auto const result = run(comm, {layout, {widths, rules}}, Parity::even, lopsided, AtMirrors::differs, 3);

          EXPECT_TRUE(result.equal) << test::describe(rules) << " " << to_string(layout);
          EXPECT_LE(result.num_exchanges, 2);
        }
}

// The halo is deeper than the grid: mirrors lead from one edge beyond the other.
TEST(HaloDepth, refills_halos_deeper_than_the_grid) {
  auto const comm = Comm::world();
  Boundary walls{{{Edge::symmetric, Edge::antisymmetric, 0, Stagger::high_face}, {Edge::reflect, Edge::replicate}}, -1};
  for (Boundary const& rules :
       {Boundary::sphere(Edge::pole_row), Boundary::tripolar(Edge::symmetric, Edge::tripolar_row),
        Boundary::tripolar(Edge::antisymmetric, Edge::tripolar_face), walls})
    for (AtMirrors const at_mirrors : {AtMirrors::differs, AtMirrors::commutes})
      for (auto const& layout : layouts(comm, {2, 4})) {
        auto const& stencil = at_mirrors == AtMirrors::commutes ? mirrored : lopsided;

        auto const result = run(comm, {layout, {{{5, 5}, {5, 4}}, rules}}, Parity::even, stencil, at_mirrors, 3);

        EXPECT_TRUE(result.equal) << test::describe(rules) << " " << to_string(layout);
      }
}

// A lopsided operator across poles: where ranks own whole circles the refill finds all columns, elsewhere each step
// needs its exchange.
TEST(HaloDepth, refills_beyond_poles_where_all_longitudes_are_at_hand) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Indices const extents{7, 8};
  std::vector<Width> const widths{{3, 3}, {3, 3}};
  for (Edge const pole : {Edge::pole_face, Edge::pole_row})
    for (Parity const parity : {Parity::even, Parity::odd})
      for (Layout const& layout : {Layout(ProcessGrid{n, 1}, extents), Layout(ProcessGrid{1, n}, extents)}) {
        bool const whole = layout.owned(0).extent(1) == 8;

        auto const result =
            run(comm, {layout, {widths, Boundary::sphere(pole)}}, parity, lopsided, AtMirrors::differs, 3);

        EXPECT_TRUE(result.equal) << to_string(pole) << " " << to_string(layout);
        EXPECT_EQ(result.num_exchanges, whole ? 1 : 3) << to_string(layout);
      }
}

// The example of the class: 3 ranks of 8 cells, widths 3.
TEST(HaloDepth, of_the_documented_example) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 3) GTEST_SKIP() << "three ranks";
  HaloPlan const plan(comm, Layout(ProcessGrid{3}, Indices{24}), {{3, 3}}, Boundary::uniform(1, Edge::constant));
  HaloDepth depth(plan, "tracer");
  std::vector<Width> const one{{1, 1}};
  depth.exchanged();
  ASSERT_EQ(depth.inside(0), (Width{3, 3}));
  ASSERT_EQ(depth.beyond(0), (Width{3, 3}));

  Box const first = depth.apply(depth, one, AtMirrors::differs);

  EXPECT_EQ(first, comm.rank() == 1 ? Box({6}, {18}) : comm.rank() == 0 ? Box({0}, {10}) : Box({14}, {24}));
  EXPECT_EQ(depth.beyond(0), (Width{0, 0}));
  EXPECT_FALSE(depth.suffices(one)) << "the ends of the grid hold no constants any more";
  std::vector<double> cells(14, 1.0);
  depth.refill(field_view(cells.data(), {14}, 1));
  EXPECT_EQ(depth.beyond(0), (Width{2, 2}));
  EXPECT_EQ(cells[1] == 0, comm.rank() == 0) << "cell -2 is the constant again";
  EXPECT_EQ(cells[0], 1) << "cell -3 is not";
  Box const second = depth.apply(depth, one, AtMirrors::differs);
  EXPECT_EQ(second, comm.rank() == 1 ? Box({7}, {17}) : comm.rank() == 0 ? Box({0}, {9}) : Box({15}, {24}));
}

TEST(HaloDepth, names_field_side_have_and_need) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  HaloPlan const plan(comm, Layout(ProcessGrid{n, 1}, Indices{9, 8}), {{2, 3}, {2, 2}},
                      Boundary::sphere(Edge::pole_face));
  HaloDepth depth(plan, "humidity");
  HaloDepth result(plan, "tendency");
  auto const apply_to = [&](std::vector<Width> const& r, AtMirrors at_mirrors = AtMirrors::commutes) {
    return thrown_by([&] { (void)result.apply(depth, r, at_mirrors); });
  };

  EXPECT_EQ(apply_to(reach).rule, "HaloTooShallow") << "nothing was exchanged";
  depth.exchanged();
  auto const shallow = apply_to({{2, 4}, {1, 1}});
  EXPECT_EQ(shallow.rule, "HaloTooShallow");
  EXPECT_EQ(shallow.text,
            "field humidity has 3 valid ghost layers on the upper side of axis 0, beyond the edge of the "
            "grid (pole_face); the operator needs 4");
  EXPECT_EQ(apply_to({{1, 1}, {3, 0}}).text,
            "field humidity has 2 valid ghost layers on the lower side of axis 1; the operator needs 3");
  EXPECT_EQ(apply_to({{1, 1}}).rule, "AxesMismatch");
  EXPECT_EQ(apply_to({{1, 1}, {0, -1}}).rule, "BadHaloWidth");
  EXPECT_EQ(thrown_by([&] { (void)depth.suffices(std::vector<Width>{{1, 1}}); }).rule, "AxesMismatch");
  HaloPlan const other(comm, Layout(ProcessGrid{n, 1}, Indices{10, 8}), {{2, 3}, {2, 2}},
                       Boundary::sphere(Edge::pole_face));
  HaloDepth elsewhere(other, "elsewhere");
  elsewhere.exchanged();
  EXPECT_EQ(thrown_by([&] { (void)result.apply(elsewhere, reach, AtMirrors::commutes); }).rule, "AxesMismatch");
  EXPECT_EQ(apply_to({{1, 2}, {1, 1}}).rule, "nothing was thrown");
  EXPECT_EQ(result.inside(0), (Width{1, 1}));
  EXPECT_EQ(result.beyond(0), (Width{1, 1}));
  EXPECT_EQ(depth.inside(0), (Width{2, 3})) << "the input is as valid as before";
  EXPECT_EQ(apply_to({{1, 2}, {1, 1}}, AtMirrors::differs).rule, "nothing was thrown");
  EXPECT_EQ(result.beyond(0), (Width{0, 0}));
  EXPECT_EQ(result.inside(1), (Width{1, 1}));
  depth.written();
  EXPECT_FALSE(depth.suffices(reach));
  EXPECT_EQ(depth.valid(), plan.owned());
  EXPECT_TRUE(depth.suffices(std::vector<Width>{{0, 0}, {0, 0}}));
}

TEST(HaloDepth, ends_at_untouched_edges) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  HaloPlan const plan(comm, Layout(ProcessGrid{n, 1}, Indices{2 * n, 4}), {{2, 2}, {2, 2}},
                      Boundary::uniform(2, Edge::untouched));
  HaloDepth depth(plan, "tracer");
  depth.exchanged();

  EXPECT_EQ(depth.valid(), intersection(plan.local(), plan.layout().global()));
  EXPECT_TRUE(plan.layout().global().contains(depth.apply(depth, reach, AtMirrors::differs)));
  EXPECT_TRUE(depth.suffices(reach));
}

TEST(HaloDepth, counts_whole_halos_only) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks()}, Indices{9});
  HaloKind const whole{{{1, 1}}, Boundary::uniform(1, Edge::periodic)};
  auto no_corners = whole;
  no_corners.corners = Corners::skip;
  auto north = whole;
  north.directions = {{-1}};
  auto own = whole;
  own.widths_of = WidthsOf::this_rank;
  HaloPlan const plan(comm, layout, {whole, no_corners, north, own});
  auto const rule = [&](int kind) { return rule_of([&] { HaloDepth(plan, "tracer", kind); }); };

  EXPECT_EQ(rule(0), "nothing was thrown");
  for (int const kind : {1, 2, 3}) EXPECT_EQ(rule(kind), "Unsupported");
  HaloDepth depth(plan, "tracer");
  std::vector<double> cells(11, 0.0);
  EXPECT_EQ(rule_of([&] { depth.refill(field_view(cells.data(), {1, 1}, 2)); }), "FieldMismatch");
  auto nowhere = field_view(cells.data(), plan.local().extents(), 1);
  nowhere.data = nullptr;
  EXPECT_EQ(rule_of([&] { depth.refill(nowhere); }), plan.owned().empty() ? "nothing was thrown" : "FieldMismatch");
}

}  // namespace
