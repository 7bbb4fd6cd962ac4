// SPDX-License-Identifier: BSD-3-Clause
// Plans of several kinds of fields, parts of halos, and what lies inside them.
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>

#include "expect_error.hpp"
#include "formula.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

using namespace graticule;
using test::adjoint_by_formula;
using test::draw;
using test::exchanged_by_formula;
using test::field_of_cotangents;
using test::field_to_exchange;
using test::for_each_cell;
using test::Formula;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;

namespace {

HaloKind random_kind(Random& random, Indices const& extents) {
  HaloKind kind{test::random_widths(random, extents), test::random_boundary(random, extents)};
  if (draw(random, 0, 3) == 0) kind.corners = Corners::skip;
  if (draw(random, 0, 1) == 0)
    for (Index i = draw(random, 1, 4); i > 0; --i) {
      Indices direction;
      for (int a = 0; a < extents.size(); ++a) direction.push_back(draw(random, -1, 1));
      kind.directions.push_back(direction);
    }
  if (draw(random, 0, 1) == 0)
    for (auto const& width : kind.widths)
      kind.memory.push_back({width.lower + draw(random, 0, 2), width.upper + draw(random, 0, 2)});
  return kind;
}

/// One field of the given type: exchanged, and its expected memory.
template <class T>
struct Exchanged {
  TestField<T> field;
  TestField<T> expected;
  Parity parity;
  int kind;

  Exchanged(HaloPlan const& plan, int rank, int kind_of_field, Parity parity_of_field, MemoryShape const& shape,
            Indices const& batch)
      : field(field_to_exchange<T>(plan, batch, shape, kind_of_field)),
        expected(exchanged_by_formula(field, Formula{plan.layout(), plan.kind(kind_of_field)}, rank, parity_of_field)),
        parity(parity_of_field),
        kind(kind_of_field) {}

