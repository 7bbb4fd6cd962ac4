// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace graticule {
namespace {

using test::Folder;
using test::rule_of;

constexpr Index num_rows = 5;
constexpr Index num_columns = 4;

float formula(Index record, Index cell) { return float(record * 100 + cell); }

Box own_rows(Comm const& comm, Index lo, Index hi) {
  auto const cuts = balanced_cuts(num_rows, comm.num_ranks());
  return {{lo, cuts.lo(comm.rank()), 0}, {hi, cuts.hi(comm.rank()), num_columns}};
}

/// Writes the records [lo, hi) of all variables, the coordinate last.
void write_records(Comm const& comm, FieldWriter& writer, Index lo, Index hi) {
  auto const box = own_rows(comm, lo, hi);
  std::vector<float> values;
  for (Index t = lo; t < hi; ++t)
    for (Index j = box.lo(1); j < box.hi(1); ++j)
      for (Index i = 0; i < num_columns; ++i) values.push_back(formula(t, j * num_columns + i));
  for (auto const* name : {"plain", "deflated", "packed"}) writer.write(name, box, std::span<float const>(values));
  bool const writes = comm.rank() == 0;
  std::vector<double> times;
  for (Index t = lo; t < hi; ++t) times.push_back(double(t) * 6);
  writer.write("time", Box({lo}, {writes ? hi : lo}), std::span<double const>(times).first(writes ? times.size() : 0));
}

void write_first(Comm const& comm, std::filesystem::path const& path, Index num_records, int writers) {
  FieldWriter writer(comm, path, {Attribute::of_text("title", "records")}, {.writers_per_node = writers});
  writer.add_dimension("time", num_records, DimensionKind::unlimited);
  writer.add_dimension("row", num_rows);
  writer.add_dimension("column", num_columns);
  std::vector<std::string> const dimensions{"time", "row", "column"};
  writer.add_variable({.name = "time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {Attribute::of_text("units", "hours since 2000-01-01")}});
  writer.add_variable({.name = "plain", .dimensions = dimensions});
  writer.add_variable({.name = "deflated", .dimensions = dimensions, .chunk = {2, 3, 4}, .deflate = 2});
  writer.add_variable({.name = "packed", .dimensions = dimensions, .type = ValueType::i16, .packing = Packing{0.5, 1}});
  writer.add_variable({.name = "area", .dimensions = {"row"}});
  write_records(comm, writer, 0, num_records);
  std::vector<float> const area(num_rows, 2.5F);
  bool const writes = comm.rank() == 0;
  writer.write("area", Box({0}, {writes ? num_rows : 0}), std::span<float const>(area).first(writes ? num_rows : 0));
  writer.commit();
}

void expect_records(Comm const& comm, std::filesystem::path const& path, Index num_records) {
  FieldFile const file(comm, path);
  ASSERT_EQ(file.contents().dimensions[0], (Dimension{"time", num_records, true}));
  auto const times = file.coordinate("time");
  for (auto const* name : {"plain", "deflated", "packed"}) {
    std::vector<float> values(std::size_t(num_records * num_rows * num_columns));
    file.read(name, Box({0, 0, 0}, {num_records, num_rows, num_columns}), std::span(values));
    std::size_t i = 0;
    for (Index t = 0; t < num_records; ++t) {
      EXPECT_EQ(times[std::size_t(t)], double(t) * 6);
      for (Index cell = 0; cell < num_rows * num_columns; ++cell, ++i) ASSERT_EQ(values[i], formula(t, cell)) << name;
    }
  }
  EXPECT_EQ(file.variable("time").text("units"), "hours since 2000-01-01");
}

struct AppendCase {
  Index first;
  AppendTo to;
  int writers;
};

TEST(FieldWriter, appends_records_to_what_is_there) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "records.nc";
  for (auto const& one :
       std::vector<AppendCase>{{3, AppendTo::copy, 0}, {0, AppendTo::in_place, 0}, {2, AppendTo::in_place, 1}}) {
    // Collective calls are slow where ranks outnumber cores.
    if (comm.num_ranks() > 2 && one.to == AppendTo::in_place && one.writers == 0) continue;
    FieldWriterOptions const options{.writers_per_node = one.writers};
    write_first(comm, path, one.first, one.writers);
    expect_records(comm, path, one.first);
    for (Index more = 1; more < 3; ++more) {
      auto const lo = one.first + (more == 2 ? 1 : 0);
      auto writer = FieldWriter::append(comm, path, one.to, options);
      writer.extend("time", more);
      write_records(comm, writer, lo, lo + more);
      writer.commit();
      expect_records(comm, path, lo + more);
    }
    if (!test::has_tool("ncdump")) continue;
    auto const text = test::ncdump(folder, path);
    auto const count = std::to_string(one.first + 3);
    EXPECT_NE(text.find("time = UNLIMITED ; // (" + count + " currently)"), std::string::npos) << text;
    EXPECT_EQ(text.find('_', text.find("data:")), std::string::npos) << text;
  }
}

TEST(FieldWriter, writes_a_new_file_record_by_record) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "growing.nc";
  {
    FieldWriter writer(comm, path);
    writer.add_dimension("time", 0, DimensionKind::unlimited);
    writer.add_dimension("x", 3);
    writer.add_variable({.name = "v", .dimensions = {"time", "x"}});
    std::vector<float> const values{1, 2, 3};
    bool const writes = comm.rank() == 0;
    for (Index t = 0; t < 4; ++t) {
      writer.extend("time", 1);
      writer.write("v", Box({t, 0}, {t + 1, writes ? 3 : 0}), std::span<float const>(values).first(writes ? 3 : 0));
    }
    writer.commit();
  }
  {
    // A dimension without coordinate grows as well.
    auto writer = FieldWriter::append(comm, path);
    writer.extend("time", 1);
    std::vector<float> const values{4, 5, 6};
    bool const writes = comm.rank() == 0;
    writer.write("v", Box({4, 0}, {5, writes ? 3 : 0}), std::span<float const>(values).first(writes ? 3 : 0));
    writer.commit();
  }
  FieldFile const file(comm, path);
  std::vector<float> values(15);

  file.read("v", Box({0, 0}, {5, 3}), std::span(values));

  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.contents().dimensions[0], (Dimension{"time", 5, true}));
}

