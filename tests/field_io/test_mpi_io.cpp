// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "files.hpp"
#include "hdf5/mpi_io.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

namespace graticule {
namespace {

using test::Folder;
using test::names_in;

constexpr Index num_cells = 7;

Box own_cells(Comm const& comm, Index record) {
  auto const cuts = balanced_cuts(num_cells, comm.num_ranks());
  return {{record, cuts.lo(comm.rank())}, {record + 1, cuts.hi(comm.rank())}};
}

void write_record(Comm const& comm, FieldWriter& writer, Index record, Index first) {
  auto const box = own_cells(comm, record);
  std::vector<double> values(std::size_t(box.num_cells()));
  std::iota(values.begin(), values.end(), double(first + record * num_cells + box.lo(1)));
  writer.write("a", box, std::span<double const>(values));
}

/// A file of one record, whose cells count from `first`.
void write_file(Comm const& comm, std::filesystem::path const& path, Index first,
                FieldWriterOptions const& options = {}) {
  FieldWriter writer(comm, path, {}, options);
  writer.add_dimension("time", 1, DimensionKind::unlimited);
  writer.add_dimension("x", num_cells);
  writer.add_variable({.name = "a", .dimensions = {"time", "x"}, .type = ValueType::f64});
  write_record(comm, writer, 0, first);
  writer.commit();
}

void append_record(Comm const& comm, std::filesystem::path const& path, Index record, Index first, AppendTo to) {
  auto writer = FieldWriter::append(comm, path, to);
  writer.extend("time", 1);
  write_record(comm, writer, record, first);
  writer.commit();
}

void expect_records(Comm const& comm, std::filesystem::path const& path, Index num_records, Index first) {
  FieldFile const file(comm, path);
  ASSERT_EQ(file.variable("a").extents, (Indices{num_records, num_cells}));
  for (Index record = 0; record < num_records; ++record) {
    auto const box = own_cells(comm, record);
    std::vector<double> values(std::size_t(box.num_cells()), -1);
    file.read("a", box, std::span(values));
    for (Index i = 0; i < box.num_cells(); ++i)
      EXPECT_EQ(values[std::size_t(i)], double(first + record * num_cells + box.lo(1) + i)) << path << " " << record;
  }
}

/// All ranks work in a folder until the end.
class WorkingFolder {
 public:
  explicit WorkingFolder(std::filesystem::path const& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  WorkingFolder(WorkingFolder const&) = delete;
  WorkingFolder& operator=(WorkingFolder const&) = delete;
  ~WorkingFolder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }

