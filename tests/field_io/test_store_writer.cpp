// SPDX-License-Identifier: BSD-3-Clause
// Zarr stores that all ranks write. tests/python/test_zarr.py and tests/apps/repartition have other readers of them.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/repartition/field_view.hpp>

#include "expect_error.hpp"
#include "full_disks.hpp"
#include "random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {
namespace {

using test::Folder;
using test::names_in;
using test::thrown_by;

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// The stored value of each cell: its number in the variable, a little shifted per variable.
template <class Value>
std::vector<std::byte> cells_of(Indices const& extents, Box const& box, Index shift, Index blank) {
  std::vector<std::byte> bytes;
  for_each_cell(box, [&](Indices const& cell) {
    Index number = 0;
    for (int axis = 0; axis < cell.size(); ++axis) number = number * extents[axis] + cell[axis];
    auto const value = number % blank == 0 ? Value(0) : Value(number + shift);
    auto const* from = reinterpret_cast<std::byte const*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  });
  return bytes;
}

std::vector<std::byte> cells_of(ValueType type, Indices const& extents, Box const& box, Index shift) {
  // Chunks of zeros alone are not written.
  Index const blank = shift % 3 == 0 ? 1 : 7;
  switch (type) {
    case ValueType::u8: return cells_of<std::uint8_t>(extents, box, shift, blank);
    case ValueType::f16:  // any bits
    case ValueType::i16: return cells_of<std::int16_t>(extents, box, shift, blank);
    case ValueType::i64: return cells_of<std::int64_t>(extents, box, shift, blank);
    case ValueType::f32: return cells_of<float>(extents, box, shift, blank);
    default: return cells_of<double>(extents, box, shift, blank);
  }
}

struct RandomVariable {
  VariableSpec spec;
  Indices extents;
};

RandomVariable random_variable(std::mt19937_64& random, int number) {
  auto const pick = [&](Index lo, Index hi) { return Index(lo + Index(random() % std::uint64_t(hi - lo + 1))); };
  RandomVariable variable;
  constexpr std::array types{ValueType::u8,  ValueType::i16, ValueType::i64,
                             ValueType::f16, ValueType::f32, ValueType::f64};
  variable.spec = {.name = "v" + std::to_string(number), .type = types[random() % types.size()]};
  int const ndim = int(pick(1, 4));
  bool const has_shards = pick(0, 1) == 1;
  for (int axis = 0; axis < ndim; ++axis) {
    variable.extents.push_back(pick(1, 13));
    variable.spec.chunk.push_back(pick(1, variable.extents[axis]));
    if (has_shards) variable.spec.shard.push_back(variable.spec.chunk[axis] * pick(1, 3));
    variable.spec.dimensions.push_back("d" + std::to_string(number) + "_" + std::to_string(axis));
  }
  return variable;
}

/// Part `part` of `num_parts` of an axis, and of that this rank's along another.
Box own_box(Comm const& comm, Indices const& extents, int part, int num_parts, int axis, int rank_axis) {
  auto box = Box::from_extents(extents);
  auto const parts = balanced_cuts(extents[axis], num_parts);
  box.set(axis, parts.lo(part), parts.hi(part));
  auto const cuts = balanced_cuts(box.extent(rank_axis), comm.num_ranks());
  Index const first = box.lo(rank_axis);
  box.set(rank_axis, first + cuts.lo(comm.rank()), first + cuts.hi(comm.rank()));
  return box;
}

void expect_cells(FieldFile const& file, RandomVariable const& variable, Index shift, std::mt19937_64& random) {
  auto box = Box::from_extents(variable.extents);
  for (int axis = 0; axis < box.ndim(); ++axis) {
    Index const lo = Index(random() % std::uint64_t(variable.extents[axis]));
    box.set(axis, lo, lo + 1 + Index(random() % std::uint64_t(variable.extents[axis] - lo)));
  }
  auto const expected = cells_of(variable.spec.type, variable.extents, box, shift);
  std::vector<std::byte> found(expected.size());
  file.read_stored(variable.spec.name, box, found);
  EXPECT_TRUE(found == expected) << variable.spec.name << to_string(variable.extents) << " chunks "
                                 << to_string(variable.spec.chunk) << " shards " << to_string(variable.spec.shard);
}

TEST(StoreWriter, every_cell_is_read_again_on_any_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::mt19937_64 random(7);
  constexpr std::array codecs{"none", "gzip:4", "zstd", "blosc-zstd:3", "blosc-lz4", ""};

  for (int number = 0; number < 24; ++number) {
    auto const path = folder / ("s" + std::to_string(number) + ".zarr");
    int const writers = number % 3 == 0 ? 1 : 0;
    FieldWriter writer(comm, path, {},
                       {.writers_per_node = writers, .codec = codecs[std::size_t(number) % codecs.size()]});
    std::vector<RandomVariable> variables;
    for (int i = 0; i < 3; ++i) variables.push_back(random_variable(random, i));
    for (auto const& variable : variables) {
      for (int axis = 0; axis < variable.extents.size(); ++axis)
        writer.add_dimension(variable.spec.dimensions[std::size_t(axis)], variable.extents[axis]);
      writer.add_variable(variable.spec);
    }
    for (auto const& variable : variables) {
      int const ndim = variable.extents.size();
      int const axis = int(random() % std::uint64_t(ndim));
      int const rank_axis = int(random() % std::uint64_t(ndim));
      int const num_parts = 1 + int(random() % 3);
      for (int part = 0; part < num_parts; ++part) {
        auto const box = own_box(comm, variable.extents, part, num_parts, axis, rank_axis);
        writer.write_stored(variable.spec.name, box, cells_of(variable.spec.type, variable.extents, box, number));
      }
    }
    writer.commit();

    auto const fewer = comm.split(comm.rank() / 2, comm.rank());
    for (auto const& on : {comm, fewer}) {
      FieldFile const file(on, path);
      std::mt19937_64 own(std::uint64_t(1000 + comm.rank()));
      for (auto const& variable : variables) expect_cells(file, variable, number, own);
    }
  }
}

TEST(StoreWriter, fields_of_any_strides_and_every_second_cell) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "x.zarr";
  constexpr Index rows = 9;
  constexpr Index columns = 10;
  FieldWriter writer(comm, path);
  writer.add_dimension("row", rows);
  writer.add_dimension("column", columns);
  writer.add_variable({.name = "u", .dimensions = {"row", "column"}, .type = ValueType::f64, .chunk = {4, 3}});
  auto const cuts = balanced_cuts(columns, comm.num_ranks());
  auto const own = cuts.size(comm.rank());

