// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/detail/numbering.hpp>

#include "archive.hpp"
#include "expect_error.hpp"
#include "full_disks.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace graticule::archive {
namespace {

using test::Folder;
using test::names_in;

std::filesystem::path const data = GRATICULE_TEST_DATA;

Result rewrite(Comm const& comm, Options const& options) {
  return rewrite_file(comm, options, [](Index, Index, std::string const&) {});
}

/// All stored bytes of a variable, on every rank.
std::vector<std::byte> stored(FieldFile const& file, std::string const& name) {
  auto const& variable = file.variable(name);
  std::vector<std::byte> bytes(std::size_t(Box::from_extents(variable.extents).num_cells() * variable.value_bytes));
  file.read_stored(name, Box::from_extents(variable.extents), bytes);
  return bytes;
}

std::vector<double> numbers(FieldFile const& file, std::string const& name) {
  auto const box = Box::from_extents(file.variable(name).extents);
  std::vector<double> values(std::size_t(box.num_cells()));
  file.read(name, box, std::span(values));
  return values;
}

/// `values`, of `size` elements each, with the axes in another order: what the rewrite has to give.
template <class Value>
std::vector<Value> permuted(std::vector<Value> const& values, Indices const& extents, Indices const& permutation,
                            std::size_t size = 1) {
  std::vector<Value> result;
  result.reserve(values.size());
  Indices target;
  for (Index const axis : permutation) target.push_back(extents[int(axis)]);
  for (Index number = 0; number < Box::from_extents(target).num_cells(); ++number) {
    auto const coords = coords_of(number, target);
    auto from = coords;
    for (int a = 0; a < target.size(); ++a) from[int(permutation[a])] = coords[a];
    auto const at = std::size_t(number_of(from, extents)) * size;
    result.insert(result.end(), values.begin() + std::ptrdiff_t(at), values.begin() + std::ptrdiff_t(at + size));
  }
  return result;
}

/// Attributes as text, in which NaN equals NaN.
std::string described(std::vector<Attribute> const& attributes) {
  std::string text;
  for (auto const& attribute : attributes) {
    text += attribute.name + " " + std::string(to_string(attribute.type)) + " " + attribute.text();
    for (double const number : attribute.numbers()) text += " " + std::to_string(number);
    text += "\n";
  }
  return text;
}

/// Same dimensions, attributes, types and stored values, whatever the storage.
void expect_same_contents(Comm const& comm, std::filesystem::path const& a, std::filesystem::path const& b) {
  FieldFile const left(comm, a);
  FieldFile const right(comm, b);
  EXPECT_EQ(left.contents().dimensions, right.contents().dimensions);
  EXPECT_EQ(described(left.contents().attributes), described(right.contents().attributes));
  ASSERT_EQ(left.contents().variables.size(), right.contents().variables.size());
  for (auto const& variable : left.contents().variables) {
    auto const& other = right.variable(variable.name);
    EXPECT_EQ(to_string(variable), to_string(other));
    EXPECT_EQ(variable.type, other.type) << variable.name;
    EXPECT_EQ(described(variable.attributes), described(other.attributes)) << variable.name;
    EXPECT_TRUE(stored(left, variable.name) == stored(right, variable.name)) << variable.name;
  }
}

constexpr Index num_times = 5;
constexpr Index num_levels = 3;
constexpr Index num_latitudes = 14;
constexpr Index num_longitudes = 9;

/// Different for every cell, with a few missing ones; -0.0 and a NaN of unusual bits among them.
float formula(Index i) {
  if (i % 97 == 13) return -999;
  if (i == 20) return -0.0F;
  if (i == 40) return std::bit_cast<float>(0x7fc12345U);
  return 0.5F * float(i) - 300;
}

/// A file with what archives have: an unlimited dimension, text, a single value, packed and missing values, axes of
/// extent 1 and 0.
void write_archive(Comm const& comm, std::filesystem::path const& path, Indices const& chunk = {}, int deflate = 0) {
  FieldWriter writer(comm, path, {Attribute::of_text("title", "maps")});
  writer.add_dimension("time", num_times, DimensionKind::unlimited);
  writer.add_dimension("level", num_levels);
  writer.add_dimension("latitude", num_latitudes);
  writer.add_dimension("longitude", num_longitudes);
  writer.add_dimension("one", 1);
  writer.add_dimension("none", 0);
  writer.add_dimension("letters", 4);
  writer.add_variable({.name = "latitude",
                       .dimensions = {"latitude"},
                       .type = ValueType::f64,
                       .attributes = {Attribute::of_text("units", "degrees_north")}});
  writer.add_variable({.name = "u",
                       .dimensions = {"time", "level", "latitude", "longitude"},
                       .chunk = chunk,
                       .deflate = deflate,
                       .fill = -999,
                       .attributes = {Attribute::of_text("units", "m s-1")}});
  writer.add_variable({.name = "crs", .type = ValueType::i32});
  writer.add_variable({.name = "names", .dimensions = {"level", "letters"}, .type = ValueType::text});
  writer.add_variable({.name = "flag", .dimensions = {"latitude", "one"}, .type = ValueType::i8});
  writer.add_variable({.name = "void", .dimensions = {"none", "latitude"}, .type = ValueType::f64});
  auto const part = [&](Indices const& extents) {
    return Box::from_extents(comm.rank() == 0 ? extents : Indices::filled(extents.size(), 0));
  };
  auto const write = [&](char const* name, Indices const& extents, auto const& values) {
    auto const bytes = std::as_bytes(std::span(values));
    writer.write_stored(name, part(extents), bytes.first(comm.rank() == 0 ? bytes.size() : 0));
  };
  std::vector<double> latitudes;
  std::vector<std::int8_t> flags;
  for (Index i = 0; i < num_latitudes; ++i) latitudes.push_back(90 - 10 * double(i));
  for (Index i = 0; i < num_latitudes; ++i) flags.push_back(std::int8_t(i - 3));
  std::vector<float> u;
  for (Index i = 0; i < num_times * num_levels * num_latitudes * num_longitudes; ++i) u.push_back(formula(i));
  write("latitude", {num_latitudes}, latitudes);
  write("flag", {num_latitudes, 1}, flags);
  write("names", {num_levels, 4}, std::string("low mid high"));
  write("u", {num_times, num_levels, num_latitudes, num_longitudes}, u);
  std::int32_t const crs = 42;
  writer.write_stored("crs", Box(), std::as_bytes(std::span(&crs, 1)));
  writer.commit();
}

TEST(Rewrite, real_files_come_back_bit_by_bit) {
  if (data.empty()) GTEST_SKIP() << "GRATICULE_TEST_DATA names no folder of sample files";
  auto const comm = Comm::world();
  Folder const folder(comm);
  for (auto const* name : {"eraint_uvz_deflate.nc", "eraint_uvz.nc"}) {
    if (comm.num_ranks() > 1 && std::string(name) == "eraint_uvz.nc") continue;
    auto const series = folder / ("series_" + std::string(name));
    auto const maps = folder / ("maps_" + std::string(name));
    Options options{.input = data / name,
                    .output = series,
                    .order = {"latitude", "longitude", "month", "level"},
                    .chunk = {"latitude=32", "longitude=100", "month=all"},
                    .deflate = "1",
                    .memory = "3MB"};
    auto const result = rewrite(comm, options);
    EXPECT_LE(result.totals.peak_bytes, 3000000);
    {
      FieldFile const before(comm, data / name);
      FieldFile const after(comm, series);
      EXPECT_EQ(after.variable("u").dimensions, options.order);
      EXPECT_EQ(after.variable("u").chunk, (Indices{32, 100, 2, before.variable("u").chunk.size() > 0 ? 1 : 3}));
      EXPECT_TRUE(stored(after, "u") == permuted(stored(before, "u"), before.variable("u").extents, {2, 3, 0, 1}, 2));
    }
    if (comm.num_ranks() > 2) continue;  // the way back is slow where ranks share cores
    options.input = series;
    options.output = maps;
    options.order = {"month", "level", "latitude", "longitude"};
    options.chunk = {"none"};
    options.deflate = "0";
    options.no_shuffle = true;
    static_cast<void>(rewrite(comm, options));
    expect_same_contents(comm, data / name, maps);
  }
}

TEST(Rewrite, every_kind_of_variable_comes_along_in_any_storage_and_budget) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  struct Case {
    Indices chunk;
    int deflate;
    std::vector<std::string> order;
    Indices permutation;
    std::vector<std::string> new_chunk;
    std::string new_deflate;
  };
  std::vector<Case> const cases{
      {{1, 3, 14, 9}, 0, {"latitude", "longitude", "level", "time"}, {2, 3, 1, 0}, {"time=all", "latitude=4"}, "0"},
      {{1, 1, 14, 9}, 3, {"latitude", "longitude", "level", "time"}, {2, 3, 1, 0}, {"latitude=5", "longitude=2"}, "1"},
      {{2, 2, 5, 4}, 1, {"longitude", "time", "latitude", "level"}, {3, 0, 2, 1}, {"same"}, "same"},
      {{2, 2, 5, 4}, 1, {}, {0, 1, 2, 3}, {"latitude=3", "time=3"}, "0"}};
  int number = 0;
  for (auto const& one : cases) {
    SCOPED_TRACE("case " + std::to_string(number));
    auto const in = folder / ("in" + std::to_string(number) + ".nc");
    auto const there = folder / ("there" + std::to_string(number) + ".nc");
    auto const back = folder / ("back" + std::to_string(number++) + ".nc");
    write_archive(comm, in, one.chunk, one.deflate);
    Options options{.input = in,
                    .output = there,
                    .variables = {"u"},
                    .order = one.order,
                    .chunk = one.new_chunk,
                    .deflate = one.new_deflate,
                    .memory = "1"};
    auto const refusal = test::thrown_by([&] { static_cast<void>(rewrite(comm, options)); });
    ASSERT_EQ(refusal.rule, "BudgetTooSmall");
    EXPECT_FALSE(std::filesystem::exists(there));
    Index const least = std::stoll(refusal.text.substr(refusal.text.find("at least ") + 9));
    ASSERT_GT(least, 1);

    // HDF5's collective calls are slow where ranks share cores.
    bool const is_short = comm.num_ranks() > 1;
    if (is_short && number != comm.num_ranks()) continue;
    for (Index const budget :
         is_short ? std::vector<Index>{least} : std::vector<Index>{least, 3 * least, Index(1) << 30}) {
      options.memory = std::to_string(budget);
      auto const result = rewrite(comm, options);
      EXPECT_LE(result.totals.peak_bytes, budget);
      EXPECT_GT(result.totals.peak_bytes, 0);
      FieldFile const before(comm, in);
      FieldFile const after(comm, there);
      EXPECT_TRUE(stored(after, "u") ==
                  permuted(stored(before, "u"), before.variable("u").extents, one.permutation, 4));
      EXPECT_TRUE(after.contents().dimensions.front().is_unlimited);
    }
    Options const reverse{.input = there,
                          .output = back,
                          .variables = {"u"},
                          .order = {"time", "level", "latitude", "longitude"},
                          .memory = "100kB"};
    static_cast<void>(rewrite(comm, reverse));
    expect_same_contents(comm, in, back);
  }
}

