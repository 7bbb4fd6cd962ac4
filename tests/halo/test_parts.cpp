// SPDX-License-Identifier: BSD-3-Clause
// One array with a halo, handed to every class that takes fields.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/repartition/plan.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <vector>

using namespace graticule;

namespace {

double number(Indices const& cell) { return double(100 * cell[0] + cell[1]); }

TEST(Parts, of_one_array_serve_files_halos_sums_and_repartitions) {
  auto const comm = Comm::world();
  test::Folder const folder(comm);
  int const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{2 * n + 1, 6});
  HaloPlan const plan(comm, layout, {{1, 1}, {2, 2}}, Boundary::uniform(2, Edge::periodic));
  AxisSumPlan const zonal(comm, layout, 1);
  RepartitionPlan const to_columns(comm, layout, Layout(ProcessGrid{1, n}, Indices{2 * n + 1, 6}));
  std::vector<double> cells(std::size_t(plan.local().num_cells()), -1.0);
  std::vector<double> sum_values(std::size_t(zonal.sums().num_cells()));
  std::vector<double> column_values(std::size_t(to_columns.target_box().num_cells()));
  FieldView const field = field_view(cells.data(), plan.local().extents(), 2);
  FieldView const inside = field.part(plan.local(), plan.owned());
  FieldView const sums = field_view(sum_values.data(), zonal.sums().extents(), 2);
  FieldView const columns = field_view(column_values.data(), to_columns.target_box().extents(), 2);
  {
    std::vector<double> own;
    for_each_cell(plan.owned(), [&](Indices const& cell) { own.push_back(number(cell)); });
    FieldWriter writer(comm, folder / "z.nc");
    writer.add_dimension("latitude", layout.extent(0));
    writer.add_dimension("longitude", layout.extent(1));
    writer.add_variable({.name = "z", .dimensions = {"latitude", "longitude"}, .type = ValueType::f64});
    writer.write("z", {.box = plan.owned()}, field_view(own.data(), plan.owned().extents(), 2));
    writer.commit();
  }

  FieldFile(comm, folder / "z.nc").read("z", {.box = plan.owned()}, inside);
  plan.exchange(field);
  zonal.apply(inside, sums);
  to_columns.apply(inside, columns);

  std::size_t at = 0;
  for_each_cell(plan.local(), [&](Indices const& cell) {
    auto const wrapped = [&](int a) { return (cell[a] + layout.extent(a)) % layout.extent(a); };
    EXPECT_EQ(cells[at++], number({wrapped(0), wrapped(1)})) << to_string(cell);
  });
  at = 0;
  for_each_cell(zonal.sums(), [&](Indices const& cell) { EXPECT_EQ(sum_values[at++], 600 * double(cell[0]) + 15); });
  at = 0;
  for_each_cell(to_columns.target_box(), [&](Indices const& cell) { EXPECT_EQ(column_values[at++], number(cell)); });
  // And back into the array: what an adjoint adds, and what a repartition puts back.
  zonal.apply_adjoint(inside, sums, Cotangents::replicated);
  to_columns.apply_inverse(inside, columns);
  at = 0;
  for_each_cell(plan.local(), [&](Indices const& cell) {
    auto const wrapped = [&](int a) { return (cell[a] + layout.extent(a)) % layout.extent(a); };
    EXPECT_EQ(cells[at++], number({wrapped(0), wrapped(1)})) << to_string(cell);
  });
}

}  // namespace