TEST(FieldWriter, appends_without_holes_in_the_file) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "growing.nc";
  constexpr Index num_cells = 4096;
  constexpr std::uintmax_t record_bytes = num_cells * sizeof(float);
  {
    FieldWriter writer(comm, path);
    writer.add_dimension("time", 0, DimensionKind::unlimited);
    writer.add_dimension("x", num_cells);
    writer.add_variable({.name = "time", .dimensions = {"time"}, .type = ValueType::f64});
    writer.add_variable({.name = "v", .dimensions = {"time", "x"}});
    writer.commit();
  }
  bool const writes = comm.rank() == 0;
  std::vector<float> const values(writes ? num_cells : 0, 1.5F);
  std::vector<double> const times(writes ? 1 : 0, 6.0);
  auto const append = [&](Index t) {
    auto writer = FieldWriter::append(comm, path, AppendTo::in_place);
    writer.extend("time", 1);
    writer.write("v", Box({t, 0}, {t + 1, writes ? num_cells : 0}), std::span<float const>(values));
    writer.write("time", Box({t}, {writes ? t + 1 : t}), std::span<double const>(times));
    writer.commit();
    comm.barrier();
  };

  append(0);
  auto const first = std::filesystem::file_size(path);
  append(1);
  append(2);

  EXPECT_LT(std::filesystem::file_size(path), first + 2 * (record_bytes + 4096));
  // Room that a killed program had reserved goes, too.
  comm.barrier();
  if (writes) std::filesystem::resize_file(path, first + (8U << 20U));
  comm.barrier();
  append(3);
  EXPECT_LT(std::filesystem::file_size(path), first + 3 * (record_bytes + 4096));
  std::vector<float> all(4 * num_cells);
  FieldFile(comm, path).read("v", Box({0, 0}, {4, num_cells}), std::span(all));
  EXPECT_EQ(all, std::vector<float>(all.size(), 1.5F));
}

