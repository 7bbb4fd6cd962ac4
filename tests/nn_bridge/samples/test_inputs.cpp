// SPDX-License-Identifier: BSD-3-Clause
// Files as people have them.
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/samples/detail/fields.hpp>
#include <graticule/samples/detail/missing_cells.hpp>
#include <graticule/samples/detail/sample_store.hpp>
#include <graticule/samples/detail/states.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace graticule::samples {
namespace {

using test::Folder;

/// Rule of the error that an action throws, whose text has this word; none without an error.
std::string rule_of_naming(std::function<void()> const& action, std::string const& word) {
  try {
    action();
  } catch (Error const& error) {
    EXPECT_NE(error.text().find(word), std::string::npos) << error.text();
    return error.rule();
  }
  return {};
}

std::string list(Index count, std::function<double(Index)> const& value) {
  std::string text;
  for (Index i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + std::to_string(value(i));
  return text;
}

struct Place {
  std::string latitudes = "lat:units = \"degrees_north\";";
  std::string longitudes = "lon:units = \"degrees_east\";";
  std::function<double(Index)> latitude = [](Index i) { return 90.0 - 30.0 * double(i); };
  std::function<double(Index)> longitude = [](Index i) { return 45.0 * double(i); };
  Index rows = 7;
  Index columns = 8;
  std::string y = "lat";
  std::string x = "lon";
  std::string fields = "float z(time, lat, lon);";
  std::string data;
};

std::filesystem::path make_file(Folder const& folder, std::string const& name, Place const& place) {
  return folder.make(name, [&](auto const& p) {
    test::write_cdl(p, "netcdf in { dimensions: time = 2; " + place.y + " = " + std::to_string(place.rows) + "; " +
                           place.x + " = " + std::to_string(place.columns) + "; variables: double lat(" + place.y +
                           "); " + place.latitudes + " double lon(" + place.x + "); " + place.longitudes + " " +
                           place.fields + " data: lat = " + list(place.rows, place.latitude) +
                           "; lon = " + list(place.columns, place.longitude) + "; " + place.data + " }");
  });
}

constexpr double radian = 180 / 3.14159265358979323846;

class Inputs : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  }
  Comm comm_ = Comm::world();
  Folder folder_{comm_};
};

TEST_F(Inputs, in_radians_are_the_same_globe) {
  Place place;
  place.latitudes = "lat:standard_name = \"latitude\"; lat:units = \"radians\";";
  place.longitudes = "lon:standard_name = \"longitude\"; lon:units = \"radian\";";
  place.latitude = [](Index i) { return (90.0 - 30.0 * double(i)) / radian; };
  place.longitude = [](Index i) { return 45.0 * double(i) / radian; };
  FieldTable const degrees(comm_, make_file(folder_, "degrees.nc", {}).string(), {"z"});
  FieldTable const table(comm_, make_file(folder_, "radians.nc", place).string(), {"z"});

  EXPECT_EQ(describe_edges(table.grid()), describe_edges(degrees.grid()));
  EXPECT_TRUE(table.grid().is_periodic());
  EXPECT_EQ(table.grid().boundary.axes[0].lower, Edge::pole_row);
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_NEAR(table.grid().latitudes[i], degrees.grid().latitudes[i], 2e-4);  // six digits of the text
}

TEST_F(Inputs, that_are_a_circle_in_radians_need_units) {
  Place place;
  place.latitudes = "";
  place.longitudes = "";
  place.latitude = [](Index i) { return (90.0 - 30.0 * double(i)) / radian; };
  place.longitude = [](Index i) { return 45.0 * double(i) / radian; };

  EXPECT_EQ(rule_of_naming([&] { FieldTable const table(comm_, make_file(folder_, "bare.nc", place).string(), {"z"}); },
                           "a circle in radians, and has no units"),
            "BadCoordinates");
  // A region of 6 degrees.
  place.longitude = [](Index i) { return 0.8 * double(i); };
  FieldTable const region(comm_, make_file(folder_, "region.nc", place).string(), {"z"});
  EXPECT_FALSE(region.grid().is_periodic());
}

TEST_F(Inputs, in_unknown_units_are_refused) {
  Place place;
  place.latitudes = "lat:units = \"furlongs\";";
  auto const file = make_file(folder_, "units.nc", place).string();

  EXPECT_EQ(rule_of_naming([&] { FieldTable const table(comm_, file, {"z"}); }, "has the units 'furlongs'"),
            "BadCoordinates");
}

