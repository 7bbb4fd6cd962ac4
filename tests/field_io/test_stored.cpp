// SPDX-License-Identifier: BSD-3-Clause
// Values as they are stored: copies of whole files, bit for bit.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace graticule {
namespace {

using test::Folder;
using test::rule_of;

/// This rank's share of a variable: rows of its longest axis.
Box share_of(Comm const& comm, Indices const& extents) {
  Box box = Box::from_extents(extents);
  if (extents.size() == 0) return box;
  int axis = 0;
  for (int other = 1; other < extents.size(); ++other)
    if (extents[other] > extents[axis]) axis = other;
  auto const cuts = balanced_cuts(extents[axis], comm.num_ranks());
  box.set(axis, cuts.lo(comm.rank()), cuts.hi(comm.rank()));
  return box;
}

/// Copies every variable that can be copied, in pieces of `piece_bytes`.
void copy_file(Comm const& comm, std::filesystem::path const& from, std::filesystem::path const& to,
               Index piece_bytes) {
  FieldFile const in(comm, from, {.piece_bytes = piece_bytes});
  FieldWriter out(comm, to, in.contents().attributes, {.piece_bytes = piece_bytes});
  auto const& contents = in.contents();
  for (auto const& dimension : contents.dimensions)
    out.add_dimension(dimension.name, dimension.extent,
                      dimension.is_unlimited ? DimensionKind::unlimited : DimensionKind::fixed);
  for (auto const& variable : contents.variables) out.add_variable(VariableSpec::of(variable));
  for (auto const& variable : contents.variables) {
    auto const box = share_of(comm, variable.extents);
    std::vector<std::byte> bytes(std::size_t(box.num_cells() * variable.value_bytes));
    in.read_stored(variable.name, box, bytes);
    out.write_stored(variable.name, box, bytes);
  }
  out.commit();
}

std::string dumped(Folder const& folder, std::filesystem::path const& file, std::string const& options) {
  return test::ncdump(folder, file, "-n name -p 9,17 " + options);
}

char const* const everything = R"(netcdf all {
  dimensions: time = UNLIMITED; level = 2; station = 3; length = 4; bare = 2; lat = 5; lon = 6;
  variables:
    int64 time(time); time:units = "hours since 1900-01-01"; time:calendar = "gregorian"; time:_ChunkSizes = 7;
    char station(station, length); station:long_name = "Stationsname \u00e4\u00f6";
    float lat(lat); lat:units = "degrees_north"; double lon(lon); lon:units = "degrees_east";
    short z(time, level, lat, lon); z:scale_factor = 0.1; z:add_offset = 7.25; z:_FillValue = -32767s;
      z:missing_value = -32767s; z:_ChunkSizes = 1, 2, 3, 4; z:_DeflateLevel = 3; z:_Shuffle = "true";
    float t(time, lat, lon); t:_FillValue = 1.e+20f; t:valid_range = -80.f, 60.f; t:_ChunkSizes = 2, 5, 6;
    int64 big(lat); big:_FillValue = 9223372036854775806LL;
    uint64 huge(lat); huge:_FillValue = 18446744073709551614ULL; uint64 plain(lat); ubyte ub(lat); byte b(lat);
    ushort us(lat); uint ui(lat); double d(bare, lat); d:_ChunkSizes = 2, 3; d:_DeflateLevel = 1; d:_Shuffle = "false";
    char letters(lat); letters:_FillValue = "x"; char word; int crs; short bare(lat); crs:grid_mapping_name = "latitude_longitude";
      crs:semi_major_axis = 6371229.; crs:empty = ""; short twice(time, lat);
  :Conventions = "CF-1.7"; :history = "first\nsecond"; :numbers = 1b, 2b, 3b;
  data: time = 3, 4, 9007199254740993; station = "ab", "cdef", "g"; lat = 90, 45, 0, -45, -90; lon = 0, 60, 120, 180, 240, 300;
    z = Z; t = 1.5, 2.5, NaN, -0.f, 1.e+20f, T;
    big = 9007199254740993, _, -9223372036854775807, 0, 1; huge = 18446744073709551615, _, 0, 1, 9007199254740993;
    plain = 18446744073709551615, 1, 2, 3, 4; ub = 255, 0, 1, 2, 3; b = -128, 127, 0, 1, 2; us = 65535, 0, 1, 2, 3;
    ui = 4294967295, 0, 1, 2, 3; d = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10; letters = "abxde"; word = "w"; crs = -5;
    twice = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15; })";

/// With three records of z and t: ncgen fills up no axes but the first.
std::string everything_filled() {
  std::string text = everything;
  std::string z = "-32767, -32768, 32767";
  for (int i = 3; i < 3 * 2 * 5 * 6; ++i) z += ", " + std::to_string(i * 181 % 65535 - 32767);
  std::string t = "7.f";
  for (int i = 6; i < 3 * 5 * 6; ++i) t += ", " + std::to_string(i) + ".125f";
  text.replace(text.find("z = Z") + 4, 1, z);
  return text.replace(text.find(", T;") + 2, 1, t);
}