TEST(FieldWriter, appends_to_what_netcdf_wrote) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen") || !test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  auto const path = folder.make("foreign.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf foreign { dimensions: time = UNLIMITED; x = 2; variables: int time(time);
      double v(time, x); v:_FillValue = -1.; short big(time, x); big:_Endianness = "big"; char name(x);
      data: time = 1, 2; v = 1, 2, 3, 4; big = 1, 2, 3, 4; name = "ab"; })");
  });
  for (auto const to : {AppendTo::copy, AppendTo::in_place}) {
    auto writer = FieldWriter::append(comm, path, to);
    Index const lo = to == AppendTo::copy ? 2 : 4;
    bool const writes = comm.rank() == 0;
    std::vector<double> const values{5, std::nan("")};
    std::vector<double> const whole{5, 6};
    for (Index t = lo; t < lo + 2; ++t) {
      writer.extend("time", 1);
      Box const box({t, 0}, {t + 1, writes ? 2 : 0});
      writer.write("v", box, std::span<double const>(values).first(writes ? 2 : 0));
      writer.write("big", box, std::span<double const>(whole).first(writes ? 2 : 0));
      writer.write("time", Box({t}, {writes ? t + 1 : t}), std::span<double const>(whole).first(writes ? 1 : 0));
    }
    writer.commit();
  }

  auto const text = test::ncdump(folder, path);

  for (auto const* line : {"time = 1, 2, 5, 5, 5, 5 ;", "3, 4,\n  5, _,\n  5, _,\n  5, _,\n  5, _ ;",
                           "5, 6,\n  5, 6,\n  5, 6,\n  5, 6 ;", "name = \"ab\" ;"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(FieldWriter, appends_to_what_netcdf_wrote_without_a_coordinate) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen") || !test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  auto const path = folder.make("bare.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf bare { dimensions: time = UNLIMITED; x = 2; variables: double v(time, x);
      data: v = 1, 2, 3, 4; })");
  });
  for (auto const to : {AppendTo::copy, AppendTo::in_place}) {
    auto writer = FieldWriter::append(comm, path, to);
    writer.extend("time", 1);
    Index const lo = to == AppendTo::copy ? 2 : 3;
    bool const writes = comm.rank() == 0;
    std::vector<double> const values{7, 8};
    writer.write("v", Box({lo, 0}, {lo + 1, writes ? 2 : 0}), std::span<double const>(values).first(writes ? 2 : 0));
    writer.commit();
  }

  auto const text = test::ncdump(folder, path);

  EXPECT_NE(text.find("(4 currently)"), std::string::npos) << text;
  EXPECT_NE(text.find("1, 2,\n  3, 4,\n  7, 8,\n  7, 8 ;"), std::string::npos) << text;
}

TEST(FieldWriter, appends_to_compressed_variables_of_netcdf) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen") || !test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  for (auto const* chunk : {"1, 3, 2", "2, 3, 2", "2, 2, 1", "3, 1, 2"})
    for (auto const to : {AppendTo::copy, AppendTo::in_place}) {
      SCOPED_TRACE(std::string(chunk) + (to == AppendTo::copy ? " copy" : " in place"));
      auto const path = folder.make("deflated.nc", [&](auto const& p) {
        test::write_cdl(p,
                        "netcdf deflated { dimensions: time = UNLIMITED; y = 3; x = 2; variables: int time(time); "
                        "int v(time, y, x); v:_DeflateLevel = 1; v:_ChunkSizes = " +
                            std::string(chunk) + "; data: time = 0; v = 0, 1, 2, 3, 4, 5; }");
      });
      auto writer = FieldWriter::append(comm, path, to);
      auto const cuts = balanced_cuts(3, comm.num_ranks());
      for (Index t = 1; t < 4; ++t) {
        writer.extend("time", 1);
        Box const box({t, cuts.lo(comm.rank()), 0}, {t + 1, cuts.hi(comm.rank()), 2});
        std::vector<double> values;
        for (Index cell = 2 * box.lo(1); cell < 2 * box.hi(1); ++cell) values.push_back(double(6 * t + cell));
        writer.write("v", box, std::span<double const>(values));
        bool const writes = comm.rank() == 0;
        auto const time = double(t);
        writer.write("time", Box({t}, {writes ? t + 1 : t}), std::span<double const>(&time, writes ? 1 : 0));
      }
      writer.commit();

      FieldFile const file(comm, path);
      std::vector<double> found(24);
      file.read("v", Box({0, 0, 0}, {4, 3, 2}), std::span(found));
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], double(i));
    }
}

