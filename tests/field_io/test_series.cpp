// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "series_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace graticule {
namespace {

using test::all_times;
using test::Folder;
using test::good_parts;
using test::make_files;
using test::rule_of;
using test::rule_of_naming;
using test::write_part;
using Part = test::SeriesPart;

TEST(FieldSeries, reads_boxes_across_files_that_are_packed_differently) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  make_files(folder, good_parts("UNLIMITED"));
  std::mt19937 random(unsigned(comm.rank()) + 3);
  // part_8, part_9, part_10, part_11
  FieldSeries const series(comm, find_files(comm, (folder / "part_*.nc").string()), {.most_open = 2});

  EXPECT_EQ(series.files()[2].filename(), "part_10.nc");
  EXPECT_EQ(series.dimension(), "time");
  EXPECT_EQ(series.coordinate("time"), all_times);
  EXPECT_EQ(series.coordinate("lat"), (std::vector<double>{10, 0, -10}));
  EXPECT_EQ(to_string(series.variable("t")), "t(time=10, lat=3, lon=4)");
  EXPECT_EQ(series.contents().dimensions[0], (Dimension{"time", 10, true}));
  for (int turn = 0; turn < (comm.num_ranks() > 2 ? 3 : 10); ++turn) {
    Index const a = Index(random() % 11);
    Index const b = Index(random() % 11);
    Box const box({std::min(a, b), 1, 0}, {std::max(a, b), 3, 3});
    std::vector<double> values(std::size_t(box.num_cells()));
    series.read("t", box, std::span(values));
    std::size_t i = 0;
    for (Index time = box.lo(0); time < box.hi(0); ++time)
      for (Index row = 1; row < 3; ++row)
        for (Index column = 0; column < 3; ++column)
          EXPECT_EQ(values[i++], 1000 * all_times[std::size_t(time)] + double(row * 4 + column));
  }
  std::vector<float> area(3);
  series.read("area", Box({0}, {3}), std::span(area));
  EXPECT_EQ(area, (std::vector<float>{1, 2, 3}));
}

// A call that all ranks wait in lasts as long as the slowest of them sleeps: a year of 365 files took a minute to open
// on two ranks of a busy machine.
TEST(FieldSeries, opens_many_files_with_the_calls_of_few) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  std::vector<Part> parts;
  for (int i = 0; i < 12; ++i) parts.push_back({.times = {double(i)}});
  auto const files = make_files(folder, parts);
  auto const calls_to_open = [&](std::size_t count) {
    auto const before = test::mpi_calls().collectives;
    FieldSeries const series(comm, {files.begin(), files.begin() + std::ptrdiff_t(count)});
    EXPECT_EQ(series.coordinate("time").size(), count);
    return test::mpi_calls().collectives - before;
  };

  auto const calls_for_two = calls_to_open(2);

  EXPECT_EQ(calls_to_open(12), calls_for_two);
}

TEST(FieldSeries, joins_along_any_axis_with_steps_either_way) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const series(comm, make_files(folder, good_parts("")));
  ASSERT_EQ(series.dimension(), "time");
  for (Index const step : {1, 2, 3, -1, -2, -4}) {
    Index const lo = comm.rank() % 3;
    FileSelection const selection{.box = Box({0, lo}, {3, 10}), .steps = {1, step}, .axes = {1, 0}, .offset = {1, 0}};
    auto const count = selection.counts()[1];
    std::vector<float> values(std::size_t((count + 2) * 3), -1.0F);

    series.read("s", selection, field_view(values.data(), {count + 2, 3}, 2));

    for (Index k = -1; k <= count; ++k)
      for (Index row = 0; row < 3; ++row) {
        Index const time = step > 0 ? lo + k * step : 9 + k * step;
        bool const inside = k >= 0 && k < count;
        EXPECT_EQ(values[std::size_t((k + 1) * 3 + row)],
                  inside ? float(all_times[std::size_t(time)] * 10 + double(row)) : -1.0F)
            << step << " " << k;
      }
  }
}

