// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints that cannot be written: one error on all ranks, the older ones stay whole, and the program goes on.
#include <graticule/field_io/checkpoint.hpp>

#include "expect_error.hpp"
#include "full_disks.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace graticule {
namespace {

using test::Folder;

constexpr Index num_rows = 256;
constexpr Index num_columns = 512;

/// A megabyte and a half; `before_commit` runs when all is written.
void write_checkpoint(CheckpointStore& store, Comm const& comm, Index step,
                      std::function<void()> const& before_commit = {}) {
  Layout const layout({comm.num_ranks(), 1}, {num_rows, num_columns});
  auto const owned = layout.owned(comm.rank());
  std::vector<double> const cells(std::size_t(owned.num_cells()), double(step));
  std::vector<float> const weights(100000, float(step));
  auto writer = store.begin(step);
  writer.add("z", layout, field_view(cells.data(), owned.extents(), 2));
  writer.add("weights", field_view(weights.data(), {100000}, 0));
  writer.add_value("bytes", std::vector<std::byte>(100000, std::byte(step)));
  if (before_commit) before_commit();
  writer.commit();
}

void expect_newest(CheckpointStore& store, Comm const& comm, Index step) {
  auto const found = store.newest();
  ASSERT_TRUE(found);
  EXPECT_TRUE(store.skipped().empty());
  EXPECT_EQ(found->step(), step);
  std::vector<double> cells(std::size_t(num_rows * num_columns), -1);
  found->read("z", field_view(cells.data(), {num_rows, num_columns}, 0));
  EXPECT_TRUE(std::all_of(cells.begin(), cells.end(), [&](double cell) { return cell == double(step); }));
  EXPECT_EQ(found->value<std::vector<std::byte>>("bytes"), std::vector<std::byte>(100000, std::byte(step)));
  comm.barrier();
}

std::size_t num_files(std::filesystem::path const& folder) {
  return std::size_t(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(CheckpointFailures, a_limit_met_anywhere_is_one_error_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  write_checkpoint(store, comm, 1);
  for (int const limited : {-1, 0, comm.num_ranks() - 1})  // all ranks, the first, the last
    for (rlim_t const bytes : {0, 1000, 70'000, 400'000, 1'000'000, 1'200'000, 1'500'000, 1'650'000}) {
      // The last rank writes up to here only.
      if (limited > 0 && bytes > 1'000'000) continue;
      SCOPED_TRACE("rank " + std::to_string(limited) + ", " + std::to_string(bytes) + " bytes");
      auto const thrown = [&] {
        bool const is_limited = limited < 0 || limited == comm.rank();
        test::FileSizeLimit const limit(is_limited ? bytes : RLIM_INFINITY);
        return test::thrown_by([&] { write_checkpoint(store, comm, 2); });
      }();
      comm.barrier();

      EXPECT_EQ(thrown.rule, "OutputError") << thrown.text;
      EXPECT_EQ(num_files(folder / "run"), 1U);
      expect_newest(store, comm, 1);
      if (testing::Test::HasFailure()) return;
    }
  write_checkpoint(store, comm, 3);
  expect_newest(store, comm, 3);
}

TEST(CheckpointFailures, last_writes_that_fail_are_one_error) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  write_checkpoint(store, comm, 1);

  auto const rule = test::rule_of([&] {
    write_checkpoint(store, comm, 2, [&] {
      if (comm.rank() == 0) test::fill_open_files();
    });
  });
  comm.barrier();

  EXPECT_EQ(rule, "Hdf5Error");
  EXPECT_EQ(num_files(folder / "run"), 1U);
  expect_newest(store, comm, 1);
}

TEST(CheckpointFailures, a_full_disk_is_told_before_anything_is_written) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  test::SmallDisk const small(folder, comm, 3);
  if (!small.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  auto const& disk = small.path();
  CheckpointStore store(comm, disk);
  write_checkpoint(store, comm, 1);

  auto const thrown = test::thrown_by([&] { write_checkpoint(store, comm, 2); });
  comm.barrier();

  EXPECT_EQ(thrown.rule, "OutputError") << thrown.text;
  EXPECT_NE(thrown.text.find("No space left"), std::string::npos) << thrown.text;
  EXPECT_EQ(num_files(disk), 1U);
  expect_newest(store, comm, 1);
}

TEST(CheckpointFailures, a_folder_that_cannot_be_written_is_named) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("run", [](auto const& p) {
    std::filesystem::create_directory(p);
    ::chmod(p.parent_path().c_str(), 0755);
    ::chmod(p.c_str(), 0555);
  });
  CheckpointStore store(comm, path);
  uid_t const user = ::geteuid();
  constexpr uid_t nobody = 65534;
  ASSERT_TRUE(user != 0 || ::seteuid(nobody) == 0);

  auto const thrown = test::thrown_by([&] { write_checkpoint(store, comm, 1); });

  ASSERT_TRUE(user != 0 || ::seteuid(user) == 0);
  EXPECT_EQ(thrown.rule, "OutputError");
  EXPECT_NE(thrown.text.find(path.string()), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("Permission denied"), std::string::npos) << thrown.text;
  auto const file = folder.make("file", [](auto const& p) { test::write_bytes(p, "x"); });
  CheckpointStore below(comm, file / "run");
  EXPECT_EQ(test::rule_of([&] { write_checkpoint(below, comm, 1); }), "OutputError");
}

TEST(CheckpointFailures, a_folder_that_goes_away_is_an_error) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const run = folder / "run";
  CheckpointStore store(comm, run);
  auto writer = store.begin(1);
  writer.add_value("x", 1.0);
  folder.make("done", [&](auto const&) { std::filesystem::remove_all(run); });

  auto const thrown = test::thrown_by([&] { writer.commit(); });

  EXPECT_EQ(thrown.rule, "OutputError");
  EXPECT_NE(thrown.text.find("No such file"), std::string::npos) << thrown.text;
  EXPECT_EQ(test::rule_of([&] { writer.commit(); }), "WrongState");
  EXPECT_FALSE(store.newest());
  write_checkpoint(store, comm, 2);
  expect_newest(store, comm, 2);
}

}  // namespace
}  // namespace graticule