TEST(FieldWriter, adds_to_compressed_chunks_in_many_calls) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const cuts = balanced_cuts(3, comm.num_ranks());
  FieldWriter writer(comm, folder / "deflated.nc");
  writer.add_dimension("time", 0, DimensionKind::unlimited);
  writer.add_dimension("y", 3);
  writer.add_dimension("fixed", 8);
  writer.add_variable({.name = "v", .dimensions = {"time", "y"}, .chunk = {4, 2}, .deflate = 1});
  writer.add_variable({.name = "w", .dimensions = {"fixed", "y"}, .chunk = {8, 3}, .deflate = 1});
  for (Index t = 0; t < 8; ++t) {
    writer.extend("time", 1);
    Box const box({t, cuts.lo(comm.rank())}, {t + 1, cuts.hi(comm.rank())});
    std::vector<double> values;
    for (Index y = box.lo(1); y < box.hi(1); ++y) values.push_back(double(3 * t + y));
    writer.write("v", box, std::span<double const>(values));
    writer.write("w", box, std::span<double const>(values));
  }
  writer.commit();

  FieldFile const file(comm, folder / "deflated.nc");
  for (auto const* name : {"v", "w"}) {
    std::vector<double> found(24);
    file.read(name, Box({0, 0}, {8, 3}), std::span(found));
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], double(i)) << name;
  }
}

TEST(FieldWriter, what_was_missing_before_an_append_stays_missing) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen") || !test::has_tool("ncdump")) GTEST_SKIP() << "netcdf-bin is not installed";
  Folder const folder(comm);
  for (auto const to : {AppendTo::copy, AppendTo::in_place}) {
    auto const path = folder.make("short.nc", [](auto const& p) {
      test::write_cdl(p, R"(netcdf short { dimensions: time = UNLIMITED; x = 2; variables: int time(time);
        double a(time, x); a:_FillValue = -1.; float b(time, x); short c(time, x); c:_DeflateLevel = 1;
        c:_ChunkSizes = 2, 2; double d(time, x); d:_ChunkSizes = 4, 1;
        data: time = 0, 1, 2; a = 1, 2; b = 3, 4; c = 5, 6; d = 7, 8; })");
      for (auto const* name : {"a", "b", "c", "d"}) test::shorten(p, name, {1, 2});
    });
    for (bool const commits : {false, true}) {
      auto writer = FieldWriter::append(comm, path, to);
      writer.extend("time", 1);
      bool const writes = comm.rank() == 0;
      std::vector<double> const values{10, 20};
      for (auto const* name : {"a", "b", "c", "d"})
        writer.write(name, Box({3, 0}, {4, writes ? 2 : 0}), std::span<double const>(values).first(writes ? 2 : 0));
      if (!commits) continue;
      writer.write("time", Box({3}, {writes ? 4 : 3}), std::span<double const>(values).first(writes ? 1 : 0));
      writer.commit();
    }

    FieldFile const file(comm, path);
    for (auto const* name : {"a", "b", "c", "d"}) {
      std::vector<double> found(8);
      file.read(name, Box({0, 0}, {4, 2}), std::span(found));
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(found[i]), i >= 2 && i < 6) << name << i;
      EXPECT_EQ(found[6], 10) << name;
      EXPECT_EQ(found[7], 20) << name;
      EXPECT_NE(file.variable(name).attribute("_FillValue"), nullptr) << name;
    }
    auto const text = test::ncdump(folder, path);
    for (auto const* line : {"1, 2,\n  _, _,\n  _, _,\n  10, 20 ;", "3, 4,\n  _, _,\n  _, _,\n  10, 20 ;",
                             "5, 6,\n  _, _,\n  _, _,\n  10, 20 ;", "7, 8,\n  _, _,\n  _, _,\n  10, 20 ;"})
      EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