TEST(FieldSeries, joins_records_without_a_coordinate) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  std::vector<std::filesystem::path> files;
  for (auto const* values : {"1, 2, 3, 4", "5, 6"})
    files.push_back(folder.make("bare" + std::to_string(files.size()) + ".nc", [&](auto const& p) {
      test::write_cdl(p,
                      "netcdf bare { dimensions: record = UNLIMITED; x = 2; variables: float v(record, x); data: v = " +
                          std::string(values) + "; }");
    }));

  FieldSeries const series(comm, files);

  ASSERT_EQ(to_string(series.variable("v")), "v(record=3, x=2)");
  std::vector<float> values(6);
  series.read("v", Box({0, 0}, {3, 2}), std::span(values));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(FieldSeries, fills_up_short_variables_file_by_file) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const make = [&](std::string const& name, std::string const& data, std::string const& cut, hsize_t extent) {
    return folder.make(name, [&](auto const& p) {
      test::write_cdl(p,
                      "netcdf short { dimensions: t = UNLIMITED; variables: int t(t); int v(t); data: " + data + " }");
      test::shorten(p, cut, {extent});
    });
  };
  auto const first = make("a.nc", "t = 0, 1, 2; v = 10;", "v", 1);
  auto const second = make("b.nc", "t = 3, 4; v = 20, 30;", "v", 2);
  auto const torn = make("c.nc", "t = 5; v = 40, 50;", "t", 1);

  FieldSeries const series(comm, {first, second});

  std::vector<double> values(5);
  series.read("v", Box({0}, {5}), std::span(values));
  EXPECT_FALSE(series.variable("v").is_short());
  EXPECT_EQ(values[0], 10);
  EXPECT_TRUE(std::isnan(values[1]) && std::isnan(values[2]));
  EXPECT_EQ(values[3], 20);
  EXPECT_EQ(values[4], 30);
  try {
    FieldSeries const broken(comm, {second, torn});
    ADD_FAILURE();
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadInput");
    EXPECT_NE(error.text().find("c.nc lacks a value at record 1 of 2"), std::string::npos) << error.text();
  }
}

TEST(FieldSeries, refuses_files_that_do_not_continue_one_another) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  struct Case {
    Part second;
    char const* rule;
    char const* word;
  };
  for (auto const& one : std::vector<Case>{
           {{.times = {3}}, "", ""},
           {{.times = {2, 3}}, "BadInput", "part_9.nc follows"},
           {{.times = {-1}}, "BadInput", "from 2000-01-01 02:00"},
           {{.times = {4, 3}}, "BadInput", "within"},
           {{.times = {3}, .units = "degC"}, "BadInput", "'degC' instead of 'K'"},
           {{.times = {3}, .time_units = "months since 2000-01-01"}, "BadInput", "units of time"},
           {{.times = {3}, .latitudes = "10, 0, -20"}, "BadInput", "lat are others, first -20 instead of -10 at 2"},
           {{.times = {3}, .dimensions = "lat = 3; lon = 4; x = 2;", .more = "int q(time, x);"}, "", ""},
           {{.times = {3}, .time_units = "Hours since 2000-1-1T00:00:00Z"}, "", ""},
           {{.times = {3}, .time_units = "hours since 2000-01-01 00:00 UTC"}, "", ""},
           {{.times = {-3}, .time_units = "hours since 2000-01-01 06:00"}, "", ""},
           {{.times = {-4}, .time_units = "hours since 2000-01-01 06:00"}, "BadInput", "from 2000-01-01 02:00"},
           {{.times = {4}, .time_units = "hours since 2000-01-01 00:00 +01:00"}, "", ""},
           {{.times = {4}, .time_units = "hours since 2000-01-01 00:00 XYZ"}, "BadInput", "XYZ'"},
           {{.times = {3}, .units = "kelvin"}, "", ""},
           {{.times = {3}, .latitudes = "10.0000001, 0, -10"}, "", ""},
           {{.times = {3}, .dimensions = "lat = 3; lon = 4; k = 2;", .more = "int k(k);"}, "", ""}}) {
    Folder const folder(comm);
    auto const files = make_files(folder, {{.times = {0, 1, 2}}, one.second});

    EXPECT_EQ(rule_of_naming([&] { FieldSeries const series(comm, files); }, one.word), one.rule) << one.word;
  }
  Folder const folder(comm);
  EXPECT_EQ(rule_of_naming([&] { (void)find_files(comm, (folder / "x*.nc").string()); }, "x*.nc"), "NoSuchFile");
  EXPECT_EQ(rule_of([&] { FieldSeries const series(comm, {}); }), "NoSuchFile");
  EXPECT_EQ(rule_of([&] { FieldSeries const series(comm, {folder / "gone.nc"}); }), "NoSuchFile");
}

