// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/series_reader.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>

#include "pmpi_shim.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

namespace graticule {
namespace {

using test::Folder;

/// What one file of a series holds; wrong ones differ in one place.
struct Part {
  std::vector<double> times;
  std::string dimensions = "lat = 3; lon = 4;";
  std::string latitudes = "10, 0, -10";
  std::string units = "K";
  std::string time_units = "hours since 2000-01-01";
  double scale = 1;
  std::string more = {};
  std::string length = "UNLIMITED";
};

/// `t(time, lat, lon)` holds 1000 time + cell, packed by the part's own scale; `s(lat, time)` has time second.
void write_part(std::filesystem::path const& path, Part const& part) {
  std::string times;
  std::string t;
  std::string s;
  auto const list = [](std::string& text, double value) { text += (text.empty() ? "" : ", ") + std::to_string(value); };
  for (auto const time : part.times) {
    list(times, time);
    for (int cell = 0; cell < 12; ++cell) list(t, (1000 * time + cell) / part.scale);
  }
  for (int row = 0; row < 3; ++row)
    for (auto const time : part.times) list(s, time * 10 + row);
  auto const length = part.length.empty() ? std::to_string(part.times.size()) : part.length;
  test::write_cdl(path, "netcdf part { dimensions: time = " + length + "; " + part.dimensions +
                            " variables: double time(time); time:units = \"" + part.time_units +
                            "\"; double lat(lat); lat:units = \"degrees_north\"; double lon(lon); int t(time, lat, " +
                            "lon); t:scale_factor = " + std::to_string(part.scale) + "; t:units = \"" + part.units +
                            "\"; float area(lat); " + (part.length.empty() ? "double s(lat, time); " : "") + part.more +
                            " data: time = " + times + "; lat = " + part.latitudes + "; lon = 0, 90, 180, 270; t = " +
                            t + "; area = 1, 2, 3; " + (part.length.empty() ? "s = " + s + "; " : "") + "}");
}

std::vector<std::filesystem::path> make_files(Folder const& folder, std::vector<Part> const& parts) {
  std::vector<std::filesystem::path> files;
  for (std::size_t i = 0; i < parts.size(); ++i)
    files.push_back(
        folder.make("part_" + std::to_string(i + 8) + ".nc", [&](auto const& p) { write_part(p, parts[i]); }));
  return files;
}

std::vector<Part> good_parts(std::string const& length) {
  return {{.times = {0, 1, 2}, .scale = 1, .length = length},
          {.times = {3}, .scale = 0.5, .length = length},
          {.times = {4, 5, 6, 7}, .scale = 0.25, .length = length},
          {.times = {10, 12}, .scale = 0.125, .length = length}};
}

std::vector<double> const all_times{0, 1, 2, 3, 4, 5, 6, 7, 10, 12};

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
    EXPECT_EQ(error.rule(), "UnsortedSeries");
    EXPECT_NE(error.given().find("c.nc lacks a value at record 1 of 2"), std::string::npos) << error.given();
  }
}

std::string rule_of(std::function<void()> const& action, std::string const& word = {}) {
  try {
    action();
  } catch (Error const& error) {
    EXPECT_NE(error.given().find(word), std::string::npos) << error.given();
    return error.rule();
  }
  return {};
}

TEST(FieldSeries, refuses_files_that_do_not_continue_one_another) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  struct Case {
    Part second;
    char const* rule;
    char const* word;
  };
  for (auto const& one :
       std::vector<Case>{{{.times = {3}}, "", ""},
                         {{.times = {2, 3}}, "UnsortedSeries", "part_9.nc follows"},
                         {{.times = {-1}}, "UnsortedSeries", "from 2.0"},
                         {{.times = {4, 3}}, "UnsortedSeries", "within"},
                         {{.times = {3}, .units = "degC"}, "SeriesMismatch", "'degC' instead of 'K'"},
                         {{.times = {3}, .time_units = "days since 2000-01-01"}, "SeriesMismatch", "units of time"},
                         {{.times = {3}, .latitudes = "10, 0, -20"}, "SeriesMismatch", "values of lat"},
                         {{.times = {3}, .dimensions = "lat = 3; lon = 4; x = 2;", .more = "int q(time, x);"},
                          "SeriesMismatch",
                          "variable q"},
                         {{.times = {3}, .dimensions = "lat = 3; lon = 4; k = 2;", .more = "int k(k);"}, "", ""}}) {
    Folder const folder(comm);
    auto const files = make_files(folder, {{.times = {0, 1, 2}}, one.second});

    EXPECT_EQ(rule_of([&] { FieldSeries const series(comm, files); }, one.word), one.rule) << one.word;
  }
  Folder const folder(comm);
  EXPECT_EQ(rule_of([&] { (void)find_files(comm, (folder / "x*.nc").string()); }, "x*.nc"), "NoSuchFile");
  EXPECT_EQ(rule_of([&] { FieldSeries const series(comm, {}); }), "NoSuchFile");
  EXPECT_EQ(rule_of([&] { FieldSeries const series(comm, {folder / "gone.nc"}); }), "NoSuchFile");
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
            "BoxOutsideVariable");
  EXPECT_EQ(rule_of([&] { series.read("t", right, std::span(values).first(last ? 11 : 12)); }), "WrongSize");
  EXPECT_EQ(rule_of([&] {
              series.read("t", {.box = right, .axes = last ? Indices{0, 1} : Indices{}},
                          field_view(values.data(), {1, 3, 4}, 2));
            }),
            "BadSelection");
  EXPECT_EQ(rule_of([&] { (void)series.variable("q"); }), "MissingVariable");
  series.read("t", right, std::span(values));
  EXPECT_EQ(values[5], 12005);
}