TEST(Rewrite, attributes_of_the_file_are_those_of_the_input) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const in = folder.make("in.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf plain { dimensions: x = 2; y = 2; variables: int v(y, x); :title = "no conventions";
      data: v = 1, 2, 3, 4; })");
  });

  static_cast<void>(rewrite(comm, {.input = in, .output = folder / "out.nc"}));

  expect_same_contents(comm, in, folder / "out.nc");
}

TEST(Rewrite, records_without_a_coordinate_come_along) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const in = folder.make("in.nc", [](auto const& p) {
    test::write_cdl(
        p, R"(netcdf bare { dimensions: time = UNLIMITED; x = 2; variables: int v(time, x); :Conventions = "CF-1.8";
      data: v = 1, 2, 3, 4, 5, 6; })");
  });

  static_cast<void>(rewrite(comm, {.input = in, .output = folder / "out.nc", .order = {"x", "time"}}));
  static_cast<void>(rewrite(comm, {.input = folder / "out.nc", .output = folder / "back.nc", .order = {"time", "x"}}));

  EXPECT_EQ(numbers(FieldFile(comm, folder / "out.nc"), "v"), (std::vector<double>{1, 3, 5, 2, 4, 6}));
  expect_same_contents(comm, in, folder / "back.nc");
}

TEST(Rewrite, fields_in_one_piece_fix_unlimited_dimensions) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc", {1, 1, 14, 9}, 1);

  auto const result = rewrite(comm, {.input = folder / "in.nc",
                                     .output = folder / "out.nc",
                                     .order = {"level", "time", "latitude", "longitude"},
                                     .chunk = {"none"},
                                     .deflate = "0",
                                     .no_shuffle = true});

  EXPECT_EQ(result.fixed, (std::vector<std::string>{"time"}));
  FieldFile const before(comm, folder / "in.nc");
  FieldFile const after(comm, folder / "out.nc");
  EXPECT_EQ(after.variable("u").chunk.size(), 0);
  for (auto const& dimension : after.contents().dimensions) EXPECT_FALSE(dimension.is_unlimited) << dimension.name;
  EXPECT_TRUE(stored(after, "u") == permuted(stored(before, "u"), before.variable("u").extents, {1, 0, 2, 3}, 4));
}

