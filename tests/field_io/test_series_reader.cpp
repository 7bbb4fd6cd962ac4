// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/series_reader.hpp>
#include <graticule/field_io/writer.hpp>

#include "environment.hpp"
#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "series_files.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace graticule {
namespace {

using test::all_times;
using test::Folder;
using test::good_parts;
using test::make_files;
using test::rule_of;
using test::rule_of_naming;
using test::write_part;

std::vector<double> numbers(StoredCells const& cells) {
  std::vector<double> values(std::size_t(cells.num_cells()));
  cells.unpack(values);
  return values;
}

bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

TEST(SeriesReader, reads_files_that_the_series_has_listed_without_a_list_of_its_own) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const series(comm, make_files(folder, good_parts("UNLIMITED")));
  SeriesReader reader(series);
  Box const all({0, 0, 0}, series.variable("t").extents);
  std::vector<double> expected(std::size_t(all.num_cells()));
  series.read("t", all, std::span(expected));
  test::WithVariable const none("GRATICULE_READ_STRUCTURE", "/a/folder/that/is/not/there");

  EXPECT_TRUE(same_bits(numbers(reader.read("t", all)), expected));
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
  EXPECT_EQ(rule_of([&] { (void)reader.read("t", Box({10, 0, 0}, {11, 3, 4})); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { (void)reader.read("q", third); }), "MissingVariable");
  folder.make("part_9.nc", [](auto const& p) { write_part(p, {.times = {3, 3.5}}); });
  folder.make("part_10.nc", [](auto const& p) { std::filesystem::remove(p); });

  EXPECT_EQ(rule_of_naming([&] { (void)reader.read("t", third); }, "part_10.nc cannot be read (variable t"),
            "BrokenFile");
  EXPECT_EQ(rule_of_naming(
                [&] {
                  (void)reader.read("t", Box({3, 0, 0}, {4, 3, 4}));
                },
                "part_9.nc cannot be read (variable t"),
            "BrokenFile");
  EXPECT_EQ(numbers(reader.read("t", Box({9, 0, 0}, {10, 3, 4})))[1], 12001);
}

// The list of a file that has changed is of no use: its datasets lie elsewhere.
TEST(SeriesReader, lists_a_file_again_that_was_written_anew) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldSeries const series(comm, make_files(folder, good_parts("UNLIMITED")));
  SeriesReader reader(series);
  folder.make("part_10.nc", [](auto const& p) {
    write_part(p, {.times = {4, 5, 6, 7}, .scale = 2, .more = "double first(lat); double second(time, lat, lon); "});
  });

  auto const values = numbers(reader.read("t", Box({3, 0, 0}, {7, 3, 4})));

  EXPECT_EQ(values[0], 3000);
  EXPECT_EQ(values[13], 4000);  // 4001 / 2 as an integer, times 2
}

}  // namespace
}  // namespace graticule