TEST_F(Inputs, with_coordinates_of_other_names_have_a_grid) {
  Place place;
  place.y = "y";
  place.x = "x";
  place.fields = "float z(time, y, x);";
  FieldTable const table(comm_, make_file(folder_, "auxiliary.nc", place).string(), {"z"});

  EXPECT_TRUE(table.grid().is_periodic());
  EXPECT_EQ(table.grid().latitudes.front(), 90);
}

/// Of all but the first file nothing would be used.
TEST_F(Inputs, without_the_axis_along_which_files_are_joined_are_refused) {
  Place place{.fields = "double time(time); time:units = \"hours since 2000-01-01\"; float z(lat, lon);",
              .data = "time = 0, 6;"};
  (void)make_file(folder_, "map1.nc", place);
  place.data = "time = 12, 18;";
  (void)make_file(folder_, "map2.nc", place);
  auto const files = (folder_.path() / "map*.nc").string();

  EXPECT_EQ(rule_of_naming([&] { FieldTable const table(comm_, files, {"z"}); },
                           "z(lat=7, lon=8) of " + (folder_.path() / "map1.nc").string() +
                               " has no axis 'time', along which the 2 files are joined"),
            "BadInput");
  FieldTable const one(comm_, (folder_.path() / "map1.nc").string(), {"z"});
  EXPECT_EQ(one.samples().num_samples(), 1);
}

TEST_F(Inputs, across_greenwich_count_on) {
  Place place;
  place.latitude = [](Index i) { return 60.0 - 2.0 * double(i); };
  place.longitude = [](Index i) { return std::fmod(356.0 + double(i), 360.0); };
  FieldTable const region(comm_, make_file(folder_, "region.nc", place).string(), {"z"});
  place.longitude = [](Index i) { return i < 4 ? 45.0 * double(i) : 45.0 * double(i) - 360; };
  FieldTable const globe(comm_, make_file(folder_, "globe.nc", place).string(), {"z"});

  EXPECT_FALSE(region.grid().is_periodic());
  EXPECT_EQ(region.grid().longitudes, (std::vector<double>{356, 357, 358, 359, 360, 361, 362, 363}));
  EXPECT_TRUE(globe.grid().is_periodic());
  EXPECT_EQ(globe.grid().longitudes.back(), 315);
}

TEST_F(Inputs, with_a_repeated_column_are_refused_with_the_name_of_the_dimension) {
  Place place;
  place.columns = 9;
  auto const file = make_file(folder_, "cyclic.nc", place).string();

  EXPECT_EQ(rule_of_naming([&] { FieldTable const table(comm_, file, {"z"}); }, "`ncks -d lon,0,7 IN OUT`"),
            "BadCoordinates");

  FieldTable const table(comm_, file, {"z"}, RepeatedColumn::drop);

  EXPECT_EQ(table.grid().num_columns(), 8);
  EXPECT_EQ(table.grid().longitudes.back(), 315);
  auto const companions = table.companions(comm_, {"z"});
  for (auto const& one : companions.variables) {
    if (one.spec.name == "lon") {
      EXPECT_EQ(one.extents, Indices{8});
      EXPECT_EQ(std::get<2>(one.values).size(), 8u);
    }
  }
}

/// As models write them that keep columns of their neighbors: 315, 0, ..., 315, 0.
TEST_F(Inputs, with_columns_of_neighbors_on_both_sides_are_no_region) {
  Place place;
  place.columns = 10;
  place.longitude = [](Index i) { return 45.0 * double(i - 1); };
  auto const counted = make_file(folder_, "counted.nc", place).string();
  place.longitude = [](Index i) { return 45.0 * double((i + 7) % 8); };
  auto const jumping = make_file(folder_, "jumping.nc", place).string();

  for (auto const& file : {counted, jumping}) {
    EXPECT_EQ(rule_of_naming([&] { FieldTable const table(comm_, file, {"z"}); },
                             "the last 2 columns repeat the first 2; leave them out (--repeated-longitude drop), or "
                             "remove them (`ncks -d lon,0,7 IN OUT`)"),
              "BadCoordinates");
    FieldTable const table(comm_, file, {"z"}, RepeatedColumn::drop);
    EXPECT_TRUE(table.grid().is_periodic());
    EXPECT_EQ(table.grid().num_columns(), 8);
    EXPECT_EQ(table.grid().longitudes.back() - table.grid().longitudes.front(), 315);
  }
}

TEST_F(Inputs, beyond_a_pole_by_rounding_lie_on_it) {
  Place place;
  place.latitude = [](Index i) { return (90.0 - 30.0 * double(i)) * (1 + 1e-7); };
  FieldTable const table(comm_, make_file(folder_, "rounded.nc", place).string(), {"z"});

  EXPECT_EQ(table.grid().boundary.axes[0].lower, Edge::pole_row);
  EXPECT_EQ(table.grid().latitudes.front(), 90);
  EXPECT_EQ(table.grid().latitudes.back(), -90);
}