TEST(Rewrite, the_input_is_not_replaced_by_any_name_unless_told) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc");
  if (comm.rank() == 0) {
    std::filesystem::create_symlink("in.nc", folder / "soft.nc");
    std::filesystem::create_hard_link(folder / "in.nc", folder / "hard.nc");
    std::filesystem::create_directory(folder / "below");
  }
  comm.barrier();
  auto const older = test::read_bytes(folder / "in.nc");
  comm.barrier();

  for (auto const* name : {"in.nc", "soft.nc", "hard.nc", "below/../in.nc"}) {
    Options const options{.input = folder / "in.nc", .output = folder / name, .exclude = {"u"}};
    auto const thrown = test::thrown_by([&] { static_cast<void>(rewrite(comm, options)); });
    EXPECT_EQ(thrown.rule, "BadOption") << name;
    EXPECT_EQ(thrown.fault, Fault::usage);
    EXPECT_NE(thrown.text.find("--in-place"), std::string::npos) << thrown.text;
  }
  EXPECT_TRUE(test::read_bytes(folder / "in.nc") == older);
  comm.barrier();
  static_cast<void>(
      rewrite(comm, {.input = folder / "in.nc", .output = folder / "soft.nc", .exclude = {"u"}, .in_place = true}));
  EXPECT_EQ(FieldFile(comm, folder / "in.nc").contents().find("u"), nullptr);
}

/// The data section of ncdump, without the attributes.
std::string dumped_data(Folder const& folder, std::filesystem::path const& file) {
  auto const all = test::ncdump(folder, file);
  return all.substr(all.find("data:"));
}

