// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/folder_lock.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace graticule::detail {
namespace {

using std::chrono::milliseconds;
using test::Folder;
using test::names_in;
using test::rule_of;

/// Another process that has the folder until it is killed.
pid_t holder(std::filesystem::path const& folder) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
  pid_t const process = ::fork();
  if (process == 0) {
    FolderLock const lock(folder, "other-program");
    char const sign = 'x';
    if (::write(pipe[1], &sign, 1) == 1)
      for (;;) ::pause();
    ::_exit(1);
  }
  char sign = 0;
  EXPECT_EQ(::read(pipe[0], &sign, 1), 1);
  ::close(pipe[0]);
  ::close(pipe[1]);
  return process;
}

TEST(FolderLock, leaves_no_file) {
  Folder const folder(Comm::world());
  {
    FolderLock const lock(folder.path(), "program");
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{".in-use"});
    EXPECT_EQ(lock.weakness(), "");
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

TEST(FolderLock, names_the_program_that_has_the_folder) {
  Folder const folder(Comm::world());
  auto const process = holder(folder.path());

  auto const found = test::thrown_by([&] { FolderLock const lock(folder.path(), "program", milliseconds(0)); });

  EXPECT_EQ(found.rule, "OutputError");
  for (auto const& part : {std::string("other-program"), "process " + std::to_string(process), std::string("on host "),
                           std::string("since 2"), std::string(" UTC")})
    EXPECT_NE(found.text.find(part), std::string::npos) << found.text;
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

TEST(FolderLock, ends_with_a_killed_program) {
  Folder const folder(Comm::world());
  auto const process = holder(folder.path());
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  ASSERT_EQ(names_in(folder.path()), std::vector<std::string>{".in-use"});

  { FolderLock const lock(folder.path(), "program", milliseconds(0)); }

  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

TEST(FolderLock, waits_for_a_program_that_is_about_to_end) {
  Folder const folder(Comm::world());
  auto const process = holder(folder.path());
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  });

  EXPECT_NO_THROW({ FolderLock const lock(folder.path(), "program", std::chrono::minutes(1)); });

  killer.join();
}

TEST(FolderLock, is_for_one_at_a_time_in_this_process_too) {
  Folder const folder(Comm::world());
  FolderLock const lock(folder.path(), "program");

  EXPECT_EQ(rule_of([&] { FolderLock const other(folder.path(), "program", milliseconds(0)); }), "OutputError");
}

TEST(FolderLock, shows_no_control_characters_and_follows_no_link) {
  Folder const folder(Comm::world());
  test::write_bytes(folder / "target", "kept");
  std::filesystem::create_symlink("target", folder / ".in-use");

  EXPECT_EQ(rule_of([&] { FolderLock const lock(folder.path(), "program", milliseconds(0)); }), "OutputError");

  EXPECT_EQ(test::read_bytes(folder / "target"), "kept");
}

}  // namespace
}  // namespace graticule::detail