  [[nodiscard]] HaloField halo_field() { return {field.view(), parity, kind}; }
};

void expect_exchange_as_by_formula(Random& random, Comm const& comm, HaloPlan const& plan) {
  int const ndim = plan.layout().ndim();
  auto const parity = [&] { return draw(random, 0, 1) == 0 ? Parity::even : Parity::odd; };
  auto const kind = [&] { return int(draw(random, 0, plan.num_kinds() - 1)); };
  Exchanged<double> a(plan, comm.rank(), 0, parity(), MemoryShape::random(random, ndim, 1), {draw(random, 1, 3)});
  Exchanged<float> b(plan, comm.rank(), kind(), parity(), MemoryShape::random(random, ndim, 2), {2, 1});
  Exchanged<float> c(plan, comm.rank(), kind(), parity(), MemoryShape::dense(ndim, 0), {});
  Exchanged<std::int32_t> d(plan, comm.rank(), kind(), parity(), MemoryShape::dense(ndim, 1), {2});

  plan.exchange(a.halo_field(), b.halo_field(), c.halo_field(), d.halo_field());

  EXPECT_TRUE(a.field.holds(a.expected)) << "kind " << a.kind;
  EXPECT_TRUE(b.field.holds(b.expected)) << "kind " << b.kind;
  EXPECT_TRUE(c.field.holds(c.expected)) << "kind " << c.kind;
  EXPECT_TRUE(d.field.holds(d.expected)) << "kind " << d.kind;
}

/// Every kind once in one call, with the parity given by its number.
void expect_adjoint_as_by_formula(Random& random, Comm const& comm, HaloPlan const& plan) {
  std::vector<TestField<double>> fields;
  std::vector<TestField<double>> expected;
  std::vector<HaloField> call;
  fields.reserve(std::size_t(plan.num_kinds()));
  for (int k = 0; k < plan.num_kinds(); ++k) {
    auto const parity = k % 2 == 0 ? Parity::odd : Parity::even;
    auto const shape = MemoryShape::random(random, plan.layout().ndim(), 1);
    auto& field = fields.emplace_back(field_of_cotangents(plan, comm.rank(), {1 + k % 2}, shape, k));
    expected.push_back(adjoint_by_formula(field, Formula{plan.layout(), plan.kind(k)}, comm, parity));
    call.push_back({field.view(), parity, k});
  }

  plan.exchange_adjoint(call);

  for (std::size_t k = 0; k < fields.size(); ++k) EXPECT_TRUE(fields[k].holds(expected[k])) << "kind " << k;
}

TEST(HaloKinds, follow_the_formula_for_random_kinds_in_one_call) {
  auto const comm = Comm::world();
  Random random(std::uint64_t(200 + comm.num_ranks()));
  int const num_trials = comm.num_ranks() == 1 ? 200 : comm.num_ranks() == 2 ? 40 : 40 / (comm.num_ranks() - 1);
  for (int trial = 0; trial < num_trials && !HasFailure(); ++trial) {
    auto const extents = test::random_extents(random, int(draw(random, 1, 3)), 5);
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    std::vector<HaloKind> kinds;
    std::string text;
    for (Index k = draw(random, 1, 3); k > 0; --k) {
      kinds.push_back(random_kind(random, extents));
      text += describe(Formula{layout, kinds.back()}) + "; ";
    }
    SCOPED_TRACE(text);
    HaloPlan const plan(comm, layout, kinds);

    expect_exchange_as_by_formula(random, comm, plan);
    expect_adjoint_as_by_formula(random, comm, plan);
  }
}

// A C grid between two poles: T in 6 rows, U on low faces, V on all 7 faces of the rows, the first and the last on the
// poles. The numbers are written out here, without the formula of the other tests.
TEST(HaloKinds, exchange_values_on_all_faces_together_with_those_at_centres) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  auto const rules = Boundary::sphere(Edge::pole_face);
  for (ProcessGrid const& grid : {ProcessGrid{n, 1}, ProcessGrid{1, n}}) {
    // V has ghost rows above, T has none: what is a ghost of one kind is owned by another.
    HaloPlan const plan(
        comm, Layout(grid, Indices{6, 8}),
        {HaloKind{.widths = {{1, 0}, {1, 1}}, .boundary = rules},
         HaloKind{.widths = {{2, 2}, {1, 1}}, .boundary = rules.staggered({Stagger::all_faces, Stagger::centre})}});
    Box const owned = plan.owned();
    bool const at_the_end = !owned.empty() && owned.hi(0) == 6;
    ASSERT_EQ(plan.owned(0), owned);
    ASSERT_EQ(plan.owned(1).hi(0), owned.hi(0) + (at_the_end ? 1 : 0));
    ASSERT_EQ(plan.layout().extent(0), 6);
    ASSERT_EQ(plan.layout(1).extent(0), 7);
    auto t = field_to_exchange<double>(plan, {}, MemoryShape::dense(2, 0), 0);
    auto v = field_to_exchange<float>(plan, {}, MemoryShape::dense(2, 0), 1);

    plan.exchange(HaloField{t.view()}, HaloField{v.view(), Parity::odd, 1});

    auto const column = [](Index j) { return (j + 8) % 8; };
    for_each_cell(plan.local(0), [&](Indices const& c) {
      Indices const image = c[0] < 0 ? Indices{-1 - c[0], column(c[1] + 4)} : Indices{c[0], column(c[1])};
      ASSERT_EQ(t.at({}, c), test::number({}, image)) << to_string(c);
    });
    for_each_cell(plan.local(1), [&](Indices const& c) {
      bool const beyond = c[0] < 0 || c[0] > 6;
      Index const row = c[0] < 0 ? -c[0] : c[0] > 6 ? 12 - c[0] : c[0];
      ASSERT_EQ(v.at({}, c), (beyond ? -1 : 1) * test::number({}, {row, column(c[1] + (beyond ? 4 : 0))}))
          << to_string(c);
    });
  }
}

TEST(HaloKinds, refuse_values_on_all_faces_where_the_last_face_is_another_one) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{6, 8});
  auto const rule_with = [&](Boundary const& rules, Stagger rows, Stagger columns) {
    return rule_of([&] { HaloPlan(comm, layout, {{1, 1}, {1, 1}}, rules.staggered({rows, columns})); });
  };
  EXPECT_EQ(rule_with(Boundary::sphere(Edge::pole_face), Stagger::centre, Stagger::all_faces), "BadBoundary");
  EXPECT_EQ(rule_with(Boundary::sphere(Edge::pole_row), Stagger::all_faces, Stagger::centre), "BadBoundary");
  EXPECT_EQ(rule_with(Boundary::uniform(2, Edge::reflect), Stagger::centre, Stagger::all_faces), "BadBoundary");
  EXPECT_EQ(rule_with(Boundary::uniform(2, Edge::symmetric), Stagger::all_faces, Stagger::all_faces),
            "nothing was thrown");
  HaloPlan const plan(comm, layout, {{1, 1}, {1, 1}},
                      Boundary::sphere(Edge::pole_face).staggered({Stagger::all_faces, Stagger::centre}));
  EXPECT_EQ(rule_of([&] { HaloDepth(plan, "v"); }), "Unsupported");
}

