// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/text_file.hpp>
#include <graticule/partition/error.hpp>

#include "expect_error.hpp"
#include "files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

using namespace graticule;
using graticule::test::thrown_by;

namespace {

class TextFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path const folder_ = "text_file." + std::to_string(getpid());
};

TEST_F(TextFile, is_read_with_all_its_bytes) {
  auto const bytes = "a: 1\r\n" + std::string(1, '\0') + "\xff, no newline at the end";
  test::write_bytes(folder_ / "file", bytes);
  test::write_bytes(folder_ / "empty", "");

  EXPECT_EQ(read_text(folder_ / "file"), bytes);
  EXPECT_EQ(read_text(folder_ / "empty"), "");
}

TEST_F(TextFile, that_is_none_is_refused_with_the_reason) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  auto const expect = [](std::filesystem::path const& path, std::string const& rule, std::string const& reason) {
    auto const thrown = thrown_by([&] { (void)read_text(path); });
    EXPECT_EQ(thrown.rule, rule) << path;
    EXPECT_EQ(thrown.fault, Fault::input) << path;
    EXPECT_EQ(thrown.text, path.string() + " cannot be read: " + reason);
  };
  expect(folder_ / "none", "NoSuchFile", "No such file or directory");
  expect(folder_ / "none" / "file", "NoSuchFile", "No such file or directory");
  expect("", "NoSuchFile", "No such file or directory");
  expect(folder_, "UnreadableFile", "it is a directory");
  expect(folder_ / "pipe", "UnreadableFile", "it is not a regular file");
  expect("/dev/zero", "UnreadableFile", "it is not a regular file");
}

}  // namespace