TEST(Rewrite, variables_that_end_before_others_come_along_as_netcdf_shows_them) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen") || !test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  auto const in = folder.make("in.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf short { dimensions: time = UNLIMITED; x = 2; y = UNLIMITED; variables: int time(time);
      short a(time, x); a:_FillValue = -1s; float b(time, x); uint64 c(x, time); double d(time, y); char text(time, x);
      byte whole(time, x); double single(time);
      data: time = 1, 2, 3; a = 1, 2; b = 3, 4, 5, 6; c = {5}, {6}; d = {1, 2}, {3, 4}; text = "ab";
      whole = 1, 2, 3, 4, 5, 6, 7, 8; single = 9; })");
    test::shorten(p, "time", {3});
    test::shorten(p, "a", {1, 2});
    test::shorten(p, "b", {2, 2});
    test::shorten(p, "c", {2, 1});
    test::shorten(p, "d", {2, 1});
    test::shorten(p, "text", {1, 2});
    test::shorten(p, "single", {0});
  });

  static_cast<void>(
      rewrite(comm, {.input = in, .output = folder / "out.nc", .order = {"y", "x", "time"}, .memory = "20kB"}));
  static_cast<void>(
      rewrite(comm, {.input = folder / "out.nc", .output = folder / "back.nc", .order = {"time", "y", "x"}}));
  static_cast<void>(rewrite(comm, {.input = in, .output = folder / "f64.nc", .dtype = "f64"}));

  // c comes back with its axes in another order.
  static_cast<void>(rewrite(
      comm, {.input = folder / "back.nc", .output = folder / "same.nc", .variables = {"c"}, .order = {"x", "time"}}));
  EXPECT_EQ(dumped_data(folder, folder / "same.nc"), dumped_data(folder, in));
  FieldFile const before(comm, in);
  FieldFile const f64(comm, folder / "f64.nc");
  FieldFile const back(comm, folder / "back.nc");
  for (auto const* name : {"a", "b", "d"}) {
    auto const expected = numbers(before, name);
    auto const values = numbers(f64, name);
    auto const others = numbers(back, name);
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))) << name << i;
      EXPECT_TRUE(others[i] == expected[i] || (std::isnan(others[i]) && std::isnan(expected[i]))) << name << i;
    }
  }
  EXPECT_GT(std::ranges::count_if(numbers(before, "b"), [](double x) { return std::isnan(x); }), 3);
}

TEST(Rewrite, few_ranks_write_when_asked) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc", {1, 1, 14, 9}, 1);
  Options const options{.input = folder / "in.nc",
                        .output = folder / "out.nc",
                        .variables = {"u"},
                        .order = {"latitude", "longitude", "time", "level"},
                        .chunk = {"latitude=4"},
                        .writers_per_node = 1};

  auto const result = rewrite(comm, options);

  FieldFile const before(comm, folder / "in.nc");
  FieldFile const after(comm, folder / "out.nc");
  EXPECT_TRUE(stored(after, "u") == permuted(stored(before, "u"), before.variable("u").extents, {2, 3, 0, 1}, 4));
  EXPECT_EQ(result.totals.written_bytes > 100, comm.node_rank() == 0);
}

TEST(Rewrite, numbers_become_f64_f32_and_packed_integers) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const in = folder / "in.nc";
  write_archive(comm, in, {1, 1, 14, 9}, 1);
  FieldFile const before(comm, in);
  auto const expected = numbers(before, "u");
  ASSERT_GT(std::count_if(expected.begin(), expected.end(), [](double x) { return std::isnan(x); }), 10);
  for (std::string const type : {"f64", "f32", "i16-packed"}) {
    SCOPED_TRACE(type);
    auto const out = folder / (type + ".nc");
    auto const result =
        rewrite(comm, {.input = in, .output = out, .variables = {"u"}, .dtype = type, .memory = "40kB"});
    EXPECT_LE(result.totals.peak_bytes, 40000);
    FieldFile const after(comm, out);
    auto const& variable = after.variable("u");
    EXPECT_EQ(variable.type, type == "f64" ? ValueType::f64 : type == "f32" ? ValueType::f32 : ValueType::i16);
    EXPECT_EQ(variable.text("units"), "m s-1");
    EXPECT_EQ(variable.attribute("_FillValue")->numbers().front(), type == "i16-packed" ? -32768 : -999);
    bool const packs = type == "i16-packed";
    double const scale = packs ? variable.attribute("scale_factor")->numbers().front() : 0;
    double least = 1e9;
    double greatest = -1e9;
    for (double const value : expected) {
      least = value < least ? value : least;
      greatest = value > greatest ? value : greatest;
    }
    if (packs) {
      EXPECT_DOUBLE_EQ(scale, (greatest - least) / 65534);
    }
    auto const values = numbers(after, "u");
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << i;
      if (std::isnan(expected[i])) continue;
      EXPECT_LE(std::abs(values[i] - expected[i]), scale / 2 * (1 + 1e-9)) << i;
    }
  }
}

