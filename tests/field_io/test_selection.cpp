// SPDX-License-Identifier: BSD-3-Clause
// Fields of any strides, read from and written to any cells of a file.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/layout.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

namespace graticule {
namespace {

using test::Folder;
using test::row_major;
using test::rule_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class Visit>
void for_each_cell(Indices const& extents, Visit const& visit) {
  if (Box::from_extents(extents).empty()) return;
  Indices cell = Indices::filled(extents.size(), 0);
  for (;;) {
    visit(cell);
    int axis = extents.size() - 1;
    while (axis >= 0 && ++cell[axis] == extents[axis]) cell[axis--] = 0;
    if (axis < 0) return;
  }
}

/// A field with canaries around every element that is not written.
template <class Value>
struct Memory {
  std::vector<Value> values;
  FieldView view;
};

/// Value of a cell, small enough for every type.
double formula(Index i) { return double(i % 97); }

/// Draws a selection of a variable and a field for it: axes in any order, gaps between and around its elements.
template <class Value>
std::pair<FileSelection, Memory<Value>> draw(Indices const& extents, std::mt19937& random) {
  auto const below = [&](Index n) { return Index(random() % std::uint32_t(n)); };
  FileSelection selection{.box = Box::from_extents(extents)};
  for (int axis = 0; axis < extents.size(); ++axis) {
    Index const a = below(extents[axis] + 1);
    Index const b = below(extents[axis] + 1);
    selection.box.set(axis, std::min(a, b), std::max(a, b));
    selection.steps.push_back((below(2) == 0 ? 1 : -1) * (1 + below(3)));
  }
  if (below(3) == 0) selection.steps = {};
  std::vector<Index> order(std::size_t(extents.size()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  order.insert(order.begin() + below(Index(order.size()) + 1), -1);
  selection.axes = Indices(std::span<Index const>(order));
  auto const counts = selection.counts();
  Memory<Value> memory;
  Index stride = 1;
  memory.view.strides = memory.view.extents = Indices::filled(selection.axes.size(), 0);
  for (int m = selection.axes.size() - 1; m >= 0; --m) {
    auto const axis = int(selection.axes[m]);
    selection.offset.push_back(0);
    memory.view.extents[m] = (axis >= 0 ? counts[axis] : 1) + below(3);
    memory.view.strides[m] = stride;
    stride *= memory.view.extents[m] + below(2);
  }
  for (int m = 0; m < selection.axes.size(); ++m) {
    auto const axis = int(selection.axes[m]);
    selection.offset[m] = below(memory.view.extents[m] - (axis >= 0 ? counts[axis] : 1) + 1);
  }
  memory.values.assign(std::size_t(std::max<Index>(stride, 1)), Value(99));
  memory.view.data = memory.values.data();
  memory.view.dtype = dtype_of<Value>();
  return {selection, std::move(memory)};
}

/// Calls `visit(element in memory, cell of the variable)` for each chosen cell.
template <class Visit>
void for_each_chosen(FileSelection const& selection, FieldView const& view, Visit const& visit) {
  for_each_cell(selection.counts(), [&](Indices const& place) {
    Indices cell = selection.box.lo();
    for (int axis = 0; axis < place.size(); ++axis) {
      auto const step = selection.steps.size() > 0 ? selection.steps[axis] : 1;
      cell[axis] =
          step > 0 ? selection.box.lo(axis) + place[axis] * step : selection.box.hi(axis) - 1 + place[axis] * step;
    }
    Index element = 0;
    for (int m = 0; m < view.ndim(); ++m) {
      auto const axis = int(selection.axes[m]);
      element += view.strides[m] * (selection.offset[m] + (axis >= 0 ? place[axis] : 0));
    }
    visit(element, cell);
  });
}

template <class Value>
void expect_chosen_only(FieldFile const& file, std::string const& name, std::mt19937& random) {
  auto const& extents = file.variable(name).extents;
  auto [selection, memory] = draw<Value>(extents, random);
  auto expected = memory.values;
  for_each_chosen(selection, memory.view, [&](Index element, Indices const& cell) {
    expected[std::size_t(element)] = Value(formula(row_major(extents, cell)));
  });

  file.read(name, selection, memory.view);

  EXPECT_EQ(memory.values, expected) << name << to_string(selection.box) << to_string(selection.steps);
}

TEST(FileSelection, puts_random_cells_where_they_belong_and_nothing_elsewhere) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Indices const extents{4, 7, 6};
  auto const path = folder.make("formula.h5", [&](auto const& p) {
    test::NewFile const file(p);
    std::vector<double> values(4 * 7 * 6);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = formula(Index(i));
    for (auto const& [name, type] :
         {std::pair{"f32", H5T_IEEE_F32LE}, {"i16", H5T_STD_I16BE}, {"u64", H5T_STD_U64LE}}) {
      test::write_dataset(file, {name, type, {4, 7, 6}}, H5T_NATIVE_DOUBLE, values.data());
      auto const deflated = std::string(name) + "_deflated";
      test::write_dataset(file, {deflated, type, {4, 7, 6}, {2, 3, 4}, 1}, H5T_NATIVE_DOUBLE, values.data());
    }
  });
  std::mt19937 random(unsigned(comm.rank()) + 5);
  int const turns = comm.num_ranks() > 2 ? 3 : 12;

  for (Index const piece_bytes : {100, 1 << 20}) {
    FieldFile const file(comm, path, {.piece_bytes = piece_bytes});
    for (int turn = 0; turn < turns; ++turn)
      for (auto const* name : {"f32", "i16_deflated", "u64", "f32_deflated"}) {
        // Each rank has a field of its own type.
        switch ((turn + comm.rank()) % 5) {
          case 0: expect_chosen_only<float>(file, name, random); break;
          case 1: expect_chosen_only<double>(file, name, random); break;
          case 2: expect_chosen_only<std::int16_t>(file, name, random); break;
          case 3: expect_chosen_only<std::uint8_t>(file, name, random); break;
          default: expect_chosen_only<std::int64_t>(file, name, random); break;
        }
      }
  }
}

TEST(FileSelection, fills_the_inside_of_a_halo_from_south_to_north) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("z.h5", [&](auto const& p) {
    test::NewFile const file(p);
    std::vector<double> values(2 * 3 * 9 * 8);
    std::iota(values.begin(), values.end(), 0);
    test::write_dataset(file, {"z", H5T_STD_I32LE, {2, 3, 9, 8}}, H5T_NATIVE_DOUBLE, values.data());
  });
  FieldFile const file(comm, path);
  // Rows of the layout run north, rows of the file south. Field: [level, latitude, longitude] with one cell of halo.
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {9, 8});
  auto const owned = layout.owned(comm.rank());
  Index const rows = owned.extent(0);
  std::vector<float> values(std::size_t(3 * (rows + 2) * 10), -1.0F);