  // Each rank has some columns, column by column, and writes the even rows, then the odd ones from the last on.
  for (int odd = 0; odd < 2; ++odd) {
    Index const num_rows = odd == 0 ? 5 : 4;
    std::vector<double> values;
    for (Index j = cuts.lo(comm.rank()); j < cuts.hi(comm.rank()); ++j)
      for (Index i = 0; i < num_rows; ++i) values.push_back(double((odd == 0 ? 2 * i : 7 - 2 * i) * 100 + j));
    FileSelection selection{Box({odd, cuts.lo(comm.rank())}, {odd == 0 ? rows : rows - 1, cuts.hi(comm.rank())})};
    selection.steps = Indices{odd == 0 ? 2 : -2, 1};
    FieldView field;
    field.data = values.data();
    field.extents = {num_rows, own};
    field.strides = {1, num_rows};
    writer.write("u", selection, field);
  }
  writer.commit();

  FieldFile const file(comm, path);
  std::vector<double> found(std::size_t(rows * columns));
  file.read("u", Box::from_extents({rows, columns}), std::span(found));
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) EXPECT_EQ(found[std::size_t(i * columns + j)], double(i * 100 + j)) << i << j;
}

constexpr Index num_rows = 5;
constexpr Index num_columns = 4;

void write_records(Comm const& comm, FieldWriter& writer, Index lo, Index hi) {
  auto const cuts = balanced_cuts(num_rows, comm.num_ranks());
  Box const box({lo, cuts.lo(comm.rank()), 0}, {hi, cuts.hi(comm.rank()), num_columns});
  std::vector<float> values;
  for_each_cell(box, [&](Indices const& c) { values.push_back(float(c[0] * 100 + c[1] * num_columns + c[2])); });
  for (auto const* name : {"plain", "sharded", "packed"}) writer.write(name, box, std::span<float const>(values));
  std::vector<double> times;
  for (Index t = lo; t < hi && comm.rank() == 0; ++t) times.push_back(double(t) * 6);
  writer.write("time", Box({lo}, {lo + Index(times.size())}), std::span<double const>(times));
}