TEST(HaloKinds, pass_the_dot_test_exactly) {
  auto const comm = Comm::world();
  Random random(21);
  for (int trial = 0; trial < 8; ++trial) {
    auto const extents = test::random_extents(random, 2, 5);
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    std::vector<HaloKind> kinds{random_kind(random, extents), random_kind(random, extents)};
    for (auto& kind : kinds)
      for (auto& axis : kind.boundary.axes) axis.constant = 0;
    HaloPlan const plan(comm, layout, kinds);
    std::vector<TestField<double>> ax;
    std::vector<TestField<double>> aty;
    std::vector<HaloField> forward;
    std::vector<HaloField> backward;
    ax.reserve(2);
    aty.reserve(2);
    auto const shape = MemoryShape::dense(2, 0);
    for (int k = 0; k < 2; ++k) {
      TestField<double> x(plan.local(k), {}, shape, 0);
      x.set(plan.owned(k), [&](auto const& b, auto const& cell) {
        return double(test::bits_of<std::int16_t>(b, cell, std::uint64_t(k)));
      });
      forward.push_back({ax.emplace_back(x).view(), Parity::odd, k});
      backward.push_back(
          {aty.emplace_back(field_of_cotangents(plan, comm.rank(), {}, shape, k)).view(), Parity::odd, k});
    }
    auto const x = ax;
    auto const y = aty;

    plan.exchange(forward);
    plan.exchange_adjoint(backward);

    std::array<double, 2> products{0, 0};
    for (std::size_t k = 0; k < 2; ++k) {
      y[k].for_each(plan.local(int(k)), [&](auto const& b, auto const& c) {
        products[0] += ax[k].at(b, c) * y[k].at(b, c);
        products[1] += x[k].at(b, c) * aty[k].at(b, c);
      });
    }
    comm.sum(products);
    ASSERT_EQ(products[0], products[1]) << trial;
  }
}

// A C-grid on a sphere: scalars, and both wind components on faces with halos of their own, go in one message a peer.
TEST(HaloKinds, share_one_message_a_peer) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  auto const rules = Boundary::sphere(Edge::pole_face);
  Layout const layout(ProcessGrid{n, 1}, Indices{4 * n, 8});
  HaloPlan const plan(comm, layout,
                      {{{{2, 2}, {2, 2}}, rules},
                       {{{1, 1}, {2, 1}}, rules.staggered({Stagger::centre, Stagger::high_face})},
                       {{{2, 1}, {1, 1}}, rules.staggered({Stagger::high_face, Stagger::centre})}});
  Exchanged<float> temperature(plan, comm.rank(), 0, Parity::even, MemoryShape::dense(2, 1), {3});
  Exchanged<double> east(plan, comm.rank(), 1, Parity::odd, MemoryShape::dense(2, 1), {3});
  Exchanged<double> north(plan, comm.rank(), 2, Parity::odd, MemoryShape::dense(2, 1), {3});

  auto pending = plan.start(temperature.halo_field(), east.halo_field(), north.halo_field());
  pending.wait();

  EXPECT_TRUE(temperature.field.holds(temperature.expected));
  EXPECT_TRUE(east.field.holds(east.expected));
  EXPECT_TRUE(north.field.holds(north.expected));
  int const neighbors = (comm.rank() > 0 ? 1 : 0) + (comm.rank() < n - 1 ? 1 : 0);
  EXPECT_EQ(plan.counts().num_send_peers, neighbors);
  EXPECT_EQ(plan.counts().num_receive_peers, neighbors);
  EXPECT_LT(plan.num_workspaces(), 3) << "the buffers of one call serve all three fields";
}

