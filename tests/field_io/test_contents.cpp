// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/contents.hpp>
#include <graticule/field_io/detail/read_contents.hpp>
#include <graticule/field_io/detail/value_types.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <random>

#ifdef __SANITIZE_ADDRESS__
/// HDF5 asks for absurd sizes in damaged files and copes with a refusal, as `malloc` gives it.
extern "C" char const* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace graticule {
namespace {

using test::Folder;

std::string rule_of(std::function<void()> const& action, std::string const& expected_word = {}) {
  try {
    action();
  } catch (Error const& error) {
    EXPECT_EQ(error.fault(), Fault::input) << error.what();
    EXPECT_NE(error.text().find(expected_word), std::string::npos) << error.text();
    return error.rule();
  }
  return "no error";
}

TEST(ValueTypes, have_sizes_and_kinds_of_their_names) {
  int num_numbers = 0;
  for (ValueType const type : detail::enum_values<ValueType>) {
    std::string const name(to_string(type));
    bool const is_number = name != "text" && name != "other";
    num_numbers += is_number ? 1 : 0;

    EXPECT_EQ(size_in_bytes(type), is_number ? std::stoi(name.substr(1)) / 8 : 0) << name;
    auto const kind = enum_row(type).kind;
    EXPECT_EQ(kind == detail::StoredKind::signed_integer, name[0] == 'i') << name;
    EXPECT_EQ(kind == detail::StoredKind::unsigned_integer, name[0] == 'u') << name;
    EXPECT_EQ(kind == detail::StoredKind::real, name[0] == 'f') << name;
    if (name[0] == 'i') EXPECT_EQ(to_string(detail::unsigned_of(type)), "u" + name.substr(1));
  }

  EXPECT_EQ(num_numbers, 11);
  EXPECT_EQ(enum_row(ValueType(detail::num_enum_values<ValueType>)).name, nullptr);
}

TEST(FileContents, lists_dimensions_variables_and_attributes_in_the_order_of_the_file) {
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(Comm::world());
  auto const path = folder.make("all.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf all { dimensions: time = UNLIMITED; zlev = 3; lat = 4; lon = 5; bare = 2;
      variables: double time(time); time:units = "hours since 1900-01-01"; time:calendar = "gregorian";
        float lat(lat); lat:units = "degrees_north"; float lon(lon); lon:units = "degrees_east";
        short t(time, zlev, lat, lon); t:scale_factor = 0.5; t:add_offset = 10.f; t:_FillValue = -32768s;
          t:levels = 1, 2, 3; t:_ChunkSizes = 1, 1, 2, 5; t:_DeflateLevel = 3; t:_Shuffle = "true";
        int64 big(bare); big:_Endianness = "big"; char name(bare); float twod(lat, lon); int bare(lat);
      :title = "all"; :numbers = 1.5, 2.5; string :texts = "a", "", "b"; string :text = "one";
      group: deeper { variables: float inner(lat); } })");
  });

  auto const contents = read_contents(path);

  std::vector<Dimension> const dimensions{
      {"time", 0, true}, {"zlev", 3, false}, {"lat", 4, false}, {"lon", 5, false}, {"bare", 2, false}};
  EXPECT_EQ(contents.dimensions, dimensions);
  std::vector<std::string> names;
  for (auto const& variable : contents.variables) names.push_back(to_string(variable));
  EXPECT_EQ(names, (std::vector<std::string>{"time(time=0)", "lat(lat=4)", "lon(lon=5)",
                                             "t(time=0, zlev=3, lat=4, lon=5)", "big(bare=2)", "name(bare=2)",
                                             "twod(lat=4, lon=5)", "bare(lat=4)", "deeper/inner(lat=4)"}));
  auto const& t = contents.variable("t");
  EXPECT_EQ(t.type, ValueType::i16);
  EXPECT_EQ(t.chunk, (Indices{1, 1, 2, 5}));
  ASSERT_EQ(t.filters.size(), 2U);
  EXPECT_EQ(t.filters[0].name, "shuffle");
  EXPECT_EQ(t.filters[1].name, "deflate");
  EXPECT_EQ(t.filters[1].parameters, (std::vector<Index>{3}));
  EXPECT_EQ(*t.attribute("scale_factor"), Attribute::of_number("scale_factor", 0.5));
  EXPECT_EQ(*t.attribute("add_offset"), Attribute::of_number("add_offset", 10, ValueType::f32));
  EXPECT_EQ(*t.attribute("_FillValue"), Attribute::of_number("_FillValue", -32768, ValueType::i16));
  EXPECT_EQ(t.attribute("levels")->numbers(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(t.attribute("DIMENSION_LIST"), nullptr);
  EXPECT_EQ(contents.variable("lat").text("units"), "degrees_north");
  EXPECT_TRUE(contents.variable("big").is_big_endian);
  EXPECT_EQ(contents.variable("name").type, ValueType::text);
  EXPECT_EQ(contents.coordinate("lat"), contents.find("lat"));
  EXPECT_EQ(contents.coordinate("zlev"), nullptr);
  ASSERT_EQ(contents.attributes.size(), 4U);
  EXPECT_EQ(contents.attributes[0], Attribute::of_text("title", "all"));
  EXPECT_EQ(contents.attributes[2], (Attribute{"texts", ValueType::text, std::vector<std::string>{"a", "", "b"}}));
  EXPECT_EQ(contents.attributes[2].text(), "a\n\nb");
  EXPECT_EQ(contents.attributes[3], Attribute::of_text("text", "one"));
  EXPECT_EQ(contents.attributes[1].numbers(), (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(rule_of([&] { (void)contents.variable("T"); }, "time, lat, lon, t, big"), "MissingVariable");
}

TEST(FileContents, measures_an_unlimited_dimension_by_its_longest_variable) {
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(Comm::world());
  // netCDF leaves the data set of a dimension without coordinate at length 0.
  auto const path = folder.make("bare.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf bare { dimensions: time = UNLIMITED; x = 2; station = UNLIMITED; none = UNLIMITED;
      variables: float v(time, x); double station(station); float w(station);
      data: v = 1, 2, 3, 4, 5, 6; station = 7; w = 1, 2, 3, 4; })");
    test::shorten(p, "station", {1});
  });

  auto const contents = read_contents(path);

  EXPECT_EQ(contents.dimensions,
            (std::vector<Dimension>{{"time", 3, true}, {"x", 2, false}, {"station", 4, true}, {"none", 0, true}}));
  EXPECT_EQ(contents.variable("station").extents, (Indices{4}));
  EXPECT_EQ(contents.variable("station").stored_extents, (Indices{1}));
  EXPECT_TRUE(contents.variable("station").is_short());
  EXPECT_FALSE(contents.variable("v").is_short());
}