/// As a program leaves a file that is killed before it writes the coordinate.
TEST(FieldWriter, writes_a_torn_record_anew) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "records.nc";
  write_first(comm, path, 2, 0);
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    for (auto const* name : {"plain", "deflated"}) {
      hid_t const dataset = H5Dopen2(file, name, H5P_DEFAULT);
      hsize_t const extents[]{3, num_rows, num_columns};
      H5Dset_extent(dataset, extents);
      H5Dclose(dataset);
    }
    H5Fclose(file);
  });

  auto writer = FieldWriter::append(comm, path, AppendTo::in_place);
  writer.extend("time", 1);
  write_records(comm, writer, 2, 3);
  writer.commit();

  expect_records(comm, path, 3);
  FieldFile const file(comm, path);
  EXPECT_EQ(file.variable("plain").extents[0], 3);
}

/// Leaves in a folder what the disk holds at this moment, as if the program were killed now.
void copy_as_killed(Comm const& comm, std::filesystem::path const& path, std::filesystem::path const& folder) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::filesystem::create_directory(folder);
    for (auto const& name : {path.filename().string(), "." + path.filename().string() + ".undo"})
      if (std::filesystem::exists(path.parent_path() / name))
        std::filesystem::copy_file(path.parent_path() / name, folder / name);
  });
}

TEST(FieldWriter, restores_what_a_killed_append_in_place_leaves) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "records.nc";
  write_first(comm, path, 3, 0);
  auto const old = test::read_bytes(path);
  comm.barrier();
  {
    auto writer = FieldWriter::append(comm, path, AppendTo::in_place);
    copy_as_killed(comm, path, folder / "began");
    writer.extend("time", 2);
    copy_as_killed(comm, path, folder / "extended");
    write_records(comm, writer, 3, 5);
    copy_as_killed(comm, path, folder / "written");
    writer.commit();
    copy_as_killed(comm, path, folder / "committed");
  }
  expect_records(comm, path, 5);
  EXPECT_FALSE(std::filesystem::exists(folder / "committed" / ".records.nc.undo"));

  for (auto const* moment : {"began", "extended", "written"}) {
    SCOPED_TRACE(moment);
    auto const torn = folder / moment / "records.nc";
    expect_records(comm, torn, 3);
    EXPECT_EQ(test::read_bytes(torn), old);
    comm.barrier();
    auto writer = FieldWriter::append(comm, torn, AppendTo::in_place);
    writer.extend("time", 2);
    write_records(comm, writer, 3, 5);
    writer.commit();
    EXPECT_EQ(test::read_bytes(torn), test::read_bytes(path));
  }
}

TEST(FieldWriter, refuses_a_second_append_at_the_same_time) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "records.nc";
  write_first(comm, path, 1, 0);
  auto writer = FieldWriter::append(comm, path, AppendTo::in_place);

  for (auto const to : {AppendTo::copy, AppendTo::in_place})
    EXPECT_EQ(rule_of([&] { (void)FieldWriter::append(comm, path, to); }),
              (test::ErrorWith{"OutputError", "another program appends to it"}));

  // Readers find what was committed.
  expect_records(comm, path, 1);
  writer.extend("time", 1);
  write_records(comm, writer, 1, 2);
  writer.commit();
  expect_records(comm, path, 2);
}