TEST(Rewrite, flags_keep_their_type_and_limits_of_stored_values_are_left_out) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const in = folder.make("in.nc", [](auto const& p) {
    test::write_cdl(
        p, R"(netcdf flags { dimensions: a = 2; b = 2; variables: byte mask(a, b); short bits(a, b); float t(a, b);
      mask:flag_values = 0b, 1b, 2b; bits:flag_masks = 1s, 2s; t:valid_range = -80.f, 60.f; t:missing_value = -999.f;
      data: mask = 0, 1, 2, 1; bits = 1, 2, 3, 0; t = 1, 2, -999, 4; })");
  });
  FieldFile const before(comm, in);
  for (std::string const type : {"f64", "i16-packed"}) {
    SCOPED_TRACE(type);
    auto const out = folder / (type + ".nc");
    auto const result = rewrite(comm, {.input = in, .output = out, .order = {"b", "a"}, .dtype = type});

    bool const packs = type == "i16-packed";
    FieldFile const after(comm, out);
    for (auto const* name : {"mask", "bits"}) {
      EXPECT_EQ(after.variable(name).type, before.variable(name).type) << name;
      EXPECT_EQ(described(after.variable(name).attributes), described(before.variable(name).attributes)) << name;
      EXPECT_EQ(numbers(after, name), permuted(numbers(before, name), {2, 2}, {1, 0})) << name;
    }
    EXPECT_EQ(result.flags, (std::vector<std::string>{"mask", "bits"}));
    auto const& t = after.variable("t");
    ASSERT_TRUE(t.attribute("missing_value") && t.attribute("_FillValue"));
    EXPECT_EQ(t.attribute("missing_value")->type, t.type);
    EXPECT_EQ(t.attribute("missing_value")->numbers(), t.attribute("_FillValue")->numbers());
    EXPECT_TRUE(std::isnan(numbers(after, "t")[1]));
    EXPECT_EQ(t.attribute("valid_range") == nullptr, packs);
    EXPECT_EQ(result.no_limits, packs ? std::vector<std::string>{"valid_range of t"} : std::vector<std::string>{});
  }
  auto const same = rewrite(comm, {.input = in, .output = folder / "same.nc"});
  EXPECT_EQ(same.flags, std::vector<std::string>{});
  EXPECT_EQ(same.no_limits, std::vector<std::string>{});
}

TEST(Rewrite, packed_files_unpack_to_what_they_mean) {
  if (data.empty()) GTEST_SKIP() << "GRATICULE_TEST_DATA names no folder of sample files";
  auto const comm = Comm::world();
  Folder const folder(comm);
  static_cast<void>(rewrite(comm, {.input = data / "eraint_uvz.nc", .output = folder / "f64.nc", .dtype = "f64"}));
  static_cast<void>(rewrite(comm, {.input = folder / "f64.nc", .output = folder / "packed.nc", .dtype = "i16-packed"}));

  FieldFile const before(comm, data / "eraint_uvz.nc");
  FieldFile const f64(comm, folder / "f64.nc");
  FieldFile const packed(comm, folder / "packed.nc");
  EXPECT_EQ(f64.variable("z").attribute("scale_factor"), nullptr);
  for (auto const* name : {"u", "v", "z"}) {
    auto const expected = numbers(before, name);
    EXPECT_EQ(numbers(f64, name), expected);
    double const scale = packed.variable(name).attribute("scale_factor")->numbers().front();
    auto const values = numbers(packed, name);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_LE(std::abs(values[i] - expected[i]), scale / 2 * (1 + 1e-9)) << name << i;
  }
}

TEST(Rewrite, constant_and_missing_fields_can_be_packed_infinite_ones_not) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  double const inf = std::numeric_limits<double>::infinity();
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const make = [&](std::string const& name, std::vector<double> const& values) {
    FieldWriter writer(comm, folder / name);
    writer.add_dimension("a", 2);
    writer.add_dimension("b", 2);
    writer.add_variable({.name = "x", .dimensions = {"a", "b"}, .type = ValueType::f64});
    bool const writes = comm.rank() == 0;
    writer.write("x", Box::from_extents(writes ? Indices{2, 2} : Indices{0, 0}),
                 std::span<double const>(values).first(writes ? 4 : 0));
    writer.commit();
  };
  auto const pack = [&](std::string const& name) {
    static_cast<void>(
        rewrite(comm, {.input = folder / name, .output = folder / ("packed_" + name), .dtype = "i16-packed"}));
    return numbers(FieldFile(comm, folder / ("packed_" + name)), "x");
  };
  make("constant.nc", {7, 7, nan, 7});
  make("missing.nc", {nan, nan, nan, nan});
  make("infinite.nc", {1, 2, inf, 3});
  make("huge.nc", {-1.7e308, 1.7e308, 0, nan});

  auto const constant = pack("constant.nc");
  EXPECT_EQ(constant[0], 7);
  EXPECT_TRUE(std::isnan(constant[2]));
  EXPECT_TRUE(std::isnan(pack("missing.nc")[3]));
  EXPECT_NEAR(pack("huge.nc")[1] / 1.7e308, 1, 1e-4);
  auto const refusal = test::thrown_by([&] { pack("infinite.nc"); });
  EXPECT_EQ(refusal.rule, "Conversion");
  EXPECT_EQ(refusal.fault, Fault::input);
}