TEST(FileContents, lists_plain_hdf5_with_scales_of_its_own) {
  Folder const folder(Comm::world());
  auto const path = folder.make("plain.h5", [](auto const& p) {
    test::NewFile const file(p);
    std::vector<float> const values(2 * 3, 1.0F);
    test::write_dataset(file, {"fields", H5T_IEEE_F32LE, {2, 3}}, H5T_NATIVE_FLOAT, values.data());
    hid_t const group = H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "/", group, "cycle", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/fields", group, "alias", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nowhere", group, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
  });

  auto const contents = read_contents(path);

  ASSERT_EQ(contents.variables.size(), 2U);
  EXPECT_EQ(to_string(contents.variable("fields")), "fields(?=2, ?=3)");
  EXPECT_EQ(contents.variable("a/alias").extents, (Indices{2, 3}));
  EXPECT_TRUE(contents.dimensions.empty());
}

struct AxesCase {
  char const* latitude_name;
  char const* latitude_attribute;
  char const* longitude_name;
  char const* longitude_attribute;
};

TEST(HorizontalAxes, are_found_by_standard_name_then_units_then_name) {
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(Comm::world());
  for (auto const& one :
       std::vector<AxesCase>{{"a", R"(a:standard_name = "latitude")", "b", R"(b:standard_name = "longitude")"},
                             {"a", R"(a:units = "degree_N")", "b", R"(b:units = "degrees_east")"},
                             {"latitude", R"(latitude:x = 1)", "longitude", R"(longitude:x = 1)"},
                             {"Lat", R"(Lat:x = 1)", "Lon", R"(Lon:x = 1)"},
                             {"grid_yt", R"(grid_yt:x = 1)", "grid_xt", R"(grid_xt:x = 1)"}}) {
    std::string const y = one.latitude_name;
    std::string const x = one.longitude_name;
    auto const path = folder.make("axes.nc", [&](auto const& p) {
      test::write_cdl(p, "netcdf axes { dimensions: t = 2; " + y + " = 3; " + x + " = 4; variables: float " + y + "(" +
                             y + "); " + one.latitude_attribute + "; float " + x + "(" + x + "); " +
                             one.longitude_attribute + "; float f(t, " + y + ", " + x + "); float g(" + x + ", t, " +
                             y + "); float h(t, " + y + "); }");
    });
    auto const contents = read_contents(path);

    EXPECT_EQ(contents.horizontal_axes(contents.variable("f")), (HorizontalAxes{1, 2})) << y;
    EXPECT_EQ(contents.horizontal_axes(contents.variable("g")), (HorizontalAxes{2, 0})) << y;
    EXPECT_EQ(rule_of([&] { (void)contents.horizontal_axes(contents.variable("h")); }, "units = \"degrees_east\""),
              "MissingVariable");
  }
}

