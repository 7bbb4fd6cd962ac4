// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/complete_file.hpp>

#include "expect_error.hpp"
#include "files.hpp"
#include "full_disks.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::names_in;
using test::read_bytes;
using test::rule_of;

TEST(WriteCompleteFile, gives_the_name_when_the_file_is_complete) {
  Folder const folder(Comm::world());
  auto const path = folder / "report.txt";
  write_complete_file(path, std::string("old"));
  std::string during;
  fs::path temporary;

  write_complete_file(path, [&](fs::path const& given) {
    temporary = given;
    std::ofstream(given) << "new\n";
    during = read_bytes(path);
  });

  EXPECT_EQ(during, "old");
  EXPECT_EQ(read_bytes(path), "new\n");
  EXPECT_EQ(temporary.parent_path(), path.parent_path());
  EXPECT_NE(temporary, path);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"report.txt"});
}

TEST(WriteCompleteFile, leaves_an_older_file_when_the_writer_throws) {
  Folder const folder(Comm::world());
  auto const path = folder / "report.txt";
  write_complete_file(path, std::string("old"));

  EXPECT_THROW(write_complete_file(path,
                                   [](fs::path const& temporary) {
                                     std::ofstream(temporary) << "half";
                                     throw std::runtime_error("no more");
                                   }),
               std::runtime_error);

  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"report.txt"});
}

TEST(WriteCompleteFile, replaces_the_target_of_a_symbolic_link) {
  Folder const folder(Comm::world());
  write_complete_file(folder / "target.txt", std::string("old"));
  fs::create_symlink("target.txt", folder / "link.txt");

  write_complete_file(folder / "link.txt", std::string("new"));

  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_bytes(folder / "target.txt"), "new");
}

TEST(WriteCompleteFile, writes_a_text_byte_for_byte) {
  Folder const folder(Comm::world());
  std::string const text("a\0\r\n\xff", 5);

  write_complete_file(folder / "bytes", text);

  EXPECT_EQ(read_bytes(folder / "bytes"), text);
}

TEST(WriteCompleteFile, refuses_folders_that_are_missing_and_full_disks) {
  Folder const folder(Comm::world());

  EXPECT_EQ(rule_of([&] { write_complete_file(folder / "none/report.txt", std::string("text")); }), "OutputError");
  EXPECT_EQ(rule_of([&] { write_complete_file(folder.path(), std::string("text")); }), "OutputError");
  EXPECT_EQ(rule_of([] { write_complete_file("/dev/full", std::string("text")); }), "OutputError");
}

TEST(WriteCompleteFile, names_the_file_of_the_user_where_the_disk_is_full) {
  Folder const folder(Comm::world());
  auto const path = folder / "report.txt";
  test::FileSizeLimit const limit(4096);

  auto const found = test::thrown_by([&] { write_complete_file(path, std::string(100'000, 'x')); });

  EXPECT_EQ(found.text, path.string() + " cannot be written: File too large");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

TEST(RequireWritable, leaves_no_file_and_none_changed) {
  Folder const folder(Comm::world());
  write_complete_file(folder / "old.txt", std::string("old"));

  require_writable(folder / "new.txt");
  require_writable(folder / "old.txt");
  require_writable("/dev/stdout");

  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"old.txt"});
  EXPECT_EQ(read_bytes(folder / "old.txt"), "old");
  EXPECT_EQ(rule_of([&] { require_writable(folder / "none/report.txt"); }), "OutputError");
  EXPECT_EQ(rule_of([&] { require_writable(folder.path()); }), "OutputError");
}

}  // namespace
}  // namespace graticule