TEST(HaloKinds, fill_the_listed_parts_of_the_halo_only) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  HaloKind north{{{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face)};
  north.directions = {{-1, 0}};
  HaloPlan const plan(comm, Layout(ProcessGrid{n, 1}, Indices{2 * n, 4}), {north});
  auto field = field_to_exchange<double>(plan, {}, MemoryShape::dense(2, 0));

  plan.exchange(field.view());

  for_each_cell(plan.local(), [&](Indices const& cell) {
    bool const filled = cell[0] == plan.owned().lo(0) - 1 && cell[1] >= 0 && cell[1] < 4;
    EXPECT_EQ(std::isnan(field.at({}, cell)), !filled && !plan.owned().contains(cell)) << to_string(cell);
  });
  EXPECT_EQ(plan.counts().num_send_peers, comm.rank() < n - 1 ? 1 : 0);
  EXPECT_EQ(plan.counts().num_receive_peers, comm.rank() > 0 ? 1 : 0);
}

TEST(HaloKinds, may_have_widths_of_each_rank) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n}, Indices{3 * n});
  auto const kind_of = [](int rank) {
    return HaloKind{.widths = {{rank % 3, (rank + 1) % 2}},
                    .boundary = Boundary::uniform(1, Edge::periodic),
                    .memory = {{3, 3}},
                    .widths_of = WidthsOf::this_rank};
  };
  HaloPlan const plan(comm, layout, {kind_of(comm.rank())});
  auto field = field_to_exchange<double>(plan, {}, MemoryShape::dense(1, 0));
  auto const expected = exchanged_by_formula(field, Formula{layout, kind_of(comm.rank())}, comm.rank(), Parity::even);

  plan.exchange(field.view());

  EXPECT_TRUE(field.holds(expected));
}

TEST(HaloKinds, are_refused_on_all_ranks) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{6, 6});
  HaloKind const good{{{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::periodic)};
  auto const rule = [&](HaloKind const& second) { return rule_of([&] { HaloPlan(comm, layout, {good, second}); }); };
  auto const changed = [&](auto&& change) {
    HaloKind kind = good;
    if (comm.rank() == comm.num_ranks() - 1) change(kind);
    return rule(kind);
  };

  EXPECT_EQ(rule_of([&] { HaloPlan(comm, layout, {}); }), "BadOption");
  EXPECT_EQ(changed([](HaloKind& kind) { kind.memory = {{1, 1}, {1, 0}}; }), "BadHaloWidth");
  EXPECT_EQ(changed([](HaloKind& kind) { kind.memory = {{1, 1}}; }), "AxesMismatch");
  EXPECT_EQ(changed([](HaloKind& kind) { kind.widths = {{1, 1}, {1, -1}}; }), "BadHaloWidth");
  EXPECT_EQ(changed([](HaloKind& kind) { kind.directions = {{1}}; }), (test::ErrorWith{"AxesMismatch", "direction"}));
  EXPECT_EQ(changed([](HaloKind& kind) {
              kind.directions = {{1, 2}};
            }),
            (test::ErrorWith{"AxesMismatch", "direction"}));
  EXPECT_EQ(rule(good), "nothing was thrown");
  if (n == 1) return;
  EXPECT_EQ(changed([](HaloKind& kind) {
              kind.directions = {{1, 1}};
            }),
            (test::ErrorWith{"ArgumentDisagreement", "directions (1, 1)"}));
  EXPECT_EQ(changed([](HaloKind& kind) { kind.boundary.axes[1].constant = 2.5; }),
            (test::ErrorWith{"ArgumentDisagreement", "periodic/periodic 2.5"}));
  EXPECT_EQ(changed([](HaloKind& kind) { kind.boundary.mirror_line = MirrorLine::copy; }),
            (test::ErrorWith{"ArgumentDisagreement", "mirror line copied"}));
  EXPECT_EQ(changed([](HaloKind& kind) { kind.boundary.odd_longitudes = OddLongitudes::shift_floor; }),
            (test::ErrorWith{"ArgumentDisagreement", "odd longitudes shifted"}));
  EXPECT_EQ(changed([](HaloKind& kind) { kind.boundary.longitude_axis = 1; }),
            (test::ErrorWith{"ArgumentDisagreement", "longitude axis 1"}));
  EXPECT_EQ(changed([](HaloKind& kind) { kind.memory = {{1, 1}, {1, 2}}; }), "ArgumentDisagreement");
  EXPECT_EQ(changed([](HaloKind& kind) { kind.boundary.axes[0].stagger = Stagger::high_face; }),
            (test::ErrorWith{"ArgumentDisagreement", "on high faces"}));
  EXPECT_EQ(changed([](HaloKind& kind) { kind.widths_of = WidthsOf::this_rank; }), "ArgumentDisagreement");
  EXPECT_EQ(changed([](HaloKind& kind) {
              kind.widths = {{1, 1}, {2, 3}};
            }),
            (test::ErrorWith{"ArgumentDisagreement", "widths 1 and 1 x 2 and 3"}));
}

