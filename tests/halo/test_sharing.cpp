// SPDX-License-Identifier: BSD-3-Clause
// Fields of one exchange, or of one call of ring sums, that have memory in common.
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

using namespace graticule;
using test::rule_of;

namespace {

char const* const apart = "nothing was thrown";

struct Globe {
  explicit Globe(Comm const& comm)
      : layout(ProcessGrid{comm.num_ranks(), 1}, Indices{4 * comm.num_ranks(), 6}),
        plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face)),
        memory(std::size_t(4 * plan.local().num_cells()), 1.0) {}
  [[nodiscard]] FieldView field(Index offset = 0) {
    return field_view(memory.data() + offset, plan.local().extents(), 2);
  }

  Layout layout;
  HaloPlan plan;
  std::vector<double> memory;
};

TEST(HaloSharing, of_one_field_given_twice_is_refused_by_name) {
  auto const comm = Comm::world();
  Globe globe(comm);
  auto const before = globe.memory;
  auto const v = globe.field();

  EXPECT_EQ(rule_of([&] { globe.plan.exchange(v, v); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { globe.plan.exchange_adjoint(v, v); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { globe.plan.exchange(HaloField{v}, HaloField{v, Parity::odd}); }), "AliasedFields");
  // From the second row of the first on.
  EXPECT_EQ(rule_of([&] { globe.plan.exchange(v, globe.field(8)); }), "AliasedFields");
  EXPECT_EQ(globe.memory, before);

  globe.plan.exchange_adjoint(v);
  globe.plan.exchange(v);
  globe.plan.exchange(v, globe.field(globe.plan.local().num_cells()));
}

TEST(HaloSharing, is_none_between_interleaved_channels_and_rows) {
  auto const comm = Comm::world();
  Globe globe(comm);
  auto const extents = globe.plan.local().extents();
  std::vector<HaloField> channels;
  std::vector<HaloField> levels;
  for (Index c = 0; c < 4; ++c) {
    channels.push_back({field_view(globe.memory.data() + c, extents, {4 * extents[1], 4}, {0, 1})});
    levels.push_back({field_view(globe.memory.data() + c * extents[1], extents, {4 * extents[1], 1}, {0, 1})});
  }

  EXPECT_EQ(rule_of([&] { globe.plan.exchange(channels); }), apart);
  EXPECT_EQ(rule_of([&] { globe.plan.exchange_adjoint(channels); }), apart);
  EXPECT_EQ(rule_of([&] { globe.plan.exchange(levels); }), apart);
  channels.back() = levels.back();
  EXPECT_EQ(rule_of([&] { globe.plan.exchange(channels); }), "AliasedFields");
}

// Kinds that fill different parts of one field read what neither writes; their adjoints add to the same cells.
TEST(HaloSharing, of_one_field_by_kinds_that_fill_different_parts_is_allowed_forwards) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{4 * comm.num_ranks(), 6});
  auto const rules = Boundary::sphere(Edge::pole_face);
  std::vector<Width> const widths{{1, 1}, {1, 1}};
  HaloPlan const plan(comm, layout,
                      {HaloKind{.widths = widths, .boundary = rules, .directions = {{-1, 0}}},
                       HaloKind{.widths = widths, .boundary = rules, .directions = {{1, 0}}}});
  std::vector<double> memory(std::size_t(plan.local().num_cells()), 1.0);
  auto const v = field_view(memory.data(), plan.local().extents(), 2);

  EXPECT_EQ(rule_of([&] { plan.exchange(HaloField{v}, HaloField{v, Parity::even, 1}); }), apart);
  EXPECT_EQ(rule_of([&] { plan.exchange(HaloField{v}, HaloField{v}); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { plan.exchange_adjoint(HaloField{v}, HaloField{v, Parity::even, 1}); }), "AliasedFields");
}

// Owned cells that are copies of others are written and those others are read, in one field.
TEST(HaloSharing, of_a_field_with_its_own_copies_is_allowed) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{1, comm.num_ranks()}, Indices{5, 6 * comm.num_ranks()});
  HaloPlan const plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::tripolar(Edge::replicate, Edge::tripolar_row));
  std::vector<double> memory(std::size_t(plan.local().num_cells()), 1.0);
  auto const v = field_view(memory.data(), plan.local().extents(), 2);

  EXPECT_EQ(rule_of([&] { plan.exchange(v); }), apart);
  EXPECT_EQ(rule_of([&] { plan.exchange_adjoint(v); }), apart);
  EXPECT_EQ(rule_of([&] { plan.exchange(v, v); }), "AliasedFields");
}

TEST(HaloSharing, on_one_rank_ends_the_exchange_on_its_peers) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  Globe globe(comm);
  bool const refuses = comm.rank() == 0;
  auto const own = globe.field();
  auto const second = globe.field(refuses ? 1 : globe.plan.local().num_cells());
  for (int repeat = 0; repeat < 3; ++repeat) {
    // Bands: only the next rank needs cells of rank 0.
    EXPECT_EQ(rule_of([&] { globe.plan.exchange(own, second); }), refuses            ? "AliasedFields"
                                                                  : comm.rank() == 1 ? "PeerRefused"
                                                                                     : apart);
    globe.plan.exchange(own);
  }
}

TEST(HaloSharing, of_ring_sums_is_refused_where_one_is_written) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{3 * comm.num_ranks(), 4});
  AxisSumPlan const zonal(comm, layout, 1);
  std::vector<double> memory(60, 1.0);
  auto const cells = [&](Index offset) { return field_view(memory.data() + offset, zonal.cells().extents(), 2); };
  auto const sums = [&](Index offset) { return field_view(memory.data() + offset, zonal.sums().extents(), 2); };
  auto const apply = [&](AxisSumField const& a, AxisSumField const& b) {
    return rule_of([&] { zonal.apply(std::vector{a, b}); });
  };
  auto const adjoint = [&](AxisSumField const& a, AxisSumField const& b) {
    return rule_of([&] { zonal.apply_adjoint(std::vector{a, b}, Cotangents::of_each_rank); });
  };

  EXPECT_EQ(apply({cells(0), sums(24)}, {cells(12), sums(27)}), apart);
  EXPECT_EQ(apply({cells(0), sums(24)}, {cells(0), sums(27)}), apart);
  EXPECT_EQ(apply({cells(0), sums(24)}, {cells(12), sums(26)}), "AliasedFields");
  EXPECT_EQ(apply({cells(0), sums(24)}, {cells(12), sums(11)}), "AliasedFields");
  EXPECT_EQ(adjoint({cells(0), sums(24)}, {cells(12), sums(27)}), apart);
  EXPECT_EQ(adjoint({cells(0), sums(24)}, {cells(12), sums(24)}), apart);
  EXPECT_EQ(adjoint({cells(0), sums(24)}, {cells(0), sums(27)}), "AliasedFields");
  EXPECT_EQ(rule_of([&] { zonal.apply(cells(0), sums(0)); }), "AliasedFields");
  for (auto const how : {Cotangents::of_each_rank, Cotangents::replicated})
    EXPECT_EQ(rule_of([&] { zonal.apply_adjoint(cells(0), sums(0), how); }), "AliasedFields");
}

}  // namespace
