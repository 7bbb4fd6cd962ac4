// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/layout.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace graticule {
namespace {

using test::Folder;
using test::names_in;
using test::rule_of;

double formula(Index i) { return double(i * 37 % 1009) / 8; }

std::vector<double> latitudes(Index n) {
  std::vector<double> values;
  for (Index i = 0; i < n; ++i) values.push_back(90.0 - 180.0 * double(i) / double(n - 1));
  return values;
}

std::vector<double> longitudes(Index n) {
  std::vector<double> values;
  for (Index i = 0; i < n; ++i) values.push_back(360.0 * double(i) / double(n));
  return values;
}

constexpr Index num_levels = 2;
constexpr Index num_latitudes = 7;
constexpr Index num_longitudes = 8;

/// Values of `box` of (level, latitude, longitude) by the formula.
template <class Value>
std::vector<Value> values_of(Box const& box) {
  std::vector<Value> values;
  for (Index k = box.lo(0); k < box.hi(0); ++k)
    for (Index j = box.lo(1); j < box.hi(1); ++j)
      for (Index i = box.lo(2); i < box.hi(2); ++i)
        values.push_back(Value(formula((k * num_latitudes + j) * num_longitudes + i)));
  return values;
}

Box own_box(Comm const& comm, ProcessGrid const& grid) {
  auto const owned = Layout(grid, {num_latitudes, num_longitudes}).owned(comm.rank());
  return {{0, owned.lo(0), owned.lo(1)}, {owned.empty() ? 0 : num_levels, owned.hi(0), owned.hi(1)}};
}

/// An attribute of several texts, of which netCDF reads as many strings.
Attribute texts() {
  return {.name = "texts", .type = ValueType::text, .value = std::vector<std::string>{"a", "", "K\u00e4lte\n"}};
}

void write_sample(Comm const& comm, std::filesystem::path const& path, ProcessGrid const& grid,
                  FieldWriterOptions const& options) {
  FieldWriter writer(comm, path, {Attribute::of_text("title", "a test"), texts()}, options);
  writer.add_dimension("level", num_levels);
  writer.add_coordinate(
      "latitude", latitudes(num_latitudes), ValueType::f64,
      {Attribute::of_text("units", "degrees_north"), Attribute::of_text("standard_name", "latitude")});
  writer.add_coordinate("longitude", longitudes(num_longitudes), ValueType::f32,
                        {Attribute::of_text("units", "degrees_east")});
  std::vector<std::string> const dimensions{"level", "latitude", "longitude"};
  auto const box = own_box(comm, grid);
  auto const floats = values_of<float>(box);
  auto const doubles = values_of<double>(box);
  writer.add_variable(
      {.name = "whole", .dimensions = dimensions, .attributes = {Attribute::of_text("units", "m s-1")}});
  writer.write("whole", box, std::span<float const>(floats));
  writer.add_variable({.name = "chunked", .dimensions = dimensions, .type = ValueType::f64, .chunk = {1, 3, 8}});
  writer.write("chunked", box, std::span<double const>(doubles));
  writer.add_variable({.name = "packed",
                       .dimensions = dimensions,
                       .type = ValueType::i16,
                       .packing = Packing{0.125, 20},
                       .fill = -32768});
  auto with_gap = doubles;
  if (box.contains(Indices{0, 0, 0})) with_gap[0] = std::numeric_limits<double>::quiet_NaN();
  writer.write("packed", box, std::span<double const>(with_gap));
  writer.commit();
}

/// Numbers of a variable as ncdump prints them, `_` as NaN.
std::vector<double> dumped(Folder const& folder, std::filesystem::path const& file, std::string const& variable) {
  auto const text = folder.make(variable + ".txt", [&](auto const& p) {
    test::run_tool("ncdump -p 9,17 -v " + variable + " '" + file.string() +
                   "' | sed '1,/^data:/d' | tr -d ';}' | tr ',=' '  ' > '" + p.string() + "'");
  });
  std::ifstream stream(text);
  std::vector<double> values;
  for (std::string word; stream >> word;)
    if (word != variable) values.push_back(word == "_" ? std::nan("") : std::stod(word));
  return values;
}

TEST(FieldWriter, writes_what_ncdump_reads) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncdump")) GTEST_SKIP() << "ncdump (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder / "sample.nc";

  write_sample(comm, path, ProcessGrid{comm.num_ranks(), 1}, {.piece_bytes = 100});

  auto const whole = dumped(folder, path, "whole");
  auto const chunked = dumped(folder, path, "chunked");
  auto const packed = dumped(folder, path, "packed");
  Index const num_cells = num_levels * num_latitudes * num_longitudes;
  ASSERT_EQ(Index(whole.size()), num_cells);
  ASSERT_EQ(Index(chunked.size()), num_cells);
  ASSERT_EQ(Index(packed.size()), num_cells);
  for (Index i = 0; i < num_cells; ++i) {
    EXPECT_EQ(float(whole[std::size_t(i)]), float(formula(i))) << i;
    EXPECT_EQ(chunked[std::size_t(i)], formula(i)) << i;
    if (i == 0)
      EXPECT_TRUE(std::isnan(packed[0]));
    else
      EXPECT_EQ(packed[std::size_t(i)], formula(i) * 8 - 160) << i;
  }
  EXPECT_EQ(dumped(folder, path, "latitude"), latitudes(num_latitudes));
  EXPECT_EQ(dumped(folder, path, "longitude"), longitudes(num_longitudes));
  auto const header = test::ncdump(folder, path, "-hs");
  for (auto const* line :
       {"level = 2 ;", "latitude = 7 ;", "longitude = 8 ;", "double latitude(latitude) ;",
        "float longitude(longitude) ;", "latitude:units = \"degrees_north\" ;",
        "float whole(level, latitude, longitude) ;", "double chunked(level, latitude, longitude) ;",
        "chunked:_ChunkSizes = 1, 3, 8 ;", "short packed(level, latitude, longitude) ;",
        "packed:_FillValue = -32768s ;", "packed:scale_factor = 0.125 ;", "packed:add_offset = 20. ;",
        "whole:units = \"m s-1\" ;", ":title = \"a test\" ;", "string :texts = \"a\", \"\", \"K\u00e4lte\\n\" ;",
        ":Conventions = \"CF-1.8\" ;", ":_Format = \"netCDF-4\" ;"})
    EXPECT_NE(header.find(line), std::string::npos) << line << "\n" << header;
  EXPECT_LT(header.find("level = 2"), header.find("latitude = 7"));
  EXPECT_EQ(header.find("level(level)"), std::string::npos) << header;
}

TEST(FieldWriter, adds_conventions_unless_they_stay_as_given) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const conventions_of = [&](std::vector<Attribute> const& attributes, Conventions conventions) {
    FieldWriter(comm, folder / "x.nc", attributes, {.conventions = conventions}).commit();
    std::vector<std::string> found;
    FieldFile const file(comm, folder / "x.nc");
    for (auto const& attribute : file.contents().attributes)
      if (attribute.name == "Conventions") found.push_back(attribute.text());
    return found;
  };
  std::vector<Attribute> const own{Attribute::of_text("Conventions", "COARDS")};