void write_first(Comm const& comm, fs::path const& path) {
  FieldWriter writer(comm, path, {Attribute::of_text("title", "records")});
  writer.add_dimension("time", 2, DimensionKind::unlimited);
  writer.add_dimension("row", num_rows);
  writer.add_dimension("column", num_columns);
  std::vector<std::string> const dimensions{"time", "row", "column"};
  writer.add_variable({.name = "time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {Attribute::of_text("units", "hours since 2000-01-01")}});
  writer.add_variable({.name = "plain", .dimensions = dimensions});
  writer.add_variable({.name = "sharded", .dimensions = dimensions, .chunk = {2, 3, 4}, .shard = {4, 6, 4}});
  writer.add_variable({.name = "packed",
                       .dimensions = dimensions,
                       .type = ValueType::i16,
                       .chunk = {3, 2, 2},
                       .packing = Packing{0.5, 1},
                       .fill = -99});
  write_records(comm, writer, 0, 2);
  writer.commit();
}

void expect_records(Comm const& comm, fs::path const& path, Index count) {
  FieldFile const file(comm, path);
  ASSERT_EQ(num_complete_records(file.contents(), "time"), count);
  for (auto const* name : {"plain", "sharded", "packed"}) {
    ASSERT_EQ(file.variable(name).extents, (Indices{count, num_rows, num_columns}));
    std::vector<float> found(std::size_t(count * num_rows * num_columns));
    file.read(name, Box::from_extents({count, num_rows, num_columns}), std::span(found));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], float(Index(i) / 20 * 100 + Index(i) % 20)) << name << " " << i;
  }
}

TEST(StoreWriter, appended_records_are_there_after_commit_only) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "x.zarr";
  write_first(comm, path);

  for (int number = 2; number < 9; ++number) {
    // Is given up after its cells were written.
    {
      auto writer = FieldWriter::append(comm, path, AppendTo::in_place);
      writer.extend("time", 3);
      write_records(comm, writer, number, number + 3);
    }
    expect_records(comm, path, number);
    auto writer = FieldWriter::append(comm, path, number % 2 == 0 ? AppendTo::in_place : AppendTo::copy);
    writer.extend("time", 1);
    EXPECT_EQ(test::rule_of([&] { write_records(comm, writer, number - 1, number); }), "OutOfRange");
    write_records(comm, writer, number, number + 1);
    writer.commit();
    expect_records(comm, path, number + 1);
  }
  comm.barrier();
  EXPECT_EQ(names_in(folder.path()), Names{"x.zarr"});
}

TEST(StoreWriter, half_precision_deflate_and_fill_values_of_text_come_back) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  bool const writes = comm.rank() == 0;
  auto const some = [&](auto const& values) { return std::span(values).first(writes ? values.size() : 0); };
  Box const all({0}, {writes ? 6 : 0});
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> const numbers{0.5, nan, 65504, 1.0 / 3, -0.0, 6e-8};
  std::vector<std::byte> texts;
  for (char const c : std::string_view("abc\0\0\0\0\0\0x\0\0x\0\0x\0\0", 18)) texts.push_back(std::byte(c));

  FieldWriter writer(comm, folder / "x.zarr", {}, {.codec = "none"});
  writer.add_dimension("k", 6);
  writer.add_variable({.name = "half", .dimensions = {"k"}, .type = ValueType::f16, .fill = -1.0});
  writer.add_variable({.name = "text",
                       .dimensions = {"k"},
                       .type = ValueType::text,
                       .text_bytes = 3,
                       .chunk = {3},
                       .attributes = {Attribute::of_text("_FillValue", "x")}});
  writer.add_variable({.name = "packed", .dimensions = {"k"}, .type = ValueType::f64, .deflate = 4});
  writer.add_variable(
      {.name = "plain", .dimensions = {"k"}, .type = ValueType::f64, .deflate = 2, .shuffle = Shuffle::never});
  EXPECT_EQ(test::rule_of([&] { writer.add_variable({.name = "wrong", .dimensions = {"k"}, .deflate = 12}); }),
            "BadOption");
  for (auto const* name : {"half", "packed", "plain"}) writer.write(name, all, some(numbers));
  writer.write_stored("text", all, some(texts));
  writer.commit();

  FieldFile const file(comm, folder / "x.zarr");
  std::vector<double> found(6);
  file.read("half", Box({0}, {6}), std::span(found));
  std::vector<double> const rounded{0.5, nan, 65504, 0.333251953125, 0, 5.9604644775390625e-08};
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == rounded[i] || (std::isnan(found[i]) && std::isnan(rounded[i]))) << i << " " << found[i];
  EXPECT_TRUE(std::signbit(found[4]));
  std::vector<std::byte> found_texts(18);
  file.read_stored("text", Box({0}, {6}), found_texts);
  EXPECT_EQ(found_texts, texts);
  EXPECT_EQ(file.variable("text").attribute("_FillValue"), nullptr);
  EXPECT_TRUE(fs::exists(folder / "x.zarr/text/c/0") && !fs::exists(folder / "x.zarr/text/c/1"));
  auto const codec = [&](char const* name) { return file.variable(name).filters.at(0).name; };
  EXPECT_TRUE(codec("packed") == "blosc zlib 4" || codec("packed") == "gzip 4") << codec("packed");
  EXPECT_EQ(codec("plain"), "gzip 2");
  EXPECT_TRUE(file.variable("half").filters.empty());

  FieldWriter netcdf(comm, folder / "x.nc");
  auto const refused = thrown_by([&] { netcdf.add_variable({.name = "half", .type = ValueType::f16}); });
  EXPECT_NE(refused.text.find("half is of type f16, which netCDF lacks; make it f32"), std::string::npos)
      << refused.text;
}