TEST(HorizontalAxes, are_refused_for_curvilinear_and_rotated_grids) {
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(Comm::world());
  auto const path = folder.make("curved.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf curved { dimensions: y = 3; x = 4; rlat = 3; rlon = 4;
      variables: float lat(y, x); lat:units = "degrees_north"; float lon(y, x); lon:units = "degrees_east"; float f(y, x);
        float rlat(rlat); rlat:standard_name = "grid_latitude"; rlat:units = "degrees"; float r(rlat, rlon); })");
  });
  auto const contents = read_contents(path);

  EXPECT_EQ(rule_of([&] { (void)contents.horizontal_axes(contents.variable("f")); }, "curvilinear, as lat(y=3, x=4)"),
            "MissingVariable");
  EXPECT_EQ(rule_of([&] { (void)contents.horizontal_axes(contents.variable("r")); }), "MissingVariable");
}

/// By h5py 3.16 with HDF5 2.0, `libver="latest"`: z in chunks, t in one piece, both along latitude and longitude, whose
/// attributes hold a reference of the new kind.
std::string newer_file() { return test::read_bytes(GRATICULE_NEWER_HDF5); }

TEST(FileContents, lists_what_a_newer_hdf5_wrote_and_says_how_to_rewrite_it) {
  if (H5_VERSION_GE(1, 12, 0)) GTEST_SKIP() << "this HDF5 knows some or all of the newer forms";
  Folder const folder(Comm::world());
  auto const path = folder.make("newer.nc", [](auto const& p) { test::write_bytes(p, newer_file()); });

  auto const contents = read_contents(path);

  auto const& t = contents.variable("t");
  EXPECT_EQ(to_string(t), "t(latitude=5, longitude=8)");
  EXPECT_EQ(t.refusal, "");
  EXPECT_EQ(t.text("units"), "K");
  EXPECT_EQ(contents.dimensions, (std::vector<Dimension>{{"latitude", 5, false}, {"longitude", 8, false}}));
  EXPECT_EQ(contents.horizontal_axes(t), (HorizontalAxes{0, 1}));
  ASSERT_EQ(contents.attributes.size(), 1U);
  EXPECT_EQ(contents.attributes.front(), Attribute::of_text("title", "x"));
  for (auto const* name : {"z", "latitude", "longitude"}) {
    auto const& refusal = contents.variable(name).refusal;
    EXPECT_EQ(contents.variable(name).value_bytes, 0) << name;
    for (auto const* word :
         {"a newer version of the format than HDF5 1.", "bad version number for", "nccopy", "libver"})
      EXPECT_NE(refusal.find(word), std::string::npos) << name << ": " << refusal;
    EXPECT_EQ(refusal.find("damaged"), std::string::npos) << "its checksums are right: " << refusal;
  }
}

TEST(FileContents, says_that_a_file_is_newer_where_not_even_the_list_can_be_read) {
  Folder const folder(Comm::world());
  auto const path = folder.make("newest.nc", [](auto const& p) {
    auto bytes = newer_file();
    bytes[8] = 9;  // the version of the superblock
    test::write_bytes(p, bytes);
  });

  EXPECT_EQ(rule_of([&] { (void)read_contents(path); }, "bad superblock version number"), "UnsupportedFile");
}

TEST(FileContents, reads_a_file_with_a_user_block) {
  Folder const folder(Comm::world());
  auto const path = folder.make("block.h5", [](auto const& p) {
    hid_t const creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(creation, 512);
    H5Fclose(H5Fcreate(p.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT));
    H5Pclose(creation);
  });

  EXPECT_TRUE(read_contents(path).variables.empty());
}

/// Damaged metadata must lead to an error or to a list, never to a crash, a hang or another kind of exception.
TEST(FileContents, survives_damage_anywhere) {
  Folder const folder(Comm::world());
  auto const path = folder.make("whole.h5", [](auto const& p) {
    test::NewFile const file(p);
    std::vector<float> const values(4 * 6, 1.0F);
    auto const more = [](hid_t dataset) {
      test::write_number(dataset, "scale_factor", 2.0);
      hid_t const text = H5Tcopy(H5T_C_S1);
      H5Tset_size(text, 4);
      test::write_number(dataset, "units", text, text, "K m");
      H5Tclose(text);
    };
    test::write_dataset(file, {"a", H5T_IEEE_F32LE, {4, 6}, {2, 3}, 2}, H5T_NATIVE_FLOAT, values.data(), more);
    test::write_dataset(file, {"b", H5T_STD_I16BE, {4, 6}}, H5T_NATIVE_FLOAT, values.data(), more);
  });
  auto const whole = test::read_bytes(path);
  auto const damaged_path = folder / "damaged.h5";
  std::mt19937 random(1);
  int num_refused = 0;

  for (int round = 0; round < 300; ++round) {
    auto bytes = whole;
    if (round % 4 == 0)
      bytes.resize(random() % whole.size());
    else
      for (int k = 0; k < 1 + round % 8; ++k) bytes[random() % bytes.size()] = char(random() % 256);
    test::write_bytes(damaged_path, bytes);
    try {
      (void)read_contents(damaged_path);
    } catch (Error const& error) {
      EXPECT_EQ(error.fault(), Fault::input) << error.what();
      ++num_refused;
    }
  }

  EXPECT_GT(num_refused, 75);
}

}  // namespace
}  // namespace graticule