  file.read("z",
            {.box = Box({1, 0, 9 - owned.hi(0), 0}, {2, 3, 9 - owned.lo(0), 8}),
             .steps = {1, 1, -1, 1},
             .axes = {1, 2, 3},
             .offset = {0, 1, 1}},
            field_view(values.data(), {3, rows + 2, 10}, 2));

  std::size_t i = 0;
  for_each_cell({3, rows + 2, 10}, [&](Indices const& c) {
    bool const inside = rows > 0 && c[1] >= 1 && c[1] <= rows && c[2] >= 1 && c[2] <= 8;
    Index const row = 8 - (owned.lo(0) + c[1] - 1);
    auto const expected = inside ? float(((3 + c[0]) * 9 + row) * 8 + c[2] - 1) : -1.0F;
    EXPECT_EQ(values[i++], expected) << to_string(c);
  });
}

TEST(FileSelection, converts_once_and_refuses_integers_that_do_not_fit) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<double> const numbers{1.0 + 1.0 / 2048, 1.0 + 3.0 / 2048, 70000, -1e-8, nan, 65519.9999, 3e-5, -0.0};
  std::int64_t const large = (std::int64_t(1) << 53) + 1;
  auto const path = folder.make("numbers.h5", [&](auto const& p) {
    test::NewFile const file(p);
    test::write_dataset(file, {"f64", H5T_IEEE_F64LE, {8}}, H5T_NATIVE_DOUBLE, numbers.data());
    test::write_dataset(file, {"large", H5T_STD_I64BE, {1}}, H5T_NATIVE_INT64, &large);
    std::int16_t const packed[]{2, 3, -9};
    test::write_dataset(file, {"packed", H5T_STD_I16LE, {3}}, H5T_NATIVE_INT16, packed, [](hid_t dataset) {
      test::write_number(dataset, "scale_factor", 0.5);
      test::write_number(dataset, "_FillValue", -9);
    });
  });
  FieldFile const file(comm, path);
  std::vector<std::uint16_t> bits(8);
  FieldView half = field_view(reinterpret_cast<std::int16_t*>(bits.data()), {8}, 1);
  half.dtype = DType::f16;
  std::vector<std::int64_t> whole(3);
  auto const integers = [&](Index n) { return field_view(whole.data(), {n}, 1); };
  bool const last = comm.rank() == comm.num_ranks() - 1;