TEST(StoreWriter, nothing_is_left_without_commit_and_an_older_store_stays) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "x.zarr";
  auto const begin = [&] {
    FieldWriter writer(comm, path);
    writer.add_dimension("row", 5);
    writer.add_variable({.name = "v", .dimensions = {"row"}});
    std::vector<float> const values(5);
    writer.write("v", Box({0}, {comm.rank() == 0 ? 5 : 0}), std::span(values).first(comm.rank() == 0 ? 5 : 0));
    return writer;
  };

  { auto const writer = begin(); }
  comm.barrier();
  EXPECT_EQ(names_in(folder.path()), Names{});
  write_first(comm, path);
  { auto const writer = begin(); }
  expect_records(comm, path, 2);
  // With a slash at its end.
  write_first(comm, path / "");
  expect_records(comm, path, 2);
  begin().commit();
  comm.barrier();
  EXPECT_EQ(names_in(folder.path()), Names{"x.zarr"});
  EXPECT_EQ(FieldFile(comm, path).contents().variables.size(), 1U);
}

TEST(StoreWriter, other_folders_and_files_are_not_replaced) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  folder.make("mine.zarr", [](auto const& p) {
    fs::create_directory(p);
    std::ofstream(p / "notes.txt") << "mine";
  });
  folder.make("file.zarr", [](auto const& p) { std::ofstream(p) << "mine"; });

  auto const expect = [&](std::string const& name, std::string const& why) {
    auto const thrown = thrown_by([&] { FieldWriter const writer(comm, folder / name); });
    EXPECT_NE(thrown.text.find(why), std::string::npos) << thrown.text;
  };
  expect("mine.zarr", "mine.zarr cannot be written: it is a folder, and no Zarr store");
  expect("file.zarr", "file.zarr cannot be written: it is a file, not a folder");
  expect("gone/x.zarr", "does not exist");
  expect("x.zarr.zip", "Zarr stores are written as folders");
  auto const with = [&](std::string const& name, std::string const& codec) {
    return thrown_by([&] { FieldWriter const writer(comm, folder / name, {}, {.codec = codec}); }).text;
  };
  EXPECT_NE(with("x.zarr", "zip").find("the codec 'zip' is not none, gzip,"), std::string::npos);
  EXPECT_NE(with("x.zarr", "gzip:12").find("gzip with a level of 0 to 9"), std::string::npos);
  EXPECT_NE(with("x.nc", "gzip").find("is for Zarr stores"), std::string::npos);
  comm.barrier();
  EXPECT_EQ(names_in(folder.path()), (Names{"file.zarr", "mine.zarr"}));
}

TEST(StoreWriter, a_full_disk_is_an_error_on_all_ranks_and_leaves_nothing) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  test::SmallDisk const disk(folder, comm, 2);
  if (!disk.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  auto const path = disk.path() / "x.zarr";
  write_first(comm, path);

  auto const thrown = thrown_by([&] {
    FieldWriter writer(comm, path, {}, {.codec = "none"});
    writer.add_dimension("row", 64);
    writer.add_dimension("column", 10000);
    writer.add_variable({.name = "v", .dimensions = {"row", "column"}, .type = ValueType::f64, .chunk = {5, 100}});
    auto const cuts = balanced_cuts(64, comm.num_ranks());
    std::vector<double> const values(std::size_t(cuts.size(comm.rank()) * 10000), 1.5);
    writer.write("v", Box({cuts.lo(comm.rank()), 0}, {cuts.hi(comm.rank()), 10000}), std::span(values));
    writer.commit();
  });

  EXPECT_EQ(thrown.rule, "OutputError");
  EXPECT_NE(thrown.text.find("x.zarr cannot be written: No space left on device"), std::string::npos) << thrown.text;
  comm.barrier();
  EXPECT_EQ(names_in(disk.path()), Names{"x.zarr"});
  expect_records(comm, path, 2);
}

}  // namespace
}  // namespace graticule
