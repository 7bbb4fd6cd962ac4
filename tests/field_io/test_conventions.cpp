// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/series.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"
#include "series_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

namespace graticule {
namespace {

using test::Folder;
using test::rule_of_naming;

constexpr double none = std::numeric_limits<double>::quiet_NaN();

void expect_values(std::vector<double> const& values, std::vector<double> const& expected, std::string const& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << what << " " << i;
    if (!std::isnan(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << what << " " << i;
    }
  }
}

/// Through each way of reading: all cells as double and float, and backwards into a strided field of either type.
void expect_read(FieldFile const& file, std::string const& name, std::vector<double> const& expected) {
  auto const n = Index(expected.size());
  std::vector<double> doubles(expected.size());
  std::vector<float> floats(expected.size());
  std::vector<double> spread(2 * expected.size());
  std::vector<float> backwards(expected.size());

  file.read(name, Box({0}, {n}), std::span(doubles));
  file.read(name, Box({0}, {n}), std::span(floats));
  FieldView every_other{spread.data(), DType::f64, {n}, {2}, {0}, MemorySpace::host};
  file.read(name, {.box = Box({0}, {n})}, every_other);
  file.read(name, {.box = Box({0}, {n}), .steps = {-1}}, field_view(backwards.data(), {n}, 0));

  std::vector<double> odd;
  std::vector<double> back(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    odd.push_back(spread[2 * i]);
    back[expected.size() - 1 - i] = double(backwards[i]);
  }
  std::vector<double> rounded;
  for (double const value : expected) rounded.push_back(double(float(value)));
  expect_values(doubles, expected, name);
  expect_values({floats.begin(), floats.end()}, rounded, name + " as f32");
  expect_values(odd, expected, name + " into a strided field");
  expect_values(back, rounded, name + " backwards");
}

TEST(Conventions, default_fill_values_are_missing_without_a_fill_value_but_not_in_bytes_and_codes) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("fills.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf fills { dimensions: x = 3; variables:
      float f(x); double d(x); float big(x); big:_Endianness = "big"; float packed_float(x); packed_float:add_offset = 1.f;
      float own(x); own:_FillValue = -1.f; float other(x); other:missing_value = -1.f;
      short packed(x); packed:scale_factor = 0.5; int packed_int(x); packed_int:add_offset = 1.; int64 wide(x);
      wide:scale_factor = 2.; byte packed_byte(x); packed_byte:scale_factor = 0.5; ubyte u(x); u:scale_factor = 1.;
      short packed_own(x); packed_own:scale_factor = 0.5; packed_own:_FillValue = 7s;
      short code(x); int mask(x); byte small(x); int64 whole(x); uint64 natural(x); ushort word(x);
      short signless(x); signless:_Unsigned = "true";
      data: f = 9.9692099683868690e+36f, 1, 2; d = 1, 9.9692099683868690e+36, 2; big = 1, 2, 9.9692099683868690e+36f;
      packed_float = 9.9692099683868690e+36f, 1, 2; own = 9.9692099683868690e+36f, -1, 2;
      other = 9.9692099683868690e+36f, -1, 2; packed = -32767, 2, 4; packed_int = 2, -2147483647, 4;
      wide = 1, 2, -9223372036854775806; packed_byte = -127, 2, 4; u = 255, 2, 4; packed_own = -32767, 7, 4;
      code = -32767, 1, 2; mask = -2147483647, 1, 2; small = -127, 1, 2; })");
  });
  FieldFile const file(comm, path);
  double const fill = double(9.9692099683868690e+36F);

  expect_read(file, "f", {none, 1, 2});
  expect_read(file, "d", {1, none, 2});
  expect_read(file, "big", {1, 2, none});
  expect_read(file, "packed_float", {none, 2, 3});
  expect_read(file, "own", {fill, none, 2});
  expect_read(file, "other", {none, none, 2});
  expect_read(file, "packed", {none, 1, 2});
  expect_read(file, "packed_int", {3, none, 5});
  expect_read(file, "wide", {2, 4, none});
  expect_read(file, "packed_byte", {-63.5, 1, 2});
  expect_read(file, "u", {255, 2, 4});
  expect_read(file, "packed_own", {-16383.5, none, 2});
  expect_read(file, "code", {-32767, 1, 2});
  expect_read(file, "small", {-127, 1, 2});
  std::vector<std::int32_t> mask(3);
  file.read("mask", {.box = Box({0}, {3})}, field_view(mask.data(), {3}, 0));
  EXPECT_EQ(mask, (std::vector<std::int32_t>{-2147483647, 1, 2}));
  EXPECT_EQ(probable_fill(file.variable("code")), -32767);
  EXPECT_EQ(probable_fill(file.variable("mask")), -2147483647);
  for (auto const& [name, text] : std::vector<std::pair<char const*, char const*>>{{"code", "-32767"},
                                                                                   {"mask", "-2147483647"},
                                                                                   {"whole", "-9223372036854775806"},
                                                                                   {"natural", "18446744073709551614"},
                                                                                   {"word", "65535"},
                                                                                   {"signless", "32769"},
                                                                                   {"f", ""}})
    EXPECT_EQ(probable_fill_text(file.variable(name)), text) << name;
  for (auto const* name : {"f", "packed", "packed_own", "small", "u"})
    EXPECT_EQ(probable_fill(file.variable(name)), std::nullopt) << name;
}