  EXPECT_EQ(conventions_of({}, Conventions::cf_if_absent), std::vector<std::string>{"CF-1.8"});
  EXPECT_EQ(conventions_of({}, Conventions::as_given), std::vector<std::string>{});
  EXPECT_EQ(conventions_of(own, Conventions::cf_if_absent), std::vector<std::string>{"COARDS"});
  EXPECT_EQ(conventions_of(own, Conventions::as_given), std::vector<std::string>{"COARDS"});
}

TEST(FieldWriter, gives_the_same_bytes_for_every_number_of_ranks_and_every_partition) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const alone = comm.split(comm.rank(), 0);
  if (comm.rank() == 0) write_sample(alone, folder / "alone.nc", ProcessGrid{1, 1}, {});
  comm.barrier();

  write_sample(comm, folder / "rows.nc", ProcessGrid{comm.num_ranks(), 1}, {});
  write_sample(comm, folder / "columns.nc", ProcessGrid{1, comm.num_ranks()}, {.piece_bytes = 150});
  write_sample(comm, folder / "one_writer.nc", ProcessGrid{1, comm.num_ranks()}, {.writers_per_node = 1});
  write_sample(comm, folder / "two_writers.nc", ProcessGrid{comm.num_ranks(), 1},
               {.piece_bytes = 150, .writers_per_node = 2});

  auto const expected = test::read_bytes(folder / "alone.nc");
  EXPECT_GT(expected.size(), std::size_t(num_levels * num_latitudes * num_longitudes * 14));
  EXPECT_TRUE(test::read_bytes(folder / "rows.nc") == expected);
  EXPECT_TRUE(test::read_bytes(folder / "columns.nc") == expected);
  EXPECT_TRUE(test::read_bytes(folder / "one_writer.nc") == expected);
  EXPECT_TRUE(test::read_bytes(folder / "two_writers.nc") == expected);
}