TEST(Rewrite, files_without_dimensions_get_netcdfs_names_for_them) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<float> values(12);
  for (std::size_t i = 0; i < 12; ++i) values[i] = float(i);
  auto const in = folder.make("plain.h5", [&](auto const& path) {
    test::NewFile const file(path);
    test::write_dataset(file, {"x", H5T_IEEE_F32BE, {3, 4}}, H5T_NATIVE_FLOAT, values.data());
  });

  static_cast<void>(rewrite(comm, {.input = in, .output = folder / "out.nc", .order = {"phony_dim_1", "phony_dim_0"}}));

  FieldFile const after(comm, folder / "out.nc");
  EXPECT_EQ(after.variable("x").dimensions, (std::vector<std::string>{"phony_dim_1", "phony_dim_0"}));
  EXPECT_EQ(numbers(after, "x"), (std::vector<double>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
}

TEST(Rewrite, wrong_wishes_are_named) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc", {1, 1, 14, 9}, 1);
  Options const good{.input = folder / "in.nc", .output = folder / "out.nc", .variables = {"u"}};
  auto const rule = [&](auto const& change) {
    auto options = good;
    change(options);
    auto const thrown = test::thrown_by([&] { static_cast<void>(rewrite(comm, options)); });
    EXPECT_EQ(thrown.fault, Fault::usage) << thrown.text;
    EXPECT_FALSE(std::filesystem::exists(folder / "out.nc"));
    return test::Rule{thrown.rule, thrown.text};
  };
  EXPECT_EQ(rule([](Options& o) { o.variables = {"w"}; }), "UnknownName");
  EXPECT_EQ(rule([](Options& o) { o.variables = {"latitude"}; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.variables = {"u", "u"}; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.exclude = {"u"}; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.exclude = {"w"}; }), "UnknownName");
  EXPECT_EQ(rule([](Options& o) { o.order = {"latitude", "longitude"}; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.order = {"time", "level", "lat", "longitude"}; }), "UnknownName");
  EXPECT_EQ(rule([](Options& o) { o.chunk = {"lat=3"}; }), "UnknownName");
  EXPECT_EQ(rule([](Options& o) { o.chunk = {"none"}; }), (test::ErrorWith{"BadOption", "needs chunks"}));
  EXPECT_EQ(rule([](Options& o) { o.dtype = "f16"; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.deflate = "11"; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.memory = "much"; }), "BadOption");
  EXPECT_EQ(rule([](Options& o) { o.shuffle = o.no_shuffle = true; }), "BadOption");
}

TEST(Rewrite, chunks_of_short_rows_are_written_one_by_one) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Indices const extents{33, 70, 40};
  std::vector<std::int32_t> values(std::size_t(33 * 70 * 40));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::int32_t(i);
  {
    FieldWriter writer(comm, folder / "in.nc");
    for (int a = 0; a < 3; ++a) writer.add_dimension(std::string(1, char('a' + a)), extents[a]);
    writer.add_variable({.name = "x", .dimensions = {"a", "b", "c"}, .type = ValueType::i32});
    bool const writes = comm.rank() == 0;
    writer.write_stored("x", Box::from_extents(writes ? extents : Indices::filled(3, 0)),
                        std::as_bytes(std::span(values)).first(writes ? values.size() * 4 : 0));
    writer.commit();
  }
  ASSERT_TRUE(gathers_chunks({.chunk = {64, 16, 32}}, {70, 40, 33}));

  auto const result = rewrite(comm, {.input = folder / "in.nc",
                                     .output = folder / "out.nc",
                                     .order = {"b", "c", "a"},
                                     .chunk = {"a=32", "b=64", "c=16"},
                                     .memory = "700kB"});

  EXPECT_LE(result.totals.peak_bytes, 700000);
  FieldFile const after(comm, folder / "out.nc");
  EXPECT_EQ(after.variable("x").chunk, (Indices{64, 16, 32}));
  auto const* bytes = reinterpret_cast<std::byte const*>(values.data());
  std::vector<std::byte> const before(bytes, bytes + values.size() * 4);
  EXPECT_TRUE(stored(after, "x") == permuted(before, extents, {1, 2, 0}, 4));
}

TEST(Rewrite, fields_with_other_dimensions_than_those_of_the_order_stay_as_they_are) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc");

  static_cast<void>(
      rewrite(comm, {.input = folder / "in.nc", .output = folder / "out.nc", .order = {"one", "latitude"}}));

  FieldFile const before(comm, folder / "in.nc");
  FieldFile const after(comm, folder / "out.nc");
  EXPECT_EQ(after.variable("flag").dimensions, (std::vector<std::string>{"one", "latitude"}));
  EXPECT_EQ(after.variable("u").dimensions, before.variable("u").dimensions);
  EXPECT_EQ(after.variable("void").dimensions, before.variable("void").dimensions);
}