TEST(HaloKinds, of_a_field_must_be_one_of_the_plan) {
  auto const comm = Comm::world();
  HaloPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks()}, Indices{9}), {{1, 1}},
                      Boundary::uniform(1, Edge::periodic));
  std::vector<double> cells(16, 0.0);
  auto const view = field_view(cells.data(), plan.local().extents(), 1);
  for (int const kind : {-1, 1}) {
    std::vector<HaloField> const fields{{view, Parity::even, kind}};

    EXPECT_EQ(rule_of([&] { plan.exchange(fields); }), "OutOfRange");
    EXPECT_EQ(rule_of([&] { (void)plan.local(kind); }), "OutOfRange");
  }
}

// Cell by cell: an interior cell's stencil reads owned cells that no exchange writes; interior and border are disjoint
// and make up the owned box; a border cell's stencil needs something that is filled.
TEST(HaloPlanInterior, reads_nothing_that_an_exchange_fills) {
  auto const comm = Comm::world();
  Random random(std::uint64_t(31 + comm.num_ranks()));
  std::array<Index, 1> num_inside{0};
  for (int trial = 0; trial < 40; ++trial) {
    auto const extents = test::random_extents(random, 2, 9);
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    Formula const f{layout, {{{1, 2}, {2, 0}}, test::random_boundary(random, extents)}};
    HaloPlan const plan(comm, layout, {f.kind});

    auto const interior = plan.interior();
    auto const border = plan.border();

    for_each_cell(plan.owned(0), [&](Indices const& cell) {
      int num_boxes = interior.contains(cell) ? 1 : 0;
      for (auto const& box : border) num_boxes += box.contains(cell) ? 1 : 0;
      ASSERT_EQ(num_boxes, 1) << to_string(cell);
      bool inside = true;
      for_each_cell(grown(Box(cell, {cell[0] + 1, cell[1] + 1}), f.kind.widths), [&](Indices const& read) {
        inside = inside && plan.owned(0).contains(read) && !f.fills(read, comm.rank());
      });
      // Copies in a part of a row keep the whole row out of the interior, which is one box.
      bool const exactly = f.kind.boundary.mirror_line == MirrorLine::keep || interior.contains(cell);
      ASSERT_TRUE(!exactly || interior.contains(cell) == inside) << to_string(cell) << describe(f);
      num_inside[0] += inside ? 1 : 0;
    });
    for (auto const& box : border) ASSERT_TRUE(plan.owned(0).contains(box) && !box.empty());
  }
  comm.sum(num_inside);
  EXPECT_GT(num_inside[0], 20);
}

TEST(HaloPlanInterior, of_a_given_reach) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 1) GTEST_SKIP() << "one rank";
  HaloPlan const plan(comm, Layout(ProcessGrid{1, 1}, Indices{6, 8}), {{3, 3}, {3, 3}},
                      Boundary::uniform(2, Edge::periodic));

  EXPECT_EQ(plan.interior(), Box({0, 0}, {0, 0})) << "three rows on either side leave none of six";
  EXPECT_EQ(plan.border(), std::vector<Box>{plan.owned()});
  std::vector<Width> const reach{{1, 2}, {0, 1}};
  EXPECT_EQ(plan.interior(reach), Box({1, 0}, {4, 7}));
  EXPECT_EQ(plan.border(reach).size(), 3U);
  constexpr Index huge = std::numeric_limits<Index>::max();
  EXPECT_TRUE(plan.interior(std::vector<Width>{{huge, huge}, {0, 0}}).empty());
  EXPECT_EQ(rule_of([&] { (void)plan.interior(std::vector<Width>{{1, 1}}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([&] { (void)plan.interior(std::vector<Width>{{1, 1}, {-1, 0}}); }), "BadHaloWidth");
  EXPECT_EQ(rule_of([&] { (void)plan.interior(reach, 1); }), "OutOfRange");
}

}  // namespace