/// Each file has a date of reference, and units, of its own.
TEST(FieldSeries, reads_times_in_units_of_the_first_file) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  struct Case {
    char const* type;
    std::vector<char const*> units;
    std::vector<double> times;  ///< of each file 1 and 2
    char const* calendar;
  };
  for (auto const& one : std::vector<Case>{
           {"int",
            {"minutes since 2010-01-01 00:30:00", "minutes since 2010-01-02 00:30:00", "Hours since 2010-1-3T00:30Z"},
            {1, 2, 1441, 1442, 2940, 3000},
            ""},
           {"double",
            {"days since 2000-02-28", "hours since 2000-03-01 12:00"},
            {1, 2, 2.5 + 1.0 / 24, 2.5 + 2.0 / 24},
            "gregorian"},
           {"int",
            {"milliseconds since 2010-01-01 00:00:00.5", "seconds since 2010-01-01T00:00:02.000000000"},
            {1, 2, 2500, 3500},
            "standard"},
           {"double", {"days since 2000-02-28", "days since 2000-03-01"}, {1, 2, 2, 3}, "noleap"},
           {"double", {"days since 2000-02-28", "days since 2000-03-01"}, {1, 2, 4, 5}, "360_day"}}) {
    Folder const folder(comm);
    std::vector<std::filesystem::path> files;
    for (auto const* units : one.units)
      files.push_back(folder.make("t" + std::to_string(files.size()) + ".nc", [&](auto const& p) {
        bool const turns = std::string(one.calendar) == "noleap" && !files.empty();
        test::write_cdl(p, std::string("netcdf t { dimensions: time = UNLIMITED; bnds = 2; variables: ") + one.type +
                               " time(time); time:units = \"" + units + "\"; time:bounds = \"b\"; time:calendar = \"" +
                               (turns ? "365_day" : one.calendar) + "\"; double b(time, bnds); float v(time); " +
                               (turns ? "data: time = 1.5, 2; b = 1.5, 1.5, 2, 2; v = 1, 2; }"
                                      : "data: time = 1, 2; b = 1, 1, 2, 2; v = 1, 2; }"));
      }));
    auto expected = one.times;
    if (std::string(one.calendar) == "noleap") expected = {1, 2, 2.5, 3};
    FieldSeries const series(comm, files, {.most_open = 1});
    auto const n = Index(expected.size());
    std::vector<double> times(expected.size());
    std::vector<double> bounds(2 * expected.size());

    series.read("time", Box({0}, {n}), std::span(times));
    series.read("b", Box({0, 0}, {n, 2}), std::span(bounds));

    EXPECT_EQ(series.coordinate("time"), expected) << one.calendar;
    EXPECT_EQ(times, expected) << one.calendar;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(bounds[2 * i], expected[i]);
      EXPECT_EQ(bounds[2 * i + 1], expected[i]);
    }
    EXPECT_EQ(series.variable("time").text("units"), one.units.front());
  }
  // Other calendars do not compare, and months have no length in days.
  Folder const folder(comm);
  auto const make = [&](char const* name, char const* text) {
    return folder.make(name, [&](auto const& p) {
      test::write_cdl(
          p, std::string("netcdf t { dimensions: time = UNLIMITED; variables: int time(time); time:units = ") + text +
                 "; float v(time); data: time = 1; v = 1; }");
    });
  };
  auto const first = make("a.nc", "\"days since 2000-01-01\"");
  EXPECT_EQ(rule_of_naming(
                [&] {
                  FieldSeries const series(comm, {first, make("b.nc", "\"months since 2000-01-01\"")});
                },
                "units of time are 'months since 2000-01-01' instead of 'days since 2000-01-01'"),
            "BadInput");
  EXPECT_EQ(rule_of_naming(
                [&] {
                  FieldSeries const series(
                      comm, {first, make("c.nc", "\"days since 2000-01-09\"; time:calendar = \"noleap\"")});
                },
                "of time are"),
            "BadInput");
}

/// xarray writes `proleptic_gregorian` where other programs write `standard`.
TEST(FieldSeries, joins_the_gregorian_calendars_where_they_are_one) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const make = [&](char const* name, char const* units, char const* calendar, char const* days) {
    return folder.make(name, [&](auto const& p) {
      test::write_cdl(p, std::string("netcdf t { dimensions: time = UNLIMITED; variables: double time(time); ") +
                             "time:units = \"days since " + units + "\"; time:calendar = \"" + calendar +
                             "\"; float v(time); data: time = " + days + "; v = 1; }");
    });
  };
  auto const first = make("a.nc", "1900-01-01", "standard", "0");
  auto const same = make("b.nc", "1950-01-01", "proleptic_gregorian", "1");
  auto const early = make("c.nc", "0001-01-01", "proleptic_gregorian", "730000");
  auto const before = make("d.nc", "1900-01-01", "standard", "-200000");
  auto const after = make("e.nc", "1900-01-01", "proleptic_gregorian", "-199999");
  auto const joined = [&](std::filesystem::path const& a, std::filesystem::path const& b) {
    return [&comm, files = std::vector{a, b}] { FieldSeries const series(comm, files); };
  };

  EXPECT_EQ(FieldSeries(comm, {first, same}).coordinate("time"), (std::vector<double>{0, 18263}));
  EXPECT_EQ(rule_of_naming(joined(first, early), "units of time are 'days since 0001-01-01' instead of"), "BadInput");
  EXPECT_EQ(rule_of_naming(joined(before, after), "times before 1582-10-15, when these differ"), "BadInput");
}

