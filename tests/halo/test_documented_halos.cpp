// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/halo.md.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/plan.hpp>

#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace graticule {
namespace {

Layout bands(Comm const& comm) { return {ProcessGrid{comm.num_ranks(), 1}, {24, 16}}; }

/// The local box of this rank for some widths of rows and columns.
Box local_box(Comm const& comm, Width rows, Width columns) {
  auto const owned = bands(comm).owned(comm.rank());
  return {{owned.lo(0) - rows.lower, owned.lo(1) - columns.lower},
          {owned.hi(0) + rows.upper, owned.hi(1) + columns.upper}};
}

/// Memory of a field with the extents of `box`.
struct Memory {
  explicit Memory(Box const& box, double value = 1)
      : cells(std::size_t(box.num_cells()), value), view(field_view(cells.data(), box.extents(), 2)) {}
  std::vector<double> cells;
  FieldView view;
};

TEST(DocumentedHalos, exchange_several_kinds_at_once) {
  auto const comm = Comm::world();
  auto const layout = bands(comm);
  Memory t(local_box(comm, {2, 2}, {2, 2}));
  Memory east(local_box(comm, {1, 1}, {2, 1}));
  Memory p(local_box(comm, {2, 2}, {2, 2}), 5);
  auto const& temperature = t.view;
  auto const& u = east.view;
  auto const& pressure = p.view;

  // clang-format off
auto const rules = Boundary::sphere(Edge::pole_face);
HaloPlan const plan(comm, layout, {
    HaloKind{.widths = {{2, 2}, {2, 2}}, .boundary = rules},
    HaloKind{.widths = {{1, 1}, {2, 1}}, .boundary = rules.staggered({Stagger::centre, Stagger::high_face})},
    HaloKind{.widths = {{1, 0}, {0, 0}}, .boundary = rules, .memory = {{2, 2}, {2, 2}}},
});
plan.exchange(HaloField{temperature}, HaloField{u, Parity::odd, 1}, HaloField{pressure, Parity::even, 2});
  // clang-format on

  // Across the north pole an eastward component changes its sign.
  if (comm.rank() == 0) EXPECT_EQ(east.cells.front(), -1);
  EXPECT_EQ(t.cells, std::vector<double>(t.cells.size(), 1));
  EXPECT_EQ(p.cells, std::vector<double>(p.cells.size(), 5));
}

TEST(DocumentedHalos, read_exchange_and_sum_the_inside_of_a_field) {
  auto const comm = Comm::world();
  auto const layout = bands(comm);
  test::Folder const folder(comm);
  auto const path = (folder / "fields.nc").string();
  HaloPlan const plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_row));
  AxisSumPlan const zonal(comm, layout, 1);
  RepartitionPlan const to_columns(comm, layout, Layout(ProcessGrid{1, comm.num_ranks()}, {24, 16}));
  {
    Memory written(plan.owned(), 3);
    FieldWriter writer(comm, path);
    writer.add_dimension("latitude", 24);
    writer.add_dimension("longitude", 16);
    writer.add_variable({.name = "z", .dimensions = {"latitude", "longitude"}});
    writer.write("z", plan.owned(), std::span<double const>(written.cells));
    writer.commit();
  }
  std::vector<double> cells(std::size_t(plan.local().num_cells()), 0);
  Memory sum(zonal.sums());
  Memory column(to_columns.target_box());
  auto const& sums = sum.view;
  auto const& columns = column.view;

  // clang-format off
FieldView const field = field_view(cells.data(), plan.local().extents(), 2);
FieldView const inside = field.part(plan.local(), plan.owned());
FieldFile(comm, path).read("z", {.box = plan.owned()}, inside);
plan.exchange(field);
zonal.apply(inside, sums);
to_columns.apply(inside, columns);
  // clang-format on

  EXPECT_EQ(cells.front(), 3);
  if (!sum.cells.empty()) EXPECT_EQ(sum.cells.front(), 16 * 3);
  if (!column.cells.empty()) EXPECT_EQ(column.cells.back(), 3);
}

TEST(DocumentedHalos, overlap_the_exchange_with_the_interior) {
  auto const comm = Comm::world();
  HaloPlan const plan(comm, bands(comm), {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_row));
  Memory source(plan.local());
  Memory target(plan.owned(), 0);
  auto const& field = source.view;
  auto const& result = target.view;
  auto const smooth = [&](FieldView const& /*from*/, FieldView const& /*to*/, Box const& box) {
    for (Index row = box.lo(0); row < box.hi(0); ++row)
      for (Index column = box.lo(1); column < box.hi(1); ++column)
        target.cells[std::size_t((row - plan.owned().lo(0)) * 16 + column)] += 1;
  };

  // clang-format off
auto pending = plan.start(field);
smooth(field, result, plan.interior());
pending.wait();
for (Box const& box : plan.border()) smooth(field, result, box);
  // clang-format on

  EXPECT_EQ(target.cells, std::vector<double>(target.cells.size(), 1));
}

TEST(DocumentedHalos, track_the_depth_of_a_deep_halo) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {24, 16});
  Memory memory(local_box(comm, {4, 4}, {4, 4}));
  auto const& field = memory.view;
  int num_steps = 0;
  auto const smooth = [&](FieldView const& /*field*/, Box const& cells) { num_steps += cells.empty() ? 0 : 1; };

  // clang-format off
HaloPlan const plan(comm, layout, {{4, 4}, {4, 4}}, Boundary::sphere(Edge::pole_face));
HaloDepth depth(plan, "humidity");
std::vector<Width> const reach{{1, 1}, {1, 1}};
for (int step = 0; step < 100; ++step) {
  if (!depth.suffices(reach)) {
    plan.exchange(field);
    depth.exchanged();
  }
  Box const cells = depth.apply(depth, reach, AtMirrors::commutes);
  smooth(field, cells);
  depth.refill(field);
}
  // clang-format on

  EXPECT_EQ(num_steps, 100);
}

TEST(DocumentedHalos, give_zonal_means) {
  auto const comm = Comm::world();
  auto const layout = bands(comm);
  std::vector<float> memory(std::size_t(layout.owned(comm.rank()).num_cells()), 2);
  auto const field = field_view(memory.data(), layout.owned(comm.rank()).extents(), 2);

  // clang-format off
AxisSumPlan const zonal(comm, layout, 1, {.scale = AxisSumScale::mean});
std::vector<float> means(std::size_t(zonal.sums().num_cells()));
zonal.apply(field, field_view(means.data(), zonal.sums().extents(), 2));
  // clang-format on

  EXPECT_EQ(means, std::vector<float>(means.size(), 2));
}

}  // namespace
}  // namespace graticule