TEST_F(Inputs, whose_times_are_dates_are_refused_with_what_counts_them) {
  Place place;
  place.fields = "double time(time); time:units = \"day as %Y%m%d.%f\"; float z(time, lat, lon);";
  place.data = "time = 20000101.25, 20000101.5;";
  auto const file = make_file(folder_, "absolute.nc", place).string();

  EXPECT_EQ(rule_of_naming([&] { StateTable const table(comm_, file, {"z"}, {}); }, "`cdo -r copy IN OUT` counts them"),
            "BadInput");
}

/// Lines about the variables of a file of 2 x 7 x 8 cells.
std::vector<std::string> lines_of(Comm const& comm, std::filesystem::path const& path,
                                  std::vector<std::string> const& names, MissingRule rule = MissingRule::warn) {
  FieldTable const table(comm, path.string(), names);
  DataTeams const teams(comm, 1);
  std::vector<double> const weights(7, 1.0 / 7);
  Layout const layout = Layout(ProcessGrid{comm.num_ranks(), 1}, Indices{7, 8});
  Cells const cells{table.grid(), layout, layout.owned(comm.rank()), weights};
  SampleStore store(table.reader(names, cells.box, 0), 2, {});
  MissingCells missing(table.file(), names, cells,
                       {.count = 2, .per_entry = 1, .name = [](Index s) { return "sample " + std::to_string(s); }});
  std::vector<double> values(std::size_t(cells.per_sample()));
  for (Index s = 0; s < 2; ++s)
    for (std::size_t field = 0; field < names.size(); ++field) {
      store.fetch(s, field, values);
      missing.count(s, field, values);
    }
  std::vector<std::string> lines;
  apply_rule(rule, missing.describe(teams, store),
             [&](std::string const& line) { lines.push_back(line.substr(line.find(": ") + 2)); });
  return lines;
}

TEST_F(Inputs, with_default_fill_values_and_limits_are_named_with_their_first_cell) {
  Place place;
  place.fields =
      "float z(time, lat, lon); short s(time, lat, lon); short code(time, lat, lon); float v(time, lat, lon); "
      "v:valid_min = 0.f; float good(time, lat, lon); s:scale_factor = 0.5;";
  // Cell 10 of the first sample is row 1, column 2: 60 N 90 E.
  auto const with = [](double special) {
    return list(112, [=](Index i) { return i == 10 ? special : double(i % 7); });
  };
  std::string const fill =
      list(112, [](Index i) { return double(i % 7); }).replace(30, 8, "9.9692099683868690e+36");  // the fourth number
  place.data = "z = " + fill + "; s = " + with(-32767) + "; code = " + with(-32767) + "; v = " + with(-5) +
               "; good = " + with(1) + ";";
  auto const path = make_file(folder_, "fills.nc", place);

  EXPECT_EQ(lines_of(comm_, path, {"good"}), std::vector<std::string>{});
  EXPECT_EQ(
      lines_of(comm_, path, {"z"}),
      std::vector<std::string>{"'z' lacks 1 cell that other samples have: NaN or default fill values that neither "
                               "_FillValue nor missing_value declares, first at sample 0, 90 N 135 E; treated as "
                               "missing data"});
  EXPECT_EQ(
      lines_of(comm_, path, {"s"}),
      std::vector<std::string>{"'s' lacks 1 cell that other samples have: NaN or default fill values that neither "
                               "_FillValue nor missing_value declares, first at sample 0, 60 N 90 E; treated as "
                               "missing data"});
  EXPECT_EQ(lines_of(comm_, path, {"code"}),
            std::vector<std::string>{"'code' has 1 cell of -32767, netCDF's default fill value of its type, and no "
                                     "_FillValue: first at sample 0, 60 N 90 E; treated as values, because integers "
                                     "that are not packed may be codes"});
  EXPECT_EQ(lines_of(comm_, path, {"v"}),
            (std::vector<std::string>{
                "'v' lacks 1 cell, among them those outside of valid_min = 0; treated as missing data",
                "'v' lacks 1 cell that other samples have: first at sample 0, 60 N 90 E; treated as missing data"}));
  EXPECT_EQ(rule_of_naming([&] { static_cast<void>(lines_of(comm_, path, {"code"}, MissingRule::refuse)); },
                           "--missing error does not allow this"),
            "BadInput");
}

}  // namespace
}  // namespace graticule::samples
