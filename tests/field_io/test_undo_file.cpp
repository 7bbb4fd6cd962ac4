// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/temporary_file.hpp>

#include "expect_error.hpp"
#include "hdf5/file_lock.hpp"
#include "hdf5/undo_file.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace graticule::detail {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::names_in;
using test::read_bytes;
using test::rule_of;
using test::write_bytes;

constexpr Index num_bytes = 100'000;
std::vector<ByteRange> const cells{{60'000, 90'000}, {5'000, 20'000}, {20'000, 50'000}};

std::string old_bytes() {
  std::string bytes;
  for (Index i = 0; i < num_bytes; ++i) bytes += char(i * i % 251);
  return bytes;
}

/// Changes what `cells` leaves, and the length.
std::string changed() {
  auto bytes = old_bytes();
  for (Index const i : {0, 4'999, 50'000, 59'999, 90'000, 99'999}) bytes[std::size_t(i)] = '!';
  return bytes + "new records";
}

struct Case {
  explicit Case(Folder const& folder) : path(folder / "x.nc") { write_bytes(path, old_bytes()); }

  /// As a program leaves the file that is killed while it changes it. The old file keeps its place on the disk.
  void interrupt() const {
    UndoFile const undo(path, cells, stamp_of(path));
    overwrite(changed());
  }
  void overwrite(std::string const& bytes) const {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file << bytes;
  }

  void copy_to(fs::path const& folder) const {
    fs::create_directory(folder);
    for (auto const* name : {"x.nc", ".x.nc.undo"}) fs::copy_file(path.parent_path() / name, folder / name);
  }

  fs::path path;
};

TEST(UndoFile, puts_old_bytes_back_after_any_change) {
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{".x.nc.undo", "x.nc"}));
  EXPECT_LT(fs::file_size(folder / ".x.nc.undo"), std::uintmax_t(num_bytes) / 2);

  EXPECT_EQ(restore_interrupted(one.path, Unseen::lives), Interrupted::restored);

  EXPECT_EQ(read_bytes(one.path), old_bytes());
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.nc"});
  EXPECT_EQ(restore_interrupted(one.path, Unseen::lives), Interrupted::no);
}

TEST(UndoFile, is_restored_again_where_that_was_interrupted) {
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  auto const undo = read_bytes(folder / ".x.nc.undo");
  EXPECT_EQ(restore_interrupted(one.path, Unseen::lives), Interrupted::restored);
  write_bytes(folder / ".x.nc.undo", undo);
  one.overwrite("half");

  EXPECT_EQ(restore_interrupted(one.path, Unseen::lives), Interrupted::restored);

  EXPECT_EQ(read_bytes(one.path), old_bytes());
}

TEST(UndoFile, keeps_changes_that_are_complete) {
  Folder const folder(Comm::world());
  Case const one(folder);
  {
    UndoFile undo(one.path, cells, stamp_of(one.path));
    one.overwrite(changed());
    undo.drop();
  }

  EXPECT_EQ(restore_interrupted(one.path, Unseen::lives), Interrupted::no);
  EXPECT_EQ(read_bytes(one.path), changed());
}

TEST(UndoFile, restores_on_request) {
  Folder const folder(Comm::world());
  Case const one(folder);
  UndoFile undo(one.path, {}, stamp_of(one.path));
  one.overwrite(std::string(std::size_t(num_bytes) * 2, 'x'));

  undo.restore();

  EXPECT_EQ(read_bytes(one.path), old_bytes());
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.nc"});
}

TEST(UndoFile, leaves_the_file_of_a_living_program_alone) {
  Folder const folder(Comm::world());
  Case const one(folder);
  UndoFile const undo(one.path, cells, stamp_of(one.path));
  one.overwrite(changed());

  EXPECT_EQ(restore_interrupted(one.path, Unseen::has_ended), Interrupted::in_use);
  EXPECT_EQ(rule_of([&] { UndoFile const other(one.path, cells, stamp_of(one.path)); }),
            (test::ErrorWith{"OutputError", "another program appends to it"}));
  EXPECT_EQ(read_bytes(one.path), changed());
}

TEST(UndoFile, refuses_a_file_that_has_changed_since_it_was_listed) {
  Folder const folder(Comm::world());
  Case const one(folder);
  auto const seen = stamp_of(one.path);
  write_bytes(one.path, old_bytes() + "more");

  EXPECT_EQ(rule_of([&] { UndoFile const undo(one.path, cells, seen); }),
            (test::ErrorWith{"OutputError", "another program has changed it meanwhile"}));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.nc"});
}

TEST(UndoFile, restores_in_a_copy_of_the_folder) {
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  one.copy_to(folder / "copy");

  EXPECT_EQ(restore_interrupted(folder / "copy/x.nc", Unseen::lives), Interrupted::restored);

  EXPECT_EQ(read_bytes(folder / "copy/x.nc"), old_bytes());
}