TEST(FieldWriter, deflates_to_the_same_values) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncdump")) GTEST_SKIP() << "ncdump (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder / "deflated.nc";
  auto const box = own_box(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const values = values_of<float>(box);

  FieldWriter writer(comm, path);
  writer.add_dimension("level", num_levels);
  writer.add_dimension("latitude", num_latitudes);
  writer.add_dimension("longitude", num_longitudes);
  writer.add_variable(
      {.name = "x", .dimensions = {"level", "latitude", "longitude"}, .chunk = {1, 3, 5}, .deflate = 4});
  writer.write("x", box, std::span<float const>(values));
  writer.commit();

  auto const read = dumped(folder, path, "x");
  ASSERT_EQ(Index(read.size()), num_levels * num_latitudes * num_longitudes);
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(float(read[i]), float(formula(Index(i)))) << i;
  EXPECT_NE(test::ncdump(folder, path, "-hs").find("x:_DeflateLevel = 4 ;"), std::string::npos);
}

TEST(FieldWriter, leaves_nothing_and_keeps_the_old_file_without_commit) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("old.nc", [](auto const& p) { test::write_bytes(p, "old"); });

  try {
    FieldWriter writer(comm, path);
    writer.add_dimension("x", 3);
    throw std::runtime_error("on all ranks");
  } catch (std::runtime_error const&) {
  }
  comm.barrier();

  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{"old.nc"}));
  EXPECT_EQ(test::read_bytes(path), "old");
}

TEST(FieldWriter, writes_to_what_a_symbolic_link_leads_to) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const link = folder.make("link.nc", [](auto const& p) {
    std::filesystem::create_directory(p.parent_path() / "data");
    std::filesystem::create_symlink("data/real.nc", p);
  });
  auto const write = [&](FieldWriter writer, Index lo) {
    writer.extend("x", 1);
    bool const writes = comm.rank() == 0;
    auto const value = double(lo);
    writer.write("v", Box({lo}, {writes ? lo + 1 : lo}), std::span<double const>(&value, writes ? 1 : 0));
    writer.commit();
  };

  FieldWriter writer(comm, link);
  writer.add_dimension("x", 0, DimensionKind::unlimited);
  writer.add_variable({.name = "v", .dimensions = {"x"}});
  write(std::move(writer), 0);
  write(FieldWriter::append(comm, link, AppendTo::copy), 1);
  write(FieldWriter::append(comm, link, AppendTo::in_place), 2);

  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{"data", "link.nc"}));
  EXPECT_EQ(names_in(folder / "data"), (std::vector<std::string>{"real.nc"}));
  std::vector<double> values(3);
  FieldFile(comm, folder / "data" / "real.nc").read("v", Box({0}, {3}), std::span(values));
  EXPECT_EQ(values, (std::vector<double>{0, 1, 2}));
}