  file.read("f64", {.box = Box({0}, {8})}, half);
  EXPECT_EQ(bits, (std::vector<std::uint16_t>{0x3c00, 0x3c02, 0x7c00, 0x8000, bits[4], 0x7bff, 0x01f7, 0x8000}));
  EXPECT_GT(bits[4] & 0x7fffU, 0x7c00U);
  file.read("large", {.box = Box({0}, {1})}, integers(1));
  EXPECT_EQ(whole[0], large);
  file.read("packed", {.box = Box({0}, {1})}, integers(1));
  EXPECT_EQ(whole[0], 1);
  // On one rank it has a fraction or is missing: an error on all.
  EXPECT_EQ(rule_of([&] { file.read("packed", {.box = Box({0}, {last ? 2 : 1})}, integers(3)); }), "Conversion");
  EXPECT_EQ(rule_of([&] { file.read("packed", {.box = Box({last ? 2 : 0}, {last ? 3 : 1})}, integers(3)); }),
            "Conversion");
  std::int32_t narrow = 0;
  EXPECT_EQ(rule_of([&] { file.read("large", {.box = Box({0}, {1})}, field_view(&narrow, {1}, 1)); }), "Conversion");
}

TEST(FileSelection, is_refused_by_name_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("plain.h5", [&](auto const& p) {
    test::NewFile const file(p);
    std::vector<double> const values(4 * 5, 1.0);
    test::write_dataset(file, {"v", H5T_IEEE_F64LE, {4, 5}}, H5T_NATIVE_DOUBLE, values.data());
  });
  FieldFile const file(comm, path);
  std::vector<double> memory(20);
  auto const field = field_view(memory.data(), {4, 5}, 2);
  Box const all({0, 0}, {4, 5});
  bool const last = comm.rank() == comm.num_ranks() - 1;
  // The others are right, or take part without cells.
  auto const rule = [&](FileSelection const& selection, FieldView const& view) {
    return rule_of([&] { file.read("v", last ? selection : FileSelection{.box = Box({0, 0}, {0, 0})}, view); });
  };

  EXPECT_EQ(rule({.box = Box({0, 0}, {5, 5})}, field), "OutOfRange");
  EXPECT_EQ(rule({.box = all, .steps = {0, 1}}, field), "BadSelection");
  EXPECT_EQ(rule({.box = all, .steps = {1}}, field), "BadSelection");
  EXPECT_EQ(rule({.box = all, .axes = {0, 2}}, field), "BadSelection");
  EXPECT_EQ(rule({.box = all, .axes = {0, 0}}, field), "BadSelection");
  EXPECT_EQ(rule({.box = all, .axes = {0, -1}}, field), "BadSelection");
  EXPECT_EQ(rule({.box = all, .offset = {0}}, field), "BadSelection");
  EXPECT_EQ(rule({.box = all, .axes = {1, 0}}, field), "ShapeMismatch");
  EXPECT_EQ(rule({.box = all, .offset = {1, 0}}, field), "ShapeMismatch");
  EXPECT_EQ(rule({.box = all, .offset = {-1, 0}}, field), "ShapeMismatch");
  EXPECT_EQ(rule({.box = all}, field_view<double>(nullptr, {4, 5}, 2)), "ShapeMismatch");
  auto other = field;
  other.dtype = DType::c128;
  EXPECT_EQ(rule({.box = all}, other), "WrongType");
  other = field;
  other.space = MemorySpace::device;
  EXPECT_EQ(rule({.box = all}, other), "Unsupported");
  EXPECT_EQ(rule({.box = all}, field), "nothing was thrown");
}