TEST(FieldWriter, saves_no_cells_of_whole_chunks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "growing.nc";
  constexpr Index num_cells = 1 << 16;
  constexpr Index num_records = 8;
  bool const writes = comm.rank() == 0;
  {
    FieldWriter writer(comm, path);
    writer.add_dimension("time", num_records, DimensionKind::unlimited);
    writer.add_coordinate("x", std::vector<double>(num_cells));
    writer.add_variable({.name = "time", .dimensions = {"time"}, .type = ValueType::f64});
    writer.add_variable({.name = "v", .dimensions = {"time", "x"}});
    writer.add_variable({.name = "fixed", .dimensions = {"x"}});
    Index const all = writes ? num_records * num_cells : 0;
    writer.write("v", Box({0, 0}, {writes ? num_records : 0, num_cells}),
                 std::span<float const>(std::vector<float>(std::size_t(all))));
    writer.write("fixed", Box({0}, {writes ? num_cells : 0}),
                 std::span<float const>(std::vector<float>(writes ? num_cells : 0)));
    writer.write("time", Box({0}, {writes ? num_records : 0}),
                 std::span<double const>(std::vector<double>(writes ? num_records : 0)));
    writer.commit();
  }

  auto const writer = FieldWriter::append(comm, path, AppendTo::in_place);

  EXPECT_LT(std::filesystem::file_size(folder / ".growing.nc.undo"), 65536U);
  EXPECT_GT(std::filesystem::file_size(path), 2'000'000U);
}

TEST(NumCompleteRecords, are_those_with_a_coordinate) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("torn.nc", [&](auto const& p) { test::write_bytes(p, ""); });
  write_first(comm, path, 2, 0);
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t const dataset = H5Dopen2(file, "plain", H5P_DEFAULT);
    hsize_t const extents[]{3, num_rows, num_columns};
    H5Dset_extent(dataset, extents);
    H5Dclose(dataset);
    H5Fclose(file);
  });

  FieldFile const file(comm, path);

  EXPECT_EQ(file.variable("plain").extents[0], 3);
  EXPECT_EQ(num_complete_records(file.contents(), "time"), 2);
  EXPECT_EQ(num_complete_records(file.contents(), "row"), num_rows);
  EXPECT_EQ(rule_of([&] { (void)num_complete_records(file.contents(), "month"); }), "MissingVariable");
}

TEST(FieldWriter, leaves_old_records_alone_when_an_append_is_not_committed) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder / "records.nc";
  for (auto const to : {AppendTo::copy, AppendTo::in_place}) {
    write_first(comm, path, 2, 0);
    {
      auto writer = FieldWriter::append(comm, path, to);
      std::vector<double> const values(20, 1);
      std::span<double const> const all(values);
      EXPECT_EQ(rule_of([&] { writer.extend("row", 1); }), "BadOption");
      EXPECT_EQ(rule_of([&] { writer.extend("time", 0); }), "BadOption");
      EXPECT_EQ(rule_of([&] { writer.extend("month", 1); }), "MissingVariable");
      writer.extend("time", 1);
      EXPECT_EQ(rule_of([&] {
                  writer.write("plain", Box({1, 0, 0}, {2, 5, 4}), all);
                }),
                (test::ErrorWith{"OutOfRange", "earlier records"}));
      EXPECT_EQ(rule_of([&] { writer.write("area", Box({0}, {5}), all.first(5)); }),
                (test::ErrorWith{"OutOfRange", "earlier records"}));
      EXPECT_EQ(rule_of([&] { writer.write("time", Box({3}, {4}), all.first(1)); }),
                (test::ErrorWith{"OutOfRange", "the cells must lie in "}));
      EXPECT_EQ(rule_of([&] { writer.commit(); }), (test::ErrorWith{"WrongState", "were written"}));
      auto const box = own_rows(comm, 2, 3);
      writer.write("plain", box, all.first(std::size_t(box.num_cells())));
    }
    comm.barrier();
    expect_records(comm, path, 2);
  }
  Index num_files = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(folder / ".")) ++num_files;
  EXPECT_EQ(num_files, 1);
  EXPECT_EQ(rule_of([&] { (void)FieldWriter::append(comm, folder / "none.nc"); }), "NoSuchFile");
}

}  // namespace
}  // namespace graticule
