// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/box.hpp>
#include <graticule/repartition/detail/copy_cells.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/field_view.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <numeric>
#include <vector>

using namespace graticule;

namespace {

TEST(DType, has_the_size_and_name_of_its_type) {
  struct Row {
    DType dtype;
    Index bytes;
    char const* name;
  };
  for (auto const& row : std::vector<Row>{{dtype_of<std::uint8_t>(), 1, "u8"},
                                          {dtype_of<bool>(), 1, "u8"},
                                          {dtype_of<std::int8_t>(), 1, "i8"},
                                          {dtype_of<std::int16_t>(), 2, "i16"},
                                          {dtype_of<int>(), 4, "i32"},
                                          {dtype_of<long>(), 8, "i64"},
                                          {dtype_of<long long>(), 8, "i64"},
                                          {DType::f16, 2, "f16"},
                                          {DType::bf16, 2, "bf16"},
                                          {dtype_of<float const>(), 4, "f32"},
                                          {dtype_of<double>(), 8, "f64"},
                                          {dtype_of<std::complex<float>>(), 8, "c64"},
                                          {dtype_of<std::complex<double>>(), 16, "c128"}}) {
    EXPECT_EQ(size_of(row.dtype), row.bytes) << row.name;
    EXPECT_EQ(to_string(row.dtype), row.name);
  }
}

TEST(FieldView, of_dense_memory_has_its_grid_axes_last) {
  std::vector<float> memory(2 * 3 * 4 * 5);

  auto const view = field_view(memory.data(), {2, 3, 4, 5}, 2);

  EXPECT_EQ(view.data, memory.data());
  EXPECT_EQ(view.dtype, DType::f32);
  EXPECT_EQ(view.strides, Indices({60, 20, 5, 1}));
  EXPECT_EQ(view.grid_axes, Indices({2, 3}));
  EXPECT_EQ(view.num_batch(), 6);
  EXPECT_EQ(view.batch_extents(), Indices({2, 3}));
}

TEST(FieldView, finds_batch_axes_between_grid_axes) {
  std::vector<double> const memory(2 * 3 * 4);

  auto const view = field_view(memory.data(), {2, 3, 4}, {12, 4, 1}, {2, 0});

  EXPECT_EQ(view.num_batch(), 3);
  EXPECT_EQ(view.batch_extents(), Indices({3}));
  EXPECT_EQ(field_view(memory.data(), {2, 0, 4}, {4, 4, 1}, {2, 0}).num_batch(), 0);
  EXPECT_EQ(field_view(memory.data(), {4, 6}, 2).num_batch(), 1);
}

TEST(FieldView, row_major_strides_of_empty_axes_stay_positive) {
  EXPECT_EQ(row_major_strides({3, 0, 4}), Indices({4, 4, 1}));
  EXPECT_EQ(row_major_strides({7}), Indices({1}));
  EXPECT_EQ(row_major_strides({}).size(), 0);
}

TEST(FieldView, of_a_part_begins_at_its_first_cell_and_keeps_strides_and_batch_axes) {
  std::vector<float> memory(2 * 6 * 10);
  Box const local({-1, 3}, {5, 13});
  Box const owned({0, 4}, {4, 12});
  auto const field = field_view(memory.data(), {2, 6, 10}, 2);

  auto const part = field.part(local, owned);

  EXPECT_EQ(part.data, memory.data() + 11);
  EXPECT_EQ(part.extents, Indices({2, 4, 8}));
  EXPECT_EQ(part.strides, field.strides);
  EXPECT_EQ(part.grid_axes, field.grid_axes);
  EXPECT_EQ(part.dtype, DType::f32);
  EXPECT_EQ(part.part(owned, Box({3, 11}, {4, 12})).data, memory.data() + 4 * 10 + 8);
  EXPECT_EQ(field.part(local, local), field);
  // Backwards along the rows, which are the second memory axis of the turned view, and as a part of nothing.
  auto const turned = field_view(memory.data() + 59, {10, 2, 6}, {-1, 60, -10}, {2, 0});
  EXPECT_EQ(turned.part(local, owned).data, memory.data() + 59 - 10 - 1);
  EXPECT_EQ(turned.part(local, owned).extents, Indices({8, 2, 4}));
  EXPECT_EQ(field.part(local, Box({2, 2}, {2, 2})).extents, Indices({2, 0, 0}));
  EXPECT_EQ(field_view(memory.data(), {2, 0, 7}, 2).part(Box({0, 0}, {0, 0}), Box({0, 0}, {0, 0})).extents,
            Indices({2, 0, 0}));
}

TEST(FieldView, refuses_a_part_that_it_does_not_hold) {
  std::vector<float> memory(60);
  Box const local({-1, 3}, {5, 13});
  auto const field = field_view(memory.data(), {6, 10}, 2);
  auto const rule = [&](FieldView const& view, Box const& covered, Box const& box) {
    return test::rule_of([&] { (void)view.part(covered, box); });
  };

  EXPECT_EQ(rule(field, local, Box({-1, 3}, {6, 13})), "FieldMismatch");
  EXPECT_EQ(rule(field, local, Box({-2, 3}, {0, 13})), "FieldMismatch");
  EXPECT_EQ(rule(field, Box({-1, 3}, {5, 12}), Box({0, 4}, {1, 5})), "FieldMismatch");
  EXPECT_EQ(rule(field, local, Box({0}, {1})), "FieldMismatch");
  EXPECT_EQ(rule(field_view(memory.data(), {6, 10}, 1), local, local), "FieldMismatch");
  EXPECT_EQ(rule(field_view(memory.data(), {6, 10}, {10, 1}, {0, 0}), local, local), "FieldMismatch");
  EXPECT_EQ(rule(field_view(memory.data(), {6, 10}, {10, 1}, {0, 2}), local, local), "FieldMismatch");
}

TEST(FieldView, without_cells_keeps_its_type_and_its_batch_axes) {
  std::vector<float> memory(2 * 6 * 10);
  auto const field = field_view(memory.data(), {2, 6, 10}, 2);

  auto const none = field.without_cells();

  EXPECT_EQ(none.data, nullptr);
  EXPECT_EQ(none.extents, Indices({2, 0, 0}));
  EXPECT_EQ(none.batch_extents(), field.batch_extents());
  EXPECT_EQ(none.dtype, DType::f32);
  EXPECT_EQ(none.grid_axes, field.grid_axes);
}

TEST(FieldView, copies_cells_between_any_strides) {
  std::vector<float> memory(6 * 10);
  std::iota(memory.begin(), memory.end(), 0.0F);
  Box const local({-1, 3}, {5, 13});
  Box const owned({0, 4}, {4, 12});
  auto const part = field_view(memory.data(), {6, 10}, 2).part(local, owned);
  std::vector<float> turned(8 * 4, -1);

  copy_cells(part, field_view(turned.data() + 31, {4, 8}, {-1, -4}, {0, 1}));

  for (Index row = 0; row < 4; ++row)
    for (Index column = 0; column < 8; ++column)
      EXPECT_EQ(turned[std::size_t(31 - row - 4 * column)], float((row + 1) * 10 + column + 1));
}

TEST(FieldView, refuses_to_copy_cells_to_another_type_or_shape) {
  std::vector<float> floats(12);
  std::vector<double> doubles(12);
  auto const from = field_view(floats.data(), {3, 4}, 2);

  EXPECT_EQ(test::rule_of([&] { copy_cells(from, field_view(doubles.data(), {3, 4}, 2)); }), "FieldMismatch");
  EXPECT_EQ(test::rule_of([&] { copy_cells(from, field_view(floats.data(), {4, 3}, 2)); }), "FieldMismatch");
}

}  // namespace