/// More than a block, so that blocks with and without missing cells are met.
TEST(Conventions, finds_missing_cells_anywhere_in_a_long_variable) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  constexpr Index n = 5000;
  auto const path = folder.make("long.h5", [](auto const& p) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 1999 == 1998 ? 9.9692099683868690e+36F : float(i);
    test::NewFile const file(p);
    test::write_dataset(file, {"f", H5T_IEEE_F32LE, {hsize_t(n)}}, H5T_NATIVE_FLOAT, values.data());
  });
  FieldFile const file(comm, path);
  std::vector<double> expected;
  for (Index i = 0; i < n; ++i) expected.push_back(i % 1999 == 1998 ? none : double(i));

  expect_read(file, "f", expected);
}

TEST(Conventions, values_beyond_the_limits_are_missing_packed_or_not) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("limits.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf limits { dimensions: x = 4; variables:
      float range(x); range:valid_range = -1.f, 1.f; float least(x); least:valid_min = 0.; double most(x);
      most:valid_max = 1.5; float tenth(x); tenth:valid_max = 0.1;
      short packed(x); packed:scale_factor = 0.5; packed:valid_range = -2s, 2s;
      short unpacked(x); unpacked:scale_factor = 0.5; unpacked:valid_max = 1.;
      short falls(x); falls:scale_factor = -0.5; falls:valid_min = 0s;
      byte bits(x); bits:_Unsigned = "true"; bits:valid_range = 0b, -2b; int plain(x); plain:valid_min = 0;
      float placeholder(x); placeholder:valid_range = 0.f, 0.f; float text(x); text:valid_min = "0"; float x(x);
      x:valid_max = 1.f; float both(x); both:_FillValue = -999.f; both:valid_min = 0.f;
      data: range = -1, 2, 1, -1e30; least = 0, -1, NaN, 1; most = 1.5, 2, 1, 0; tenth = 0.1, 0.2, 0, -1;
      packed = -2, 2, 3, -32768; unpacked = 2, 3, -5, 0; falls = 0, -1, 4, 1; bits = 0, -1, -2, -128; plain = -1, 0, 1, 2;
      placeholder = 1, 2, 3, 4; text = -1, 2, 3, 4; x = 1, 2, 3, 4; both = -999, -1, 0, 1; })");
  });
  FieldFile const file(comm, path);

  expect_read(file, "range", {-1, none, 1, none});
  expect_read(file, "least", {0, none, none, 1});
  expect_read(file, "most", {1.5, none, 1, 0});
  expect_read(file, "tenth", {double(0.1F), none, 0, -1});
  expect_read(file, "packed", {-1, 1, none, none});
  expect_read(file, "unpacked", {1, none, -2.5, 0});
  expect_read(file, "falls", {-0.0, none, -2, -0.5});
  expect_read(file, "bits", {0, none, 254, 128});
  expect_read(file, "plain", {none, 0, 1, 2});
  expect_read(file, "placeholder", {1, 2, 3, 4});
  expect_read(file, "text", {-1, 2, 3, 4});
  expect_read(file, "both", {none, none, 0, 1});
  EXPECT_EQ(file.coordinate("x"), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(limits_text(file.variable("range")), "valid_range = -1, 1");
  EXPECT_EQ(limits_text(file.variable("text")), "");
  std::vector<std::int32_t> plain(3);
  file.read("plain", {.box = Box({1}, {4})}, field_view(plain.data(), {3}, 0));
  EXPECT_EQ(plain, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(test::rule_of([&] { file.read("plain", {.box = Box({0}, {3})}, field_view(plain.data(), {3}, 0)); }),
            "Conversion");
}

TEST(Conventions, a_scale_that_is_no_number_is_named_with_its_value) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("scales.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf scales { dimensions: x = 2; variables: short a(x); a:scale_factor = "0.5";
      short b(x); b:scale_factor = 0.; short c(x); c:add_offset = NaN; short d(x); d:scale_factor = 1., 2.;
      short good(x); good:add_offset = 0.; data: a = 1, 2; b = 1, 2; c = 1, 2; d = 1, 2; good = 1, 2; })");
  });
  FieldFile const file(comm, path);
  std::vector<double> values(2);
  struct Case {
    char const* name;
    char const* words;
  };
  for (auto const& one : std::vector<Case>{{"a", "scale_factor of variable a of "},
                                           {"a", "is '0.5', not one finite number other than 0"},
                                           {"b", "is 0, not one finite number other than 0"},
                                           {"c", "add_offset of variable c"},
                                           {"c", "is nan, not one finite number;"},
                                           {"d", "is 1, 2, not one"}}) {
    EXPECT_EQ(rule_of_naming([&] { file.read(one.name, Box({0}, {2}), std::span(values)); }, one.words),
              "UnreadableVariable");
    EXPECT_EQ(rule_of_naming([&] { require_packing(file.contents(), file.variable(one.name)); }, one.words),
              "UnreadableVariable");
  }
  require_packing(file.contents(), file.variable("good"));
}

