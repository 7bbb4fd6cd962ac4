// SPDX-License-Identifier: BSD-3-Clause
// Files that find no room: one error that names the file, nothing is left over, and the program goes on.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "full_disks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace graticule {
namespace {

using test::Folder;
using test::names_in;

constexpr Index num_rows = 64;

/// How the cells lie in the file.
struct Storage {
  Indices chunk = {};
  int deflate = 0;
};

/// Random bits: nothing makes them smaller.
std::vector<double> cells_of(Comm const& comm, Index num_columns) {
  auto const cuts = balanced_cuts(num_rows, comm.num_ranks());
  std::vector<double> cells(std::size_t(cuts.size(comm.rank()) * num_columns));
  std::uint64_t state = 12345U + std::uint64_t(comm.rank());
  for (auto& cell : cells) cell = double((state = state * 6364136223846793005U + 1442695040888963407U) >> 11U);
  return cells;
}

/// `num_columns` times half a KiB.
void write_file(Comm const& comm, std::filesystem::path const& path, Index num_columns, Storage const& storage = {}) {
  auto const cuts = balanced_cuts(num_rows, comm.num_ranks());
  FieldWriter writer(comm, path);
  writer.add_dimension("time", 0, DimensionKind::unlimited);
  writer.add_dimension("row", num_rows);
  writer.add_dimension("column", num_columns);
  writer.add_variable({.name = "v",
                       .dimensions = {"row", "column"},
                       .type = ValueType::f64,
                       .chunk = storage.chunk,
                       .deflate = storage.deflate});
  writer.add_variable({.name = "t", .dimensions = {"time", "column"}, .type = ValueType::f64});
  auto const cells = cells_of(comm, num_columns);
  writer.write("v", Box({cuts.lo(comm.rank()), 0}, {cuts.hi(comm.rank()), num_columns}),
               std::span<double const>(cells));
  writer.commit();
}

void expect_file(Comm const& comm, std::filesystem::path const& path, Index num_columns) {
  FieldFile const file(comm, path);
  auto const cuts = balanced_cuts(num_rows, comm.num_ranks());
  Box const box({cuts.lo(comm.rank()), 0}, {cuts.hi(comm.rank()), num_columns});
  std::vector<double> cells(std::size_t(box.num_cells()));
  file.read("v", box, std::span(cells));
  EXPECT_TRUE(cells == cells_of(comm, num_columns));
}

void expect_full(test::Thrown const& thrown, std::filesystem::path const& path, std::string const& why) {
  EXPECT_EQ(thrown.rule, "OutputError") << thrown.text;
  EXPECT_NE(thrown.text.find(path.string() + " cannot be written: " + why), std::string::npos) << thrown.text;
}

TEST(WriterFailures, a_full_disk_is_told_before_cells_are_written) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  test::SmallDisk const disk(folder, comm, 3);
  if (!disk.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  auto const path = disk.path() / "x.nc";
  write_file(comm, path, 2000);  // 1 MB of 3

  for (auto const& storage : std::vector<Storage>{{}, {{8, 100}}}) {
    auto const thrown = test::thrown_by([&] { write_file(comm, disk.path() / "y.nc", 5000, storage); });
    comm.barrier();

    expect_full(thrown, disk.path() / "y.nc", "No space left on device");
    EXPECT_EQ(names_in(disk.path()), (std::vector<std::string>{"x.nc"}));
    expect_file(comm, path, 2000);
    comm.barrier();
  }
  // What was reserved has been given back.
  write_file(comm, disk.path() / "y.nc", 3000);
  expect_file(comm, disk.path() / "y.nc", 3000);
}

TEST(WriterFailures, a_disk_without_any_room_is_told_as_well) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  test::SmallDisk const disk(folder, comm, 1);
  if (!disk.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  folder.make("disk/filler", [](auto const& p) {
    test::write_bytes(p, std::string(std::size_t(2) << 20U, 'x'));  // stops when the disk is full
  });

  auto const thrown = test::thrown_by([&] { write_file(comm, disk.path() / "x.nc", 1); });
  comm.barrier();

  expect_full(thrown, disk.path() / "x.nc", "No space left on device");
  EXPECT_EQ(names_in(disk.path()), (std::vector<std::string>{"filler"}));
}

TEST(WriterFailures, records_that_find_no_room_leave_the_file_as_it_was) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  test::SmallDisk const disk(folder, comm, 4);
  if (!disk.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  auto const path = disk.path() / "x.nc";
  write_file(comm, path, 2000);
  for (auto const to : {AppendTo::copy, AppendTo::in_place}) {
    {
      auto writer = FieldWriter::append(comm, path, to);

      auto const thrown = test::thrown_by([&] { writer.extend("time", 1000); });

      expect_full(thrown, path, "No space left on device");
      // The writer lives: fewer records have room.
      writer.extend("time", 3);
      std::vector<double> const values(6000, 1.5);
      bool const writes = comm.rank() == 0;
      Index const lo = to == AppendTo::copy ? 0 : 3;
      writer.write("t", Box({lo, 0}, {writes ? lo + 3 : lo, 2000}),
                   std::span<double const>(values).first(writes ? 6000 : 0));
      if (to == AppendTo::copy) writer.commit();
    }
    comm.barrier();
    EXPECT_EQ(names_in(disk.path()), (std::vector<std::string>{"x.nc"}));
    expect_file(comm, path, 2000);
    EXPECT_EQ(FieldFile(comm, path).variable("t").extents, (Indices{3, 2000}));
  }
}

TEST(WriterFailures, a_limit_of_the_length_of_files_is_told) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  for (rlim_t const bytes : {0, 1000, 70'000, 200'000, 600'000}) {
    auto const thrown = [&] {
      test::FileSizeLimit const limit(bytes);
      return test::thrown_by([&] { write_file(comm, folder / "x.nc", 2000); });
    }();
    comm.barrier();

    expect_full(thrown, folder / "x.nc", "File too large");
    EXPECT_TRUE(names_in(folder / ".").empty());
  }
  write_file(comm, folder / "x.nc", 2000);
  expect_file(comm, folder / "x.nc", 2000);
}

/// Nobody knows beforehand how small compressed cells will be. Only the rank that writes learns that they have no room,
/// and the others wait for it: so here is one rank.
TEST(WriterFailures, a_disk_that_fills_up_under_way_is_an_error) {
  auto const world = Comm::world();
  Folder const folder(world);
  test::SmallDisk const disk(folder, world, 3);
  if (!disk.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  auto const comm = world.split(world.rank(), 0);
  if (world.rank() > 0) return;
  auto const path = disk.path() / "x.nc";

  auto const thrown = test::thrown_by([&] { write_file(comm, path, 10000, {{8, 100}, 1}); });

  expect_full(thrown, path, "No space left on device");
  EXPECT_TRUE(names_in(disk.path()).empty());
  write_file(comm, path, 2000, {{8, 100}, 1});
  expect_file(comm, path, 2000);
}

}  // namespace
}  // namespace graticule
