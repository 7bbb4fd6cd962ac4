// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/repartition.md, which is compared with this file, and what the page says of it.
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/placement.hpp>
#include <graticule/partition/relabel.hpp>
#include <graticule/partition/shared_layout.hpp>
#include <graticule/repartition/collectives.hpp>
#include <graticule/repartition/plan.hpp>

#include "test_field.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

using namespace graticule;

namespace {

/// The number of a cell of a grid.
double number(Box const& grid, Indices const& cell) { return double(number_of(cell, grid.extents())); }

/// Cells of `box`, numbered in `grid`, the last axis contiguous.
std::vector<double> numbered(Box const& box, Box const& grid) {
  std::vector<double> cells;
  test::for_each_cell(box, [&](Indices const& cell) { cells.push_back(number(grid, cell)); });
  return cells;
}

TEST(RepartitionPage, rows_become_columns_and_come_back) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{73, 144});
  Layout const columns(ProcessGrid{1, n}, Indices{73, 144});
  RepartitionPlan const plan(comm, rows, columns);
  auto cells = numbered(plan.source_box(), rows.global());
  auto const cells_before = cells;
  std::vector<double> moved_cells(std::size_t(plan.target_box().num_cells()));

  FieldView const field = field_view(cells.data(), plan.source_box().extents(), 2);
  FieldView const moved = field_view(moved_cells.data(), plan.target_box().extents(), 2);
  plan.apply(field, moved);
  EXPECT_EQ(moved_cells, numbered(plan.target_box(), columns.global()));
  std::fill(cells.begin(), cells.end(), 0);
  plan.apply_inverse(field, moved);

  EXPECT_EQ(cells, cells_before);
}

TEST(RepartitionPage, a_model_hands_over_to_an_analysis) {
  auto const world = Comm::world();
  bool const is_model = world.rank() % 2 == 0;
  Comm const team = world.split(is_model ? 0 : 1, 0);
  auto const extents = Indices{73, 144};
  Layout const mine =
      is_model ? Layout(ProcessGrid{team.num_ranks(), 1}, extents) : Layout(ProcessGrid{1, team.num_ranks()}, extents);
  bool const is_analysis = !is_model || world.num_ranks() == 1;

  Layout const from = shared_layout(world, is_model ? std::optional(PartLayout{mine, team}) : std::nullopt);
  Layout const to = shared_layout(world, is_analysis ? std::optional(PartLayout{mine, team}) : std::nullopt);
  RepartitionPlan const plan(world, from, to);

  EXPECT_EQ(plan.source_box().empty(), !is_model);
  EXPECT_EQ(plan.target_box().empty(), !is_analysis);
  auto cells = numbered(plan.source_box(), from.global());
  std::vector<double> moved(std::size_t(plan.target_box().num_cells()));
  plan.apply(field_view(cells.data(), plan.source_box().extents(), 2),
             field_view(moved.data(), plan.target_box().extents(), 2));
  EXPECT_EQ(moved, numbered(plan.target_box(), to.global()));
}

TEST(RepartitionPage, reads_every_second_row_from_the_far_end_with_axes_exchanged) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{73, 144});
  Layout const turned(ProcessGrid{n, 1}, Indices{144, 37});

  RepartitionOptions options;
  options.from = Selection::every_nth(rows.global(), {-2, 1});
  options.permutation = {1, 0};
  RepartitionPlan const plan(comm, rows, turned, options);

  auto cells = numbered(plan.source_box(), rows.global());
  std::vector<double> moved(std::size_t(plan.target_box().num_cells()));
  plan.apply(field_view(cells.data(), plan.source_box().extents(), 2),
             field_view(moved.data(), plan.target_box().extents(), 2));
  std::size_t at = 0;
  test::for_each_cell(plan.target_box(), [&](Indices const& cell) {
    EXPECT_EQ(moved[at++], number(rows.global(), {72 - 2 * cell[1], cell[0]}));
  });
}

TEST(RepartitionPage, gives_each_rank_the_box_that_it_asks_for) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{73, 144});

  Box const europe({50, 0}, {70, 30});
  RepartitionPlan const plan(comm, rows, europe);

  EXPECT_EQ(plan.target_box(), europe);
  auto cells = numbered(plan.source_box(), rows.global());
  std::vector<double> moved(std::size_t(europe.num_cells()));
  plan.apply(field_view(cells.data(), plan.source_box().extents(), 2), field_view(moved.data(), europe.extents(), 2));
  EXPECT_EQ(moved, numbered(europe, rows.global()));
}

TEST(RepartitionPage, brings_two_rows_to_every_rank) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{73, 144});

  auto cells = numbered(rows.owned(comm.rank()), rows.global());
  FieldView const field = field_view(cells.data(), rows.owned(comm.rank()).extents(), 2);
  std::vector<double> first(144);
  std::vector<double> last(144);
  FieldView const first_row = field_view(first.data(), {1, 144}, 2);
  FieldView const last_row = field_view(last.data(), {1, 144}, 2);

  std::vector<Box> const edges{Box({0, 0}, {1, 144}), Box({72, 0}, {73, 144})};
  RepartitionPlan const plan(comm, rows, edges);
  plan.apply(field, std::vector{first_row, last_row});

  EXPECT_EQ(first, numbered(edges[0], rows.global()));
  EXPECT_EQ(last, numbered(edges[1], rows.global()));
}