TEST(StoredValues, make_a_copy_that_ncdump_prints_as_the_original) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen") || !test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  auto const from = folder.make("from.nc", [](auto const& p) { test::write_cdl(p, everything_filled()); });

  for (Index const piece_bytes : {64, 1 << 20}) {
    auto const to = folder / ("to" + std::to_string(piece_bytes) + ".nc");
    copy_file(comm, from, to, piece_bytes);

    auto const expected = dumped(folder, from, "");
    EXPECT_GT(expected.size(), 3000U);
    EXPECT_EQ(dumped(folder, to, ""), expected);
    // Chunks, deflate and shuffle are special attributes; what is left out differs between versions of netCDF.
    auto const special = dumped(folder, to, "-hs");
    for (auto const* line :
         {"z:_ChunkSizes = 1, 2, 3, 4 ;", "z:_DeflateLevel = 3 ;", "z:_Shuffle = \"true\" ;", "d:_DeflateLevel = 1 ;",
          "t:_ChunkSizes = 2, 5, 6 ;", "time:_ChunkSizes = 7 ;", "time = UNLIMITED ; // (3 currently)"})
      EXPECT_NE(special.find(line), std::string::npos) << line << "\n" << special;
    EXPECT_EQ(special.find("d:_Shuffle = \"true\""), std::string::npos) << special;
  }
}

TEST(StoredValues, copy_the_real_fields) {
  auto const comm = Comm::world();
  std::filesystem::path const data(GRATICULE_TEST_DATA);
  if (data.empty()) GTEST_SKIP() << "GRATICULE_TEST_DATA names no folder of sample files";
  if (!test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  for (std::string const name : {"eraint_uvz_deflate.nc", "eraint_uvz.nc"}) {
    copy_file(comm, data / name, folder / name, 100000);

    auto const copied = dumped(folder, folder / name, "");
    EXPECT_TRUE(copied == dumped(folder, data / name, "")) << name << copied.substr(0, 2000);
  }
}

TEST(StoredValues, come_in_the_byte_order_of_the_machine) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<double> const values{1, -2, 300.5, 4};
  auto const path = folder.make("big.h5", [&](auto const& p) {
    test::NewFile const file(p);
    test::write_dataset(file, {"f64", H5T_IEEE_F64BE, {4}}, H5T_NATIVE_DOUBLE, values.data());
    test::write_dataset(file, {"i16", H5T_STD_I16BE, {4}, {3}, 2}, H5T_NATIVE_DOUBLE, values.data());
  });
  FieldFile const file(comm, path);
  std::vector<double> doubles(4);
  std::vector<std::int16_t> shorts(2);

  file.read_stored("f64", Box({0}, {4}), std::as_writable_bytes(std::span(doubles)));
  file.read_stored("i16", Box({2}, {4}), std::as_writable_bytes(std::span(shorts)));

  EXPECT_EQ(doubles, values);
  EXPECT_EQ(shorts, (std::vector<std::int16_t>{300, 4}));
}

TEST(StoredValues, come_out_of_shuffled_chunks_of_values_of_any_size) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  constexpr std::size_t count = 107;
  hid_t const text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 3);
  H5Tset_strpad(text, H5T_STR_NULLPAD);
  std::vector<std::pair<std::size_t, hid_t>> const types{
      {1, H5T_NATIVE_INT8}, {2, H5T_NATIVE_INT16}, {3, text}, {4, H5T_NATIVE_INT32}, {8, H5T_NATIVE_INT64}};
  std::vector<std::byte> bytes(8 * count);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(1 + i * 37 % 251);
  auto const path = folder.make("shuffled.h5", [&](auto const& p) {
    test::NewFile const file(p);
    for (auto const& [size, type] : types)
      test::write_dataset(file, {"x" + std::to_string(size), type, {count}, {50}, 1}, type, bytes.data());
  });
  H5Tclose(text);
  FieldFile const file(comm, path);

  for (auto const& [size, type] : types) {
    std::vector<std::byte> read(size * (count - 3));
    file.read_stored("x" + std::to_string(size), Box({3}, {Index(count)}), read);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin() + std::ptrdiff_t(3 * size))) << size;
  }
}