/// xarray chooses the unit of each file so that its times are whole numbers.
TEST(FieldSeries, times_become_f64_where_integers_cannot_hold_them) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  std::vector<std::filesystem::path> files;
  for (auto const* text :
       {"int time(time); time:units = \"days since 2000-01-01\"; time:bounds = \"b\"; int b(time, n); float v(time); "
        "data: time = 0, 1; b = 0, 1, 1, 2; v = 1, 2;",
        "int time(time); time:units = \"hours since 2000-01-01 06:00\"; time:bounds = \"b\"; int b(time, n); "
        "float v(time); data: time = 45; b = 42, 54; v = 3;",
        "double time(time); time:units = \"days since 2000-01-01\"; time:bounds = \"b\"; double b(time, n); "
        "float v(time); data: time = 3; b = 2.5, 3.5; v = 4;"})
    files.push_back(folder.make("t" + std::to_string(files.size()) + ".nc", [&](auto const& p) {
      test::write_cdl(p, std::string("netcdf t { dimensions: time = UNLIMITED; n = 2; variables: ") + text + " }");
    }));

  FieldSeries const series(comm, files);

  EXPECT_EQ(series.coordinate("time"), (std::vector<double>{0, 1, 2.125, 3}));
  EXPECT_EQ(series.variable("time").type, ValueType::f64);
  EXPECT_EQ(series.variable("b").type, ValueType::f64);
  std::vector<double> bounds(8);
  series.read("b", Box({0, 0}, {4, 2}), std::span(bounds));
  EXPECT_EQ(bounds, (std::vector<double>{0, 1, 1, 2, 2, 2.5, 2.5, 3.5}));
}

TEST(FieldSeries, counts_months_from_dates_of_their_own) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const make = [&](char const* name, std::string const& units) {
    return folder.make(name, [&](auto const& p) {
      test::write_cdl(p, "netcdf t { dimensions: time = UNLIMITED; variables: int time(time); time:units = \"" + units +
                             "\"; float v(time); data: time = 0, 1; v = 1, 2; }");
    });
  };
  auto const first = make("a.nc", "months since 1979-01-01");

  FieldSeries const series(comm, {first, make("b.nc", "Month since 1980-02-01")});

  EXPECT_EQ(series.coordinate("time"), (std::vector<double>{0, 1, 13, 14}));
  EXPECT_EQ(rule_of_naming(
                [&] {
                  FieldSeries const other(comm, {first, make("c.nc", "months since 1980-02-15")});
                },
                "'months since 1980-02-15' instead of 'months since 1979-01-01'"),
            "BadInput");
}

TEST(FieldSeries, a_variable_that_a_later_file_lacks_hinders_nobody) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const files = make_files(folder, {{.times = {0, 1, 2}, .more = "int q(time, lat);"}, {.times = {3}}});

  FieldSeries const series(comm, files);

  std::vector<double> values(12);
  series.read("t", Box({3, 0, 0}, {4, 3, 4}), std::span(values));
  EXPECT_EQ(values[5], 3005);
  values.resize(3);
  EXPECT_EQ(rule_of_naming(
                [&] {
                  series.read("q", Box({0, 0}, {1, 3}), std::span(values));
                },
                "part_9.nc, which continues it, has no variable q"),
            "BadInput");
}

TEST(FieldSeries, a_name_of_a_file_that_exists_is_no_pattern) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  if (comm.rank() == 0)
    for (char const* name : {"[x].nc", "x.nc"}) write_complete_file(folder / name, "text");
  comm.barrier();

  auto const named = find_files(comm, (folder / "[x].nc").string());
  auto const matched = find_files(comm, (folder / "[xy].nc").string());

  EXPECT_EQ(named, std::vector{folder / "[x].nc"});
  EXPECT_EQ(matched, std::vector{folder / "x.nc"});
}

TEST(FieldSeries, throws_on_all_ranks_for_a_wrong_box_on_one) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const series(comm, make_files(folder, good_parts("UNLIMITED")));
  bool const last = comm.rank() == comm.num_ranks() - 1;
  std::vector<double> values(12);
  Box const right({9, 0, 0}, {10, 3, 4});

  EXPECT_EQ(rule_of([&] {
              series.read("t", last ? Box({10, 0, 0}, {11, 3, 4}) : right, std::span(values));
            }),
            "OutOfRange");
  EXPECT_EQ(rule_of([&] { series.read("t", right, std::span(values).first(last ? 11 : 12)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              series.read("t", {.box = right, .axes = last ? Indices{0, 1} : Indices{}},
                          field_view(values.data(), {1, 3, 4}, 2));
            }),
            "BadSelection");
  EXPECT_EQ(rule_of([&] { (void)series.variable("q"); }), "MissingVariable");
  series.read("t", right, std::span(values));
  EXPECT_EQ(values[5], 12005);
}

}  // namespace
}  // namespace graticule
