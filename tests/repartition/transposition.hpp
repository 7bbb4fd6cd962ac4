// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/plan.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace graticule::test {

/// Rows to columns of an 8 x 8 grid, with fields of 3 and of 4.
struct Transposition {
  Layout rows;
  Layout columns;
  RepartitionPlan plan;
  std::vector<double> from;
  std::vector<double> to;

  explicit Transposition(Comm const& comm)
      : rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 8}),
        columns(ProcessGrid{1, comm.num_ranks()}, Indices{8, 8}),
        plan(comm, rows, columns),
        from(std::size_t(plan.source_box().num_cells()), 3.0),
        to(std::size_t(plan.target_box().num_cells()), 4.0) {}

  [[nodiscard]] FieldView source() { return field_view(from.data(), plan.source_box().extents(), 2); }
  [[nodiscard]] FieldView target() { return field_view(to.data(), plan.target_box().extents(), 2); }
  void expect_right() {
    plan.apply(source(), target());
    for (double const value : to) EXPECT_EQ(value, 3.0);
  }
};

}  // namespace graticule::test