TEST(Rewrite, axes_of_one_dimension_stay_in_their_order) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const in = folder.make("in.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf cov { dimensions: x = 2; t = 3; variables: int cov(x, x); int mixed(x, t, x);
      int pair(x, x, t); int v(t, x); data: cov = 1, 2, 3, 4; mixed = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12;
      pair = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12; v = 1, 2, 3, 4, 5, 6; })");
  });
  Options options{.input = in, .output = folder / "out.nc", .order = {"x", "t"}};

  auto const result = rewrite(comm, options);

  EXPECT_EQ(result.ambiguous, (std::vector<std::string>{"mixed(x=2, t=3, x=2)"}));
  FieldFile const after(comm, folder / "out.nc");
  EXPECT_EQ(numbers(after, "v"), (std::vector<double>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(numbers(after, "cov"), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(after.variable("mixed").dimensions, (std::vector<std::string>{"x", "t", "x"}));
  EXPECT_EQ(numbers(after, "mixed"), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(numbers(after, "pair"), numbers(after, "mixed"));
  auto const refused = [&] { return test::thrown_by([&] { static_cast<void>(rewrite(comm, options)); }).text; };
  options.output = folder / "none.nc";
  options.variables = {"mixed"};
  EXPECT_NE(refused().find("cannot tell the axes of mixed(x=2, t=3, x=2) apart"), std::string::npos) << refused();
  options.variables = {};
  options.order = {"t", "x"};
  options.exclude = {"v", "cov"};
  EXPECT_NE(refused().find("pair(x=2, x=2, t=3)"), std::string::npos) << refused();
}

TEST(Rewrite, what_is_excluded_stays_behind) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc");

  static_cast<void>(
      rewrite(comm, {.input = folder / "in.nc", .output = folder / "out.nc", .exclude = {"names", "crs"}}));

  FieldFile const after(comm, folder / "out.nc");
  EXPECT_EQ(after.contents().find("names"), nullptr);
  EXPECT_EQ(after.contents().find("crs"), nullptr);
  EXPECT_NE(after.contents().find("flag"), nullptr);
}

TEST(Rewrite, an_error_in_the_middle_leaves_an_older_output_alone) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_archive(comm, folder / "in.nc");
  folder.make("out.nc", [](auto const& path) { test::write_bytes(path, "older"); });

  auto const rule = test::rule_of([&] {
    static_cast<void>(rewrite_file(comm, {.input = folder / "in.nc", .output = folder / "out.nc", .memory = "70kB"},
                                   [](Index done, Index, std::string const&) {
                                     if (done == 3) throw Error("Interrupted", "here");
                                   }));
  });

  EXPECT_EQ(rule, "Interrupted");
  comm.barrier();
  EXPECT_EQ(test::read_bytes(folder / "out.nc"), "older");
  Index num_files = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(folder / "")) ++num_files;
  EXPECT_EQ(num_files, 2);
}

constexpr Index num_maps = 80;

/// 9 MB of maps, each in two compressed chunks: more than the chunks that are kept for the next call.
void write_compressed_maps(Comm const& comm, std::filesystem::path const& path) {
  FieldWriter writer(comm, path);
  writer.add_dimension("time", num_maps / 2);
  writer.add_dimension("level", 2);
  writer.add_dimension("latitude", 121);
  writer.add_dimension("longitude", 240);
  writer.add_variable({.name = "u",
                       .dimensions = {"time", "level", "latitude", "longitude"},
                       .chunk = {1, 1, 61, 240},
                       .deflate = 1,
                       .fill = -999});
  std::vector<float> map(121 * 240);
  for (Index number = 0; number < num_maps; ++number) {
    for (std::size_t i = 0; i < map.size(); ++i) map[i] = i % 1009 == 5 ? NAN : float(number) + 0.25F * float(i % 401);
    Index const rows = comm.rank() == 0 ? 121 : 0;
    Box const box({number / 2, number % 2, 0, 0}, {number / 2 + 1, number % 2 + 1, rows, 240});
    writer.write("u", box, std::span<float const>(map).first(std::size_t(rows * 240)));
  }
  writer.commit();
}

Index sum(Comm const& comm, Index value) {
  std::array<Index, 1> all{value};
  comm.sum(std::span<Index>(all));
  return all[0];
}

TEST(Rewrite, little_memory_inflates_each_chunk_once_by_a_scratch_file) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_compressed_maps(comm, folder / "in.nc");
  Options options{.input = folder / "in.nc",
                  .output = folder / "large.nc",
                  .order = {"latitude", "longitude", "level", "time"},
                  .chunk = {"time=all", "level=all", "latitude=8", "longitude=24"},
                  .deflate = "1"};
  auto const large = rewrite(comm, options);
  EXPECT_EQ(large.scratch_bytes, 0);
  EXPECT_EQ(sum(comm, large.num_chunks), 2 * num_maps);

  options.memory = "1MB";
  for (auto const* type : {"same", "f64", "i16-packed"}) {
    SCOPED_TRACE(type);
    options.dtype = type;
    options.output = folder / "large.nc";
    options.memory = "1GB";
    static_cast<void>(rewrite(comm, options));
    options.output = folder / "small.nc";
    options.memory = "1MB";
    bool is_alone = true;
    auto const small = rewrite_file(comm, options, [&](Index done, Index all, std::string const&) {
      // No name is left of the scratch file, so that no end leaves it.
      auto const names = names_in(folder / "");
      is_alone = is_alone && (done == all || std::count_if(names.begin(), names.end(), [](auto const& name) {
                                               return name.ends_with(".part");
                                             }) <= 1);
    });

    EXPECT_TRUE(is_alone);
    EXPECT_LE(small.totals.peak_bytes, 1000000);
    EXPECT_GT(small.scratch_bytes, 0);
    EXPECT_EQ(small.no_scratch, "");
    EXPECT_EQ(small.variables.back().passes.read_factor(), 1);
    // Packing has looked for the range before.
    EXPECT_EQ(sum(comm, small.num_chunks), (std::string(type) == "i16-packed" ? 4 : 2) * num_maps);
    expect_same_contents(comm, folder / "large.nc", folder / "small.nc");
  }
  EXPECT_EQ(names_in(folder / ""), (std::vector<std::string>{"in.nc", "large.nc", "small.nc"}));
}