 private:
  std::filesystem::path before_;
};

TEST(MpiIo, collective_reads_are_left_to_layers_that_are_not_known_to_lose_cells) {
  struct Case {
    char const* library;
    detail::OpenMpiSettings settings;
    bool together;
  };
  std::vector<Case> const cases{{"MPICH Version:\t4.0.2\nMPICH Release date:", {}, true},
                                {"Intel(R) MPI Library 2021.9 for Linux* OS", {}, true},
                                {"Open MPI v4.0.7, package: Debian OpenMPI", {}, true},
                                {"Open MPI v4.1.0, package: Debian OpenMPI", {}, false},
                                {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", {}, false},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = "romio321"}, true},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = "^ompio"}, true},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = "ompio"}, false},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = {}, .sieving = "0"}, true},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = {}, .sieving = "1"}, false},
                                {"Open MPI v5.0.5, package: Open MPI", {}, false},
                                {"Open MPI v5.0.6, package: Open MPI", {}, true},
                                {"Open MPI v5.1.0a1, package: Open MPI", {}, true}};
  for (auto const& one : cases)
    EXPECT_EQ(detail::reads_together(one.library, one.settings), one.together)
        << one.library << ", io '" << one.settings.io << "', sieving '" << one.settings.sieving << "'";
}

TEST(MpiIo, names_with_colons_are_tried_with_and_without_a_type_of_file_system) {
  struct Case {
    char const* path;
    char const* type;
    std::vector<std::string> names;
  };
  std::vector<Case> const cases{
      {"a.nc", "", {"a.nc"}},
      {"run/a.nc", "nfs", {"run/a.nc"}},
      {"/data/a.nc", "lustre", {"/data/a.nc"}},
      {"/data/run:1/a.nc", "", {"/data/run:1/a.nc", "ufs:/data/run:1/a.nc"}},
      {"/data/a_12:00.nc", "nfs", {"nfs:/data/a_12:00.nc", "/data/a_12:00.nc", "ufs:/data/a_12:00.nc"}},
      {"nfs:a.nc", "", {"./nfs:a.nc", "ufs:./nfs:a.nc"}},
      {"../run:1/a.nc", "gpfs", {"gpfs:./../run:1/a.nc", "./../run:1/a.nc", "ufs:./../run:1/a.nc"}}};
  for (auto const& one : cases) EXPECT_EQ(detail::mpi_io_names(one.path, one.type), one.names) << one.path;
}

TEST(MpiIo, files_and_folders_with_colons_are_written_appended_to_and_read) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const run = folder.make("run:1", [](auto const& p) { std::filesystem::create_directory(p); });
  std::string const name = "wrfout_d01_2005-08-28_12:00:00.nc";

  write_file(comm, run / name, 100);
  expect_records(comm, run / name, 1, 100);
  append_record(comm, run / name, 1, 100, AppendTo::copy);
  append_record(comm, run / name, 2, 100, AppendTo::in_place);
  expect_records(comm, run / name, 3, 100);
  write_file(comm, run / "plain.nc", 200, {.writers_per_node = 1});
  expect_records(comm, run / "plain.nc", 1, 200);

  EXPECT_EQ(names_in(run), (std::vector<std::string>{"plain.nc", name}));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"run:1"}));
}

TEST(MpiIo, a_name_that_begins_as_a_type_of_file_system_is_that_of_its_own_file) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  WorkingFolder const inside(folder.path());
  std::vector<std::string> const names{"a.nc", "nfs:a.nc", "u:a.nc", "ufs:a.nc"};

  Index first = 100;
  for (auto const& name : names) write_file(comm, name, first += 100);

  EXPECT_EQ(names_in("."), names);
  first = 100;
  for (auto const& name : names) expect_records(comm, name, 1, first += 100);
}

TEST(MpiIo, series_and_checkpoints_lie_in_folders_with_colons) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const run = folder.make("12:00", [](auto const& p) { std::filesystem::create_directory(p); });
  std::vector<std::string> const names{"a_00:00.nc", "a_06:00.nc"};
  for (std::size_t i = 0; i < names.size(); ++i) write_file(comm, run / names[i], 100 * Index(i));
  CheckpointStore store(comm, run);
  auto writer = store.begin(3);
  writer.add_value("note", std::string("at 12:00"));
  auto const checkpoint = writer.commit();

  FieldSeries const series(comm, find_files(comm, (run / "a_*.nc").string()));
  auto const found = store.newest();

  auto const box = own_cells(comm, 1);
  std::vector<double> values(std::size_t(box.num_cells()));
  series.read("a", box, std::span(values));
  for (Index i = 0; i < box.num_cells(); ++i) EXPECT_EQ(values[std::size_t(i)], double(100 + box.lo(1) + i));
  EXPECT_EQ(checkpoint.parent_path(), run);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->value<std::string>("note"), "at 12:00");
}

TEST(MpiIo, a_missing_file_is_named_with_its_colons) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const missing = folder / "missing_12:00.nc";
  auto const elsewhere = folder / "run:2/a.nc";

  auto const read = test::thrown_by([&] { FieldFile(comm, missing); });
  auto const written = test::thrown_by([&] { FieldWriter(comm, elsewhere); });

  EXPECT_EQ(read.rule, "NoSuchFile");
  EXPECT_NE(read.text.find(missing.string() + " does not exist"), std::string::npos) << read.text;
  EXPECT_EQ(written.rule, "OutputError");
  EXPECT_NE(written.text.find(elsewhere.string() + " cannot be written"), std::string::npos) << written.text;
  EXPECT_EQ(detail::mpi_io_name(comm, missing), "ufs:" + missing.string());
}

}  // namespace
}  // namespace graticule
