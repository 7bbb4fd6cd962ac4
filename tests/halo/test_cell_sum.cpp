// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/cell_sum.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace graticule;
using test::rule_of;

namespace {

constexpr Index rows = 7;
constexpr Index columns = 5;

double weight(Index i, Index j) { return (i * j) % 4 == 1 ? 0 : std::ldexp(1.0 + double(i + 3 * j), int(i) - 3); }
double value(Index b, Index i, Index j) { return std::ldexp(0.1 + double(7 * i - 3 * j + b), int((i + j) % 5) * 9); }

/// The part of this rank of a field with two batch elements last.
struct Part {
  Box box;
  std::vector<double> weights;
  std::vector<double> values;
  explicit Part(Box const& owned) : box(owned) {
    for (Index i = box.lo(0); i < box.hi(0); ++i)
      for (Index j = box.lo(1); j < box.hi(1); ++j) {
        weights.push_back(weight(i, j));
        for (Index b = 0; b < 2; ++b)
          values.push_back(weight(i, j) == 0 ? std::numeric_limits<double>::quiet_NaN() : value(b, i, j));
      }
  }
  [[nodiscard]] FieldView of_weights() { return field_view(weights.data(), {box.extent(0), box.extent(1)}, 2); }
  [[nodiscard]] FieldView of_values() {
    return field_view(values.data(), {box.extent(0), box.extent(1), 2}, {2 * box.extent(1), 2, 1}, {0, 1});
  }
};

/// Longer than f64 on the machines of these tests, and so exact for these few terms where it is.
long double expected(Index b) {
  long double sum = 0;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j)
      if (weight(i, j) != 0) sum += weight(i, j) * value(b, i, j);
  return sum;
}

Layout layout_of(int num_ranks, int axis) {
  return {ProcessGrid(axis == 0 ? Indices{num_ranks, 1} : Indices{1, num_ranks}), {rows, columns}};
}

TEST(CellSum, has_the_same_bits_for_every_split) {
  Comm const comm(MPI_COMM_WORLD);
  std::vector<std::vector<double>> sums;

  for (int axis : {0, 1}) {
    auto const layout = layout_of(comm.num_ranks(), axis);
    Part part(layout.owned(comm.rank()));
    sums.push_back(CellSum(comm, layout, part.of_weights()).apply(part.of_values()));
  }

  Layout const whole({{1, 1}, {rows, columns}});
  Part part(whole.owned(comm.rank()));
  auto const of_one = CellSum(comm, whole, part.of_weights()).apply(part.of_values());
  EXPECT_EQ(sums[0], of_one);
  EXPECT_EQ(sums[1], of_one);
  ASSERT_EQ(of_one.size(), 2U);
  for (Index b = 0; b < 2; ++b)
    EXPECT_NEAR(of_one[std::size_t(b)], double(expected(b)), 1e-12 * std::abs(double(expected(b))));
}

TEST(CellSum, of_the_same_number_everywhere_has_that_mean) {
  Comm const comm(MPI_COMM_WORLD);
  auto const layout = layout_of(comm.num_ranks(), 0);
  Part part(layout.owned(comm.rank()));
  part.values.assign(part.values.size(), 3.5);

  auto const means = CellSum(comm, layout, part.of_weights(), AxisSumScale::mean).apply(part.of_values());

  EXPECT_EQ(means, (std::vector<double>{3.5, 3.5}));
}

TEST(CellSum, passes_the_dot_test) {
  Comm const comm(MPI_COMM_WORLD);
  auto const layout = layout_of(comm.num_ranks(), 1);
  Part part(layout.owned(comm.rank()));
  CellSum const sum(comm, layout, part.of_weights(), AxisSumScale::mean);
  std::vector<double> const cotangents{0.5, -2};
  for (auto& one : part.values) one = std::isnan(one) ? 1 : one;
  auto adjoint = part;
  adjoint.values.assign(adjoint.values.size(), 0);

  auto const sums = sum.apply(part.of_values());
  sum.apply_adjoint(adjoint.of_values(), cotangents);

  std::vector<double> product{0};
  for (std::size_t n = 0; n < part.values.size(); ++n) product[0] += part.values[n] * adjoint.values[n];
  comm.sum(product);
  double const other = sums[0] * cotangents[0] + sums[1] * cotangents[1];
  EXPECT_NEAR(product[0], other, 1e-12 * std::abs(other));
}

TEST(CellSum, throws_on_all_ranks_where_one_has_bad_weights) {
  Comm const comm(MPI_COMM_WORLD);
  auto const layout = layout_of(comm.num_ranks(), 0);
  Part part(layout.owned(comm.rank()));
  if (comm.rank() == 0) part.weights[0] = std::numeric_limits<double>::infinity();

  EXPECT_EQ(rule_of([&] { CellSum const sum(comm, layout, part.of_weights()); }),
            (test::ErrorWith{"NotFinite", "a weight of"}));
  if (comm.rank() == 0) part.weights[0] = 1;
  CellSum const sum(comm, layout, part.of_weights());
  auto const narrow = comm.rank() == 0 ? part.of_weights() : part.of_values();
  auto const error = rule_of([&] { (void)sum.apply(narrow); });
  EXPECT_EQ(error, (test::ErrorWith{comm.num_ranks() == 1 ? "nothing was thrown" : "FieldMismatch", ""}));
}

}  // namespace