TEST(Rewrite, few_writers_and_a_kept_order_go_by_a_scratch_file_as_well) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_compressed_maps(comm, folder / "in.nc");
  Options options{.input = folder / "in.nc",
                  .output = folder / "out.nc",
                  .chunk = {"time=all", "latitude=11", "longitude=11"},
                  .deflate = "0",
                  .no_shuffle = true,
                  .memory = "1MB",
                  .writers_per_node = 1};

  auto const result = rewrite(comm, options);

  EXPECT_GT(result.scratch_bytes, 0);
  EXPECT_EQ(result.totals.written_bytes > 0, comm.rank() == 0);
  EXPECT_EQ(sum(comm, result.num_chunks), 2 * num_maps);
  EXPECT_TRUE(stored(FieldFile(comm, folder / "in.nc"), "u") == stored(FieldFile(comm, folder / "out.nc"), "u"));
}

TEST(Rewrite, without_room_for_a_scratch_file_chunks_are_read_again) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_compressed_maps(comm, folder / "in.nc");
  Options const options{.input = folder / "in.nc",
                        .output = folder / "out.nc",
                        .order = {"latitude", "longitude", "level", "time"},
                        .chunk = {"time=all", "level=all", "latitude=8", "longitude=24"},
                        .deflate = "1",
                        .memory = "1MB"};

  Index last_done = 0;
  Index last_all = -1;
  auto const result = [&] {
    test::FileSizeLimit const limit(9'000'000);  // less than all cells, more than the output
    return rewrite_file(comm, options, [&](Index done, Index all, std::string const&) {
      last_done = done;
      last_all = all;
    });
  }();

  EXPECT_EQ(result.no_scratch, "File too large");
  EXPECT_EQ(result.scratch_bytes, 0);
  EXPECT_EQ(last_done, last_all);
  EXPECT_GT(sum(comm, result.num_chunks), 2 * num_maps);
  EXPECT_GT(result.variables.back().passes.read_factor(), 1);
  EXPECT_TRUE(stored(FieldFile(comm, folder / "out.nc"), "u") ==
              permuted(stored(FieldFile(comm, folder / "in.nc"), "u"), {num_maps / 2, 2, 121, 240}, {2, 3, 1, 0}, 4));
}

TEST(Rewrite, a_scratch_file_that_finds_no_room_after_all_is_an_error_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_compressed_maps(comm, folder / "in.nc");
  folder.make("out.nc", [](auto const& path) { test::write_bytes(path, "older"); });
  Options const options{.input = folder / "in.nc",
                        .output = folder / "out.nc",
                        .order = {"latitude", "longitude", "level", "time"},
                        .chunk = {"time=all", "level=all", "latitude=8", "longitude=24"},
                        .deflate = "1",
                        .memory = "1MB"};

  Index calls = 0;
  auto const thrown = test::thrown_by([&] {
    static_cast<void>(rewrite_file(comm, options, [&](Index, Index, std::string const&) {
      if (++calls == 3 && comm.rank() == comm.num_ranks() - 1) test::fill_open_files(".part (deleted)");
    }));
  });
  comm.barrier();

  EXPECT_EQ(thrown.rule, "OutputError");
  EXPECT_NE(thrown.text.find("out.nc cannot be written: No space left on device (scratch file in its folder)"),
            std::string::npos)
      << thrown.text;
  EXPECT_EQ(test::read_bytes(folder / "out.nc"), "older");
  EXPECT_EQ(names_in(folder / ""), (std::vector<std::string>{"in.nc", "out.nc"}));
}

/// The most memory that this process has used so far, in bytes, since the last call of `forget_peak`.
Index peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}
bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good();
}

TEST(Rewrite, the_process_grows_by_the_budget_and_little_more) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Indices const extents{32, 512, 1024};
  {
    FieldWriter writer(comm, folder / "in.nc");
    for (int a = 0; a < 3; ++a) writer.add_dimension(std::string(1, char('a' + a)), extents[a]);
    writer.add_variable({.name = "x", .dimensions = {"a", "b", "c"}});
    std::vector<float> const map(512 * 1024, 1.5F);
    for (Index i = 0; i < 32; ++i) {
      bool const writes = comm.rank() == 0;
      writer.write("x", Box({i, 0, 0}, {i + 1, writes ? 512 : 0, 1024}),
                   std::span<float const>(map).first(writes ? map.size() : 0));
    }
    writer.commit();
  }
  if (!forget_peak()) GTEST_SKIP() << "this system cannot reset the peak of a process";
  Index const before = peak_memory();

  Options options{.input = folder / "in.nc", .output = folder / "out.nc", .order = {"c", "b", "a"}, .memory = "8MiB"};
  auto const result = rewrite(comm, options);

  EXPECT_LE(result.totals.peak_bytes, 8 << 20);
  // Buffers of MPI-IO and HDF5 come on top; the variable has 64 MiB.
  EXPECT_LE(peak_memory() - before, (8 << 20) + (24 << 20));
}

}  // namespace
}  // namespace graticule::archive