TEST(RepartitionPage, moves_a_part_of_a_field_with_a_halo) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{73, 144});
  Layout const columns(ProcessGrid{1, n}, Indices{73, 144});
  RepartitionPlan const plan(comm, rows, columns);
  Box const owned = plan.source_box();
  Box const local = grown(owned, std::vector<Width>{{2, 2}, {1, 1}});
  auto cells = numbered(local, rows.global());
  FieldView const with_halo = field_view(cells.data(), local.extents(), 2);
  std::vector<double> moved_cells(std::size_t(plan.target_box().num_cells()));
  FieldView const moved = field_view(moved_cells.data(), plan.target_box().extents(), 2);

  FieldView const inside = with_halo.part(local, owned);
  plan.apply(inside, moved);

  EXPECT_EQ(moved_cells, numbered(plan.target_box(), columns.global()));
}

TEST(RepartitionPage, refuses_a_field_as_its_own_target) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{73, 144});
  RepartitionPlan const plan(comm, rows, rows);
  auto cells = numbered(plan.source_box(), rows.global());
  auto const before = cells;
  FieldView const field = field_view(cells.data(), plan.source_box().extents(), 2);
  std::string rule;
  try {
    plan.apply(field, field, {.alpha = 2});  // AliasedFields
  } catch (Error const& error) {
    rule = error.rule();
  }

  EXPECT_EQ(rule, "AliasedFields");
  plan.apply(field, field);
  EXPECT_EQ(cells, before);
}

TEST(RepartitionPage, converts_packs_and_updates) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{73, 144});
  Layout const columns(ProcessGrid{1, n}, Indices{73, 144});
  RepartitionPlan const plan(comm, rows, columns);
  auto cells = numbered(plan.source_box(), rows.global());
  if (!cells.empty()) cells[0] = NAN;
  auto const expected = numbered(plan.target_box(), rows.global());
  std::vector<float> float_cells(expected.size(), 8);
  std::vector<std::int16_t> short_cells(expected.size(), 0);
  FieldView const field = field_view(cells.data(), plan.source_box().extents(), 2);
  FieldView const floats = field_view(float_cells.data(), plan.target_box().extents(), 2);
  FieldView const shorts = field_view(short_cells.data(), plan.target_box().extents(), 2);

  plan.apply(field, floats, {.alpha = 0.5, .beta = 2});
  RepartitionField const packed{
      .from = field, .to = shorts, .to_packing = Packing{.scale = 0.5, .offset = 100, .missing = -32768}};
  plan.apply(std::span(&packed, 1));

  std::size_t at = 0;
  test::for_each_cell(plan.target_box(), [&](Indices const& cell) {
    bool missing = false;
    rows.for_each_owner(Box(cell, {cell[0] + 1, cell[1] + 1}),
                        [&](int rank, Box const&) { missing = rows.owned(rank).lo() == cell; });
    auto const value = expected[at];
    if (missing)
      EXPECT_TRUE(std::isnan(float_cells[at]));
    else
      EXPECT_EQ(float_cells[at], float(0.5 * value + 16));
    EXPECT_EQ(short_cells[at], missing ? -32768 : std::int16_t((value - 100) / 0.5));
    ++at;
  });
}

TEST(RepartitionPage, keeps_to_a_budget) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{73, 144});
  Layout const columns(ProcessGrid{1, n}, Indices{73, 144});

  RepartitionPlan const plan(comm, rows, columns, {.workspace_bytes = 20000});

  auto cells = numbered(plan.source_box(), rows.global());
  std::vector<double> moved(std::size_t(plan.target_box().num_cells()));
  plan.apply(field_view(cells.data(), plan.source_box().extents(), 2),
             field_view(moved.data(), plan.target_box().extents(), 2));
  EXPECT_EQ(moved, numbered(plan.target_box(), rows.global()));
  EXPECT_LE(plan.stats().buffer_bytes, 20000);
}

TEST(RepartitionPage, relabels_a_target) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{73, 144});
  std::vector<int> backwards;
  for (int rank = n - 1; rank >= 0; --rank) backwards.push_back(rank);
  Layout const wanted = on_ranks(layout, backwards);

  Relabelling const better = relabel(layout, wanted, {.node_of_rank = nodes_of_ranks(comm)});
  RepartitionPlan const plan(comm, layout, better.layout);

  EXPECT_EQ(better.moved_cells, 0);
  EXPECT_EQ(plan.counts().send_cells, 0);
}

TEST(RepartitionPage, has_names_for_what_collectives_do) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{73, 144});
  std::vector<double> weights_cells(500, comm.rank() + 1.0);
  FieldView const gradients = field_view(weights_cells.data(), {500}, 1);

  ShardsPlan const shards(comm, rows);
  auto part_cells = numbered(shards.part_box(), rows.global());
  std::vector<double> whole_cells(std::size_t(shards.whole_box().num_cells()));
  FieldView const part = field_view(part_cells.data(), shards.part_box().extents(), 2);
  FieldView const whole = field_view(whole_cells.data(), shards.whole_box().extents(), 2);
  shards.all_gather(part, whole);
  EXPECT_EQ(whole_cells, numbered(rows.global(), rows.global()));
  ReplicatedFieldPlan const copies(comm, {500});
  copies.all_sum_reduce(gradients);
  EXPECT_EQ(weights_cells, std::vector<double>(500, comm.num_ranks() * (comm.num_ranks() + 1) / 2.0));

  RepartitionPlan const transpose = all_to_all(comm, {73, 144}, 0, 1);
  EXPECT_EQ(transpose.source_box(), rows.owned(comm.rank()));
}

}  // namespace