TEST(HorizontalAxes, are_converted_from_radians_and_refused_in_other_units) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  struct Case {
    char const* latitude;
    char const* longitude;
    char const* rule;
    char const* word;
  };
  int number = 0;
  for (auto const& one : std::vector<Case>{
           {R"(lat:units = "radians")", R"(lon:units = "radian")", "", ""},
           {R"(lat:units = "degrees_N")", R"(lon:units = "Degrees_East")", "", ""},
           {R"(lat:units = "degreeN")", R"(lon:units = "degreesE")", "", ""},
           {R"(lat:units = "degree")", R"(lon:units = "degrees")", "", ""},
           {R"(lat:units = "")", R"(lon:long_name = "x")", "", ""},
           {R"(lat:units = "gradians")", R"(lon:units = "degrees_east")", "BadCoordinates", "latitude lat(lat=2)"},
           {R"(lat:units = "degrees_north")", R"(lon:units = "m")", "BadCoordinates",
            "has the units 'm', not degrees_east"},
           {R"(lat:units = "degrees_north")", R"(lon:units = 1)", "BadCoordinates", "of a number"},
           {R"(lat:standard_name = "grid_latitude")", R"(lon:units = "degrees_east")", "MissingVariable",
            "latitude"}}) {
    auto const path = folder.make("units" + std::to_string(number++) + ".nc", [&](auto const& p) {
      test::write_cdl(p, std::string("netcdf units { dimensions: lat = 2; lon = 2; variables: double lat(lat); ") +
                             one.latitude + "; double lon(lon); " + one.longitude +
                             "; float z(lat, lon); float direction(lon); direction:units = \"radians\"; "
                             "data: lat = -1, 0.5; lon = 0, 2; }");
    });
    FieldFile const file(comm, path);

    EXPECT_EQ(rule_of_naming([&] { static_cast<void>(file.horizontal_axes("z")); }, one.word), one.rule)
        << one.latitude;
    bool const turns = number == 1;
    double const factor = turns ? 180 / std::numbers::pi : 1;
    // Where one of them is in other units, the other one can be read.
    bool const is_bad = std::string(one.rule) == "BadCoordinates";
    bool const is_latitude = is_bad && std::string(one.word).starts_with("latitude");
    if (is_bad)
      EXPECT_EQ(rule_of_naming([&] { static_cast<void>(file.coordinate(is_latitude ? "lat" : "lon")); }, one.word),
                one.rule);
    if (!is_latitude) EXPECT_EQ(file.coordinate("lat"), (std::vector<double>{-1 * factor, 0.5 * factor}));
    if (is_latitude || !is_bad) EXPECT_EQ(file.coordinate("lon"), (std::vector<double>{0, 2 * factor}));
  }
}

TEST(HorizontalAxes, beyond_a_pole_by_rounding_lie_on_it) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("rounded.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf rounded { dimensions: lat = 4; y = 2; lev = 1; variables: float lat(lat);
      lat:units = "degrees_north"; double north(y); north:standard_name = "latitude"; double lev(lev);
      data: lat = 90.000008, 89.99999, -90.00001, -90.1; north = 90.00001, -90.000015; lev = 90.000008; })");
  });

  FieldFile const file(comm, path);

  auto const latitudes = file.coordinate("lat");
  EXPECT_EQ(latitudes[0], 90);
  EXPECT_EQ(latitudes[1], double(89.99999F));
  EXPECT_EQ(latitudes[2], -90);
  EXPECT_EQ(latitudes[3], double(-90.1F));
  EXPECT_EQ(file.coordinate("y"), (std::vector<double>{90, -90}));
  EXPECT_EQ(file.coordinate("lev"), std::vector<double>{90.000008});
}