/// A field that ranks hold in columns, transposed and inside halos, in a file of rows: as if written by one.
TEST(FileSelection, writes_transposed_fields_with_halos) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "out.nc";
  Index const rows = 7;
  Index const columns = 9;
  auto const cuts = balanced_cuts(columns, comm.num_ranks());
  Index const lo = cuts.lo(comm.rank());
  Index const width = cuts.size(comm.rank());
  std::vector<std::int32_t> memory(std::size_t((width + 2) * (rows + 2)), -5);
  for (Index c = 0; c < width; ++c)
    for (Index r = 0; r < rows; ++r)
      memory[std::size_t((c + 1) * (rows + 2) + r + 1)] = std::int32_t(r * columns + lo + c);
  auto const field = field_view(memory.data(), {width + 2, rows + 2}, 2);
  for (int const writers : {0, 1, 2}) {
    FileSelection selection{.box = Box({0, lo}, {rows, lo + width}), .axes = {1, 0}, .offset = {1, 1}};
    {
      FieldWriter writer(comm, path, {}, {.piece_bytes = 64, .writers_per_node = writers});
      writer.add_dimension("row", rows);
      writer.add_dimension("column", columns);
      writer.add_variable({.name = "same", .dimensions = {"row", "column"}, .type = ValueType::i32});
      writer.add_variable(
          {.name = "packed", .dimensions = {"row", "column"}, .type = ValueType::i16, .packing = Packing{0.5, 1}});
      writer.add_variable({.name = "mirrored", .dimensions = {"row", "column"}, .chunk = {2, 4}});
      writer.write("same", selection, field);
      writer.write("packed", selection, field);
      selection.steps = {-1, 1};
      writer.write("mirrored", selection, field);
      writer.commit();
    }
    FieldFile const file(comm, path);
    std::vector<double> same(63);
    std::vector<double> packed(63);
    std::vector<double> mirrored(63);

    file.read("same", Box({0, 0}, {rows, columns}), std::span(same));
    file.read("packed", Box({0, 0}, {rows, columns}), std::span(packed));
    file.read("mirrored", Box({0, 0}, {rows, columns}), std::span(mirrored));

    for (Index i = 0; i < rows * columns; ++i) {
      EXPECT_EQ(same[std::size_t(i)], double(i));
      EXPECT_EQ(packed[std::size_t(i)], double(i));
      EXPECT_EQ(mirrored[std::size_t(i)], double((rows - 1 - i / columns) * columns + i % columns));
    }
  }
}

/// Ranks hold every n-th column: their cells do not make up a box.
TEST(FileSelection, writes_interleaved_columns) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Index const n = comm.num_ranks();
  for (int const writers : {0, 1, 2}) {
    auto const path = folder / (std::to_string(writers) + ".nc");
    std::vector<float> values;
    for (Index i = 0; i < 12; ++i) values.push_back(float(i / 4 * 4 * n + i % 4 * n + comm.rank()));
    {
      FieldWriter writer(comm, path, {}, {.piece_bytes = 40, .writers_per_node = writers});
      writer.add_dimension("row", 3);
      writer.add_dimension("column", 4 * n);
      writer.add_variable({.name = "v", .dimensions = {"row", "column"}, .type = ValueType::f64});
      writer.write("v", {.box = Box({0, comm.rank()}, {3, 4 * n}), .steps = {1, n}},
                   field_view(values.data(), {3, 4}, 2));
      writer.commit();
    }
    FieldFile const file(comm, path);
    std::vector<double> read(std::size_t(12 * n));
    file.read("v", Box({0, 0}, {3, 4 * n}), std::span(read));
    for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], double(i));
  }
}

TEST(FileSelection, writes_64_bit_integers_exactly_or_refuses_them) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "large.nc";
  std::vector<std::int64_t> values{(std::int64_t(1) << 53) + 1, -9};
  Index const n = comm.rank() == 0 ? 2 : 0;
  {
    FieldWriter writer(comm, path);
    writer.add_dimension("x", 2);
    writer.add_variable({.name = "v", .dimensions = {"x"}, .type = ValueType::i64, .fill = -8});
    writer.add_variable({.name = "n", .dimensions = {"x"}, .type = ValueType::i32});
    auto const field = field_view(values.data(), {2}, 1);
    EXPECT_EQ(rule_of([&] { writer.write("n", {.box = Box({0}, {n})}, field); }), "Conversion");
    values[1] = -8;
    EXPECT_EQ(rule_of([&] { writer.write("v", {.box = Box({0}, {n})}, field); }), "Conversion");
    values[1] = -9;
    writer.write("v", {.box = Box({0}, {n})}, field);
    writer.write("n", {.box = Box({0}, {n}), .offset = {0}},
                 field_view(std::array<std::int8_t, 2>{1, 2}.data(), {2}, 1));
    writer.commit();
  }
  FieldFile const file(comm, path);
  std::vector<std::int64_t> read(2);

  file.read("v", {.box = Box({0}, {2})}, field_view(read.data(), {2}, 1));

  EXPECT_EQ(read, values);
}

}  // namespace
}  // namespace graticule