TEST(FieldWriter, refuses_wrong_arguments_by_name_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  bool const last = comm.rank() == comm.num_ranks() - 1;
  for (int const writers : {0, 1}) {
    FieldWriter writer(comm, folder / "refused.nc", {}, {.writers_per_node = writers});
    writer.add_dimension("x", 4);
    writer.add_variable({.name = "v", .dimensions = {"x"}, .type = ValueType::i8});
    std::vector<double> const values(5, 300.0);
    std::span<double const> const all(values);

    EXPECT_EQ(rule_of([&] { writer.add_dimension("x", 4); }), "BadName");
    EXPECT_EQ(rule_of([&] { writer.add_variable({.name = "v", .dimensions = {"x"}}); }), "BadName");
    EXPECT_EQ(rule_of([&] { writer.add_variable({.name = "w", .dimensions = {"y"}}); }),
              (test::ErrorWith{"MissingVariable", "there is no dimension"}));
    EXPECT_EQ(rule_of([&] { writer.add_variable({.name = "w", .dimensions = {"x"}, .deflate = 1}); }),
              (test::ErrorWith{"BadOption", "has no chunks"}));
    EXPECT_EQ(rule_of([&] { writer.add_variable({.name = "w", .dimensions = {"x"}, .chunk = {0}}); }),
              (test::ErrorWith{"BadOption", "chunk extent below 1"}));
    EXPECT_EQ(rule_of([&] {
                writer.add_variable({.name = "w", .dimensions = {"x"}, .packing = Packing{1, 0, -1}});
              }),
              (test::ErrorWith{"BadOption", "is its `fill`"}));
    EXPECT_EQ(rule_of([&] { writer.add_variable({.name = "w", .dimensions = {"x"}, .type = ValueType::other}); }),
              "WrongType");
    EXPECT_EQ(rule_of([&] { writer.write("w", Box({0}, {0}), all.first(0)); }),
              (test::ErrorWith{"MissingVariable", "no variable 'w'"}));
    EXPECT_EQ(rule_of([&] { writer.write("v", last ? Box({0}, {5}) : Box({0}, {0}), all.first(last ? 5 : 0)); }),
              "OutOfRange");
    EXPECT_EQ(rule_of([&] { writer.write("v", Box({0}, {last ? 1 : 0}), all.first(last ? 2 : 0)); }), "ShapeMismatch");
    EXPECT_EQ(rule_of([&] { writer.write("v", Box({0}, {last ? 1 : 0}), all.first(last ? 1 : 0)); }), "Conversion");
    EXPECT_EQ(rule_of([&] { writer.commit(); }), (test::ErrorWith{"WrongState", "were written"}));
    if (comm.num_ranks() > 1) {
      EXPECT_EQ(rule_of([&] { writer.add_dimension("y", last ? 2 : 3); }), "ArgumentDisagreement");
      // A name of one rank alone; the next calls of all ranks match again.
      EXPECT_EQ(rule_of([&] { writer.write(last ? "w" : "v", Box({0}, {0}), all.first(0)); }),
                (test::ErrorWith{"ArgumentDisagreement", "rank 0 has variable v, rank "}));
    }
  }
  comm.barrier();
  EXPECT_TRUE(names_in(folder / ".").empty());
  EXPECT_EQ(rule_of([&] { FieldWriter const writer(comm, folder / "no" / "such.nc"); }), "OutputError");
  EXPECT_EQ(rule_of([&] { FieldWriter const writer(comm, folder / "x.nc", {}, {.writers_per_node = -1}); }),
            (test::ErrorWith{"BadOption", "writers_per_node must be at least 0"}));
  EXPECT_EQ(rule_of([&] { FieldWriter const writer(comm, folder / "."); }), "OutputError");
}

TEST(FieldWriter, refuses_to_commit_cells_that_were_written_twice_instead_of_others) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<double> const values(8, 1);
  for (std::string const name : {"twice.nc", "twice.zarr"})
    for (Index const begin : {0, 1}) {
      FieldWriter writer(comm, folder / name);
      writer.add_dimension("y", 4);
      writer.add_dimension("x", 2);
      writer.add_variable({.name = "v", .dimensions = {"y", "x"}});
      // Half of the rows, twice: as by ranks that forget where theirs begin.
      Index const lo = comm.rank() == 0 ? begin : 0;
      Index const hi = comm.rank() == 0 ? begin + 2 : 0;
      for (int time = 0; time < 2; ++time)
        writer.write("v", Box({lo, 0}, {hi, 2}), std::span(values).first(std::size_t(2 * (hi - lo))));

      EXPECT_EQ(rule_of([&] { writer.commit(); }), (test::ErrorWith{"WrongState", "v were written more than once"}));
    }
}

}  // namespace
}  // namespace graticule