std::vector<double> numbers(StoredCells const& cells) {
  std::vector<double> values(std::size_t(cells.num_cells()));
  cells.unpack(values);
  return values;
}

bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

TEST(SeriesReader, gives_what_the_series_gives) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const packed(comm, make_files(folder, good_parts("UNLIMITED")));
  Folder const other(comm);
  FieldSeries const second_axis(comm, make_files(other, good_parts("")));
  SeriesReader reader(packed, 2);
  SeriesReader second(second_axis);
  std::mt19937 random(unsigned(comm.rank()) + 5);
  for (int turn = 0; turn < 10; ++turn) {
    Index const a = Index(random() % 11);
    Index const b = Index(random() % 11);
    Box const box({std::min(a, b), 1, 0}, {std::max(a, b), 3, 3});
    Box const turned({turn % 3, std::min(a, b)}, {3, std::max(a, b)});
    std::vector<double> expected(std::size_t(box.num_cells()));
    std::vector<double> expected_turned(std::size_t(turned.num_cells()));
    packed.read("t", box, std::span(expected));
    second_axis.read("s", turned, std::span(expected_turned));

    StoredCells const cells = reader.read("t", box);

    EXPECT_EQ(numbers(cells), expected);
    EXPECT_EQ(cells.num_bytes(), 4 * box.num_cells());
    EXPECT_EQ(numbers(second.read("s", turned)), expected_turned);
  }
  EXPECT_EQ(numbers(reader.read("area", Box({1}, {3}))), (std::vector<double>{2, 3}));
  EXPECT_EQ(reader.value_bytes("area"), 4);
}

TEST(SeriesReader, fills_up_short_variables) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("a.nc", [](auto const& p) {
    test::write_cdl(p,
                    "netcdf short { dimensions: t = UNLIMITED; variables: int t(t); int v(t); data: t = 0, 1, 2; v = "
                    "10; }");
    test::shorten(p, "v", {1});
  });

  auto const values = numbers(SeriesReader(FieldSeries(comm, {path})).read("v", Box({0}, {3})));

  EXPECT_TRUE(same_bits(values, {10, std::nan(""), std::nan("")}));
}

TEST(SeriesReader, makes_no_mpi_call) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const series(comm, make_files(folder, good_parts("UNLIMITED")));
  auto const before = test::mpi_calls();

  SeriesReader reader(series);
  auto const values = numbers(reader.read("t", Box({0, 0, 0}, {10, 3, 4})));

  EXPECT_EQ(test::mpi_calls(), before);
  EXPECT_EQ(values.back(), 12011);
}

// HDF5 keeps its tables for all threads: without a lock round every use this ends in errors or in a crash.
TEST(SeriesReader, reads_in_a_thread_while_ranks_read_and_write_other_files) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const series(comm, make_files(folder, good_parts("UNLIMITED")));
  std::atomic<bool> ends = false;
  std::atomic<int> num_reads = 0;
  std::atomic<int> num_wrong = 0;
  std::thread thread([&] {
    for (Index time = 0; !ends; time = (time + 1) % 10) {
      SeriesReader reader(series, 1);  // opens and closes files all the time
      try {
        if (numbers(reader.read("t", Box({time, 0, 0}, {time + 1, 3, 4})))[5] !=
            1000 * all_times[std::size_t(time)] + 5)
          ++num_wrong;
      } catch (Error const&) {
        ++num_wrong;
      }
      ++num_reads;
    }
  });

  // Ranks that share cores are slow in collective calls.
  int const num_turns = comm.num_ranks() == 1 ? 40 : 4;
  for (int turn = 0;; ++turn) {
    std::vector<double> values(12, double(turn));
    bool const writes = comm.rank() == 0;
    FieldWriter writer(comm, folder / "other.nc");
    writer.add_dimension("x", 12);
    writer.add_variable({.name = "w", .dimensions = {"x"}, .type = ValueType::f64});
    writer.write("w", Box({0}, {writes ? 12 : 0}), std::span<double const>(values).first(writes ? 12 : 0));
    writer.commit();
    std::vector<double> back(12);
    FieldFile(comm, folder / "other.nc").read("w", Box({0}, {12}), std::span(back));
    EXPECT_EQ(back, values);
    std::array<Index, 1> least{-num_reads};
    comm.max(std::span<Index>(least));
    if (turn >= num_turns && -least[0] >= 2 * num_turns) break;
  }

  ends = true;
  thread.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST(SeriesReader, names_file_and_variable_of_what_it_cannot_read) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const files = make_files(folder, good_parts("UNLIMITED"));
  FieldSeries const series(comm, files);
  SeriesReader reader(series);
  Box const third({4, 0, 0}, {5, 3, 4});
  EXPECT_EQ(rule_of([&] { (void)reader.read("t", Box({10, 0, 0}, {11, 3, 4})); }), "BoxOutsideVariable");
  EXPECT_EQ(rule_of([&] { (void)reader.read("q", third); }), "MissingVariable");
  folder.make("part_9.nc", [](auto const& p) { write_part(p, {.times = {3, 3.5}}); });
  folder.make("part_10.nc", [](auto const& p) { std::filesystem::remove(p); });

  EXPECT_EQ(rule_of([&] { (void)reader.read("t", third); }, "part_10.nc cannot be read (variable t"), "BrokenFile");
  EXPECT_EQ(rule_of(
                [&] {
                  (void)reader.read("t", Box({3, 0, 0}, {4, 3, 4}));
                },
                "part_9.nc cannot be read (variable t"),
            "BrokenFile");
  EXPECT_EQ(numbers(reader.read("t", Box({9, 0, 0}, {10, 3, 4})))[1], 12001);
}

}  // namespace
}  // namespace graticule