TEST(StoredValues, are_refused_by_name_where_they_do_not_fit) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("odd.h5", [&](auto const& p) {
    test::NewFile const file(p);
    hid_t const text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    std::string const long_word(600'000, 'x');
    char const* const words[]{"a", long_word.c_str()};
    test::write_dataset(file, {"words", text, {2}}, text, words);
    H5Tclose(text);
    double const value = 1;
    test::write_dataset(file, {"x", H5T_IEEE_F64LE, {1}}, H5T_NATIVE_DOUBLE, &value);
  });
  FieldFile const file(comm, path);
  std::vector<std::byte> bytes(64);
  bool const last = comm.rank() == comm.num_ranks() - 1;

  EXPECT_EQ(rule_of([&] { file.read_stored("words", Box({0}, {2}), bytes); }), "UnreadableVariable");
  EXPECT_EQ(rule_of([&] { (void)VariableSpec::of(file.variable("words")); }), "UnreadableVariable");
  EXPECT_EQ(rule_of([&] { file.read_stored("x", Box({0}, {1}), std::span(bytes).first(last ? 7 : 8)); }),
            "ShapeMismatch");
  FieldWriter out(comm, folder / "out.nc");
  out.add_dimension("x", 1);
  Attribute const scale = Attribute::of_number("scale_factor", 2);
  EXPECT_EQ(rule_of([&] {
              out.add_variable({.name = "y", .dimensions = {"x"}, .packing = Packing{}, .attributes = {scale}});
            }),
            "BadOption");
  EXPECT_EQ(rule_of([&] { out.add_variable({.name = "y", .dimensions = {"x"}, .shuffle = Shuffle::always}); }),
            "BadOption");
  out.add_variable({.name = "letters", .dimensions = {"x"}, .type = ValueType::text});
  std::vector<double> const number(1);
  EXPECT_EQ(rule_of([&] { out.write("letters", Box({0}, {1}), std::span(number)); }), "WrongType");
  EXPECT_EQ(rule_of([&] { out.write_stored("letters", Box({0}, {1}), std::span(bytes).first(last ? 2 : 1)); }),
            "ShapeMismatch");
}

/// Numbers go through a packing that came as attributes as through one that was asked for.
TEST(StoredValues, and_numbers_agree_on_carried_attributes) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "packed.nc";
  VariableSpec const spec{.name = "v",
                          .dimensions = {"x"},
                          .type = ValueType::i16,
                          .attributes = {Attribute::of_number("_FillValue", -9, ValueType::i16),
                                         Attribute::of_number("add_offset", 100, ValueType::f32),
                                         Attribute::of_number("scale_factor", 0.5, ValueType::f32)}};
  std::vector<double> const values{100, std::nan(""), 103.5};
  {
    FieldWriter out(comm, path);
    out.add_dimension("x", 3);
    out.add_variable(spec);
    bool const writes = comm.rank() == 0;
    out.write("v", Box({0}, {writes ? 3 : 0}), std::span(values).first(writes ? 3 : 0));
    out.commit();
  }
  FieldFile const file(comm, path);
  std::vector<std::int16_t> stored(3);
  std::vector<double> read(3);

  file.read_stored("v", Box({0}, {3}), std::as_writable_bytes(std::span(stored)));
  file.read("v", Box({0}, {3}), std::span(read));

  EXPECT_EQ(stored, (std::vector<std::int16_t>{0, -9, 7}));
  EXPECT_EQ(read[0], 100);
  EXPECT_TRUE(std::isnan(read[1]));
  EXPECT_EQ(read[2], 103.5);
  EXPECT_EQ(file.variable("v").attributes, spec.attributes);
}

/// As `expver` of ERA5, and a name beside the fields.
TEST(StoredValues, of_strings_are_padded_to_the_longest) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("strings.nc", [](auto const& p) {
    test::write_cdl(p,
                    "netcdf strings { dimensions: time = UNLIMITED; x = 2; variables: double time(time); "
                    "string expver(time); string name; string two(x, time); string late(time); "
                    "data: time = 0, 1, 2; expver = \"0001\", \"\", \"experiment 5\"; name = \"a \u00e4\"; "
                    "two = {\"a\", \"bb\", \"ccc\"}, {\"dddd\", \"e\", \"f\"}; late = \"x\"; }");
  });
  FieldFile const file(comm, path);
  auto const read = [&](char const* name, Box const& box) {
    std::vector<std::byte> bytes(std::size_t(box.num_cells() * file.variable(name).value_bytes));
    file.read_stored(name, box, bytes);
    std::string text(bytes.size(), ' ');
    std::transform(bytes.begin(), bytes.end(), text.begin(),
                   [](std::byte b) { return b == std::byte(0) ? '.' : char(b); });
    return text;
  };
  bool const last = comm.rank() == comm.num_ranks() - 1;

  EXPECT_EQ(file.variable("expver").value_bytes, 12);
  EXPECT_EQ(read("expver", Box({0}, {3})), "0001....................experiment 5");
  EXPECT_EQ(read("expver", last ? Box({2}, {3}) : Box({0}, {0})), last ? "experiment 5" : "");
  EXPECT_EQ(read("name", Box()), "a \xc3\xa4");
  EXPECT_EQ(read("two", Box({0, 1}, {2, 3})), "bb..ccc.e...f...");
  EXPECT_EQ(read("late", Box({0}, {3})), "x..");
  std::vector<std::byte> few(5);
  EXPECT_EQ(rule_of([&] { file.read_stored("expver", Box({2}, {3}), few); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { file.read_stored("expver", Box({2}, {4}), few); }), "OutOfRange");
  std::vector<double> number(1);
  EXPECT_EQ(rule_of([&] { file.read("expver", Box({2}, {3}), std::span(number)); }), "UnreadableVariable");
  EXPECT_EQ(rule_of([&] { (void)VariableSpec::of(file.variable("expver")); }), "UnreadableVariable");
}

}  // namespace
}  // namespace graticule