TEST(HorizontalAxes, are_found_by_coordinates_of_other_names_along_them) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("auxiliary.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf auxiliary { dimensions: t = 1; y = 2; x = 3; station = 4;
      variables: double lat(y); lat:units = "degrees_north"; double lon(x); lon:standard_name = "longitude";
        float z(t, y, x); float z_of(station); double slat(station); slat:units = "degrees_north"; double slon(station);
        slon:units = "degrees_east"; float s(t, station);
      data: lat = 10, -10; lon = 0, 120, 240; })");
  });
  FieldFile const file(comm, path);

  EXPECT_EQ(file.horizontal_axes("z"), (HorizontalAxes{1, 2}));
  EXPECT_EQ(file.coordinate("y"), (std::vector<double>{10, -10}));
  EXPECT_EQ(file.coordinate("x"), (std::vector<double>{0, 120, 240}));
  EXPECT_EQ(file.contents().coordinate("station"), nullptr);
  EXPECT_EQ(rule_of_naming([&] { static_cast<void>(file.horizontal_axes("s")); }, "unstructured, as slat(station=4)"),
            "MissingVariable");
}

TEST(FieldSeries, maps_without_an_axis_of_time_are_not_joined_along_latitude) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const files_of = [&](std::string const& name, std::string const& text) {
    std::vector<std::filesystem::path> files;
    for (int i = 0; i < 2; ++i)
      files.push_back(folder.make(name + std::to_string(i) + ".nc", [&](auto const& p) {
        std::string part = text;
        if (auto const at = part.find("INDEX"); at != std::string::npos) part.replace(at, 5, std::to_string(i));
        test::write_cdl(p, "netcdf part { " + part + " }");
      }));
    return files;
  };
  auto const rule = [&](std::string const& name, std::string const& text, std::string const& word) {
    auto const files = files_of(name, text);
    return rule_of_naming([&] { FieldSeries const series(comm, files); }, word);
  };

  EXPECT_EQ(
      rule("bare", "dimensions: y = 2; x = 2; variables: float z(y, x); data: z = 1, 2, 3, 4;", "'y' is not unlimited"),
      "BadInput");
  EXPECT_EQ(rule("named", "dimensions: lat = 2; lon = 2; variables: float z(lat, lon); data: z = 1, 2, 3, 4;",
                 "'lat' is the latitude of z(lat=2, lon=2)"),
            "BadInput");
  EXPECT_EQ(
      rule("scalar",
           "dimensions: lat = 2; lon = 2; variables: double time; time:units = \"hours since 2000-01-01\"; double "
           "lat(lat); lat:units = \"degrees_north\"; double lon(lon); lon:units = \"degrees_east\"; float z(lat, "
           "lon); data: time = INDEX; lat = 10, -10; lon = 0, 180; z = 1, 2, 3, 4;",
           "ncecat"),
      "BadInput");
  EXPECT_EQ(rule("turned", "dimensions: lon = 2; lat = UNLIMITED; variables: float z(lat, lon); data: z = 1, 2, 3, 4;",
                 "'lat' is the latitude"),
            "BadInput");
  // A user may know better, records need no coordinate, and the axis of time need not be the first.
  auto const bare = files_of("bare", "dimensions: y = 2; x = 2; variables: float z(y, x); data: z = 1, 2, 3, 4;");
  EXPECT_EQ(to_string(FieldSeries(comm, bare, {.dimension = "y"}).variable("z")), "z(y=4, x=2)");
  EXPECT_EQ(rule_of_naming([&] { FieldSeries const series(comm, bare, {.dimension = "time"}); },
                           "bare0.nc has no dimension 'time' that the files could be joined along"),
            "BadInput");
  auto const records = files_of("records", "dimensions: sample = 2; x = 2; variables: float z(sample, x);");
  EXPECT_EQ(to_string(FieldSeries(comm, records).variable("z")), "z(sample=4, x=2)");
  auto const inner = files_of("inner",
                              "dimensions: member = 3; time = 1; x = 2; variables: double time(time); time:units = "
                              "\"days since 2000-01-01\"; float z(member, time, x); data: time = INDEX;");
  EXPECT_EQ(to_string(FieldSeries(comm, inner).variable("z")), "z(member=3, time=2, x=2)");
}

}  // namespace
}  // namespace graticule