TEST(UndoFile, of_a_whole_file_restores_in_a_copy_of_the_folder_only) {
  Folder const folder(Comm::world());
  Case const one(folder);
  {
    UndoFile const undo(one.path, {}, stamp_of(one.path));
    one.overwrite(changed());
  }
  one.copy_to(folder / "copy");
  one.copy_to(folder / "other");
  write_bytes(folder / "other/x.nc", std::string(std::size_t(num_bytes) + 9, 'x'));

  EXPECT_EQ(restore_interrupted(folder / "copy/x.nc", Unseen::lives), Interrupted::restored);
  EXPECT_EQ(rule_of([&] { (void)restore_interrupted(folder / "other/x.nc", Unseen::lives); }), "BrokenFile");

  EXPECT_EQ(read_bytes(folder / "copy/x.nc"), old_bytes());
  EXPECT_EQ(read_bytes(folder / "other/x.nc"), std::string(std::size_t(num_bytes) + 9, 'x'));
}

TEST(UndoFile, writes_to_no_other_file_of_the_name) {
  Folder const folder(Comm::world());
  for (auto const& other : {std::string("short"), std::string(std::size_t(num_bytes), 'x')}) {
    Case const one(folder);
    one.interrupt();
    write_bytes(one.path, other);

    EXPECT_EQ(rule_of([&] { (void)restore_interrupted(one.path, Unseen::lives); }),
              (test::ErrorWith{"BrokenFile", "has the old bytes of another x.nc"}));

    EXPECT_EQ(read_bytes(one.path), other);
    fs::remove(folder / ".x.nc.undo");
  }
}

TEST(UndoFile, is_not_used_where_a_byte_of_it_is_wrong) {
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  auto const good = read_bytes(folder / ".x.nc.undo");
  for (std::size_t const at : {std::size_t(3), std::size_t(50), std::size_t(90), good.size() / 2, good.size() - 1}) {
    auto bad = good;
    bad[at] = char(bad[at] ^ 1);
    write_bytes(folder / ".x.nc.undo", bad);
    auto const rule = rule_of([&] { (void)restore_interrupted(one.path, Unseen::has_ended); });
    EXPECT_EQ(rule, "BrokenFile") << at;
    EXPECT_EQ(read_bytes(one.path), changed());
  }
  write_bytes(folder / ".x.nc.undo", good.substr(0, good.size() - 1));
  EXPECT_EQ(rule_of([&] { (void)restore_interrupted(one.path, Unseen::has_ended); }), "BrokenFile");
}

TEST(UndoFile, of_another_user_is_not_believed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  ASSERT_EQ(::lchown((folder / ".x.nc.undo").c_str(), 12345, 12345), 0);

  EXPECT_EQ(restore_interrupted(one.path, Unseen::has_ended), Interrupted::no);
  EXPECT_EQ(read_bytes(one.path), changed());
}

TEST(UndoFile, goes_with_the_file_that_is_replaced) {
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  {
    TemporaryFile file(one.path);
    write_bytes(file.path(), "new");
    file.publish();
  }

  EXPECT_EQ(restore_interrupted(one.path, Unseen::lives), Interrupted::no);
  EXPECT_EQ(read_bytes(one.path), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.nc"});
}

TEST(UndoFile, that_is_damaged_keeps_nobody_from_replacing_the_file) {
  Folder const folder(Comm::world());
  Case const one(folder);
  one.interrupt();
  write_bytes(folder / ".x.nc.undo", "damaged");
  {
    TemporaryFile file(one.path);
    write_bytes(file.path(), "new");
    file.publish();
  }

  EXPECT_EQ(read_bytes(one.path), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.nc"});
}

TEST(FileLock, knows_mounts_whose_locks_stay_on_this_host) {
  auto const nfs = [](std::string const& options) {
    return "36 35 0:52 / /data rw,relatime shared:1 - nfs4 server:/data rw,vers=4.2," + options;
  };
  EXPECT_FALSE(is_mount_with_local_locks(nfs("hard,local_lock=none,addr=10.0.0.1")));
  EXPECT_TRUE(is_mount_with_local_locks(nfs("hard,local_lock=all")));
  EXPECT_TRUE(is_mount_with_local_locks(nfs("nolock,hard")));
  EXPECT_TRUE(is_mount_with_local_locks("36 35 0:52 / /w rw - lustre 10.0.0.1@tcp:/w rw,localflock,lazystatfs"));
  EXPECT_FALSE(is_mount_with_local_locks("36 35 0:52 / /w rw - lustre 10.0.0.1@tcp:/w rw,flock,lazystatfs"));
  EXPECT_FALSE(is_mount_with_local_locks("36 35 8:1 / / rw,relatime - ext4 /dev/sda1 rw"));
}

}  // namespace
}  // namespace graticule::detail
