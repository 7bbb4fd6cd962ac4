// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/temporary_file.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace graticule::detail {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::names_in;

void write_and_publish(fs::path const& path, std::string const& bytes) {
  TemporaryFile file(path);
  test::write_bytes(file.path(), bytes);
  file.publish();
}

/// Another process that holds a temporary file of `path` until it is killed.
class Holder {
 public:
  explicit Holder(fs::path const& path) {
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      TemporaryFile const file(path);
      char const sign = 'x';
      if (::write(pipe[1], &sign, 1) == 1)
        for (;;) ::pause();
      ::_exit(1);
    }
    char sign = 0;
    EXPECT_EQ(::read(pipe[0], &sign, 1), 1);
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  Holder(Holder const&) = delete;
  Holder& operator=(Holder const&) = delete;
  ~Holder() { kill(); }

  [[nodiscard]] pid_t process() const { return process_; }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

TEST(TemporaryFile, gives_the_name_when_it_is_published_and_removes_itself_otherwise) {
  Folder const folder(Comm::world());
  auto const path = folder / "x.nc";
  write_and_publish(path, "first");
  {
    TemporaryFile const file(path);
    test::write_bytes(file.path(), "second");
    EXPECT_EQ(file.path().parent_path(), path.parent_path());
    EXPECT_EQ(names_in(folder / ".").size(), 2U);
  }

  EXPECT_EQ(test::read_bytes(path), "first");
  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{"x.nc"}));
}

TEST(TemporaryFile, removes_what_a_killed_program_left_for_the_same_file) {
  Folder const folder(Comm::world());
  Holder one(folder / "x.nc");
  Holder other(folder / "y.nc");
  one.kill();
  other.kill();
  ASSERT_EQ(names_in(folder / ".").size(), 2U);

  write_and_publish(folder / "x.nc", "new");

  auto const names = names_in(folder / ".");
  ASSERT_EQ(names.size(), 2U);
  EXPECT_TRUE(names[0].starts_with(".y.nc.")) << names[0];
  EXPECT_EQ(names[1], "x.nc");
}

TEST(TemporaryFile, leaves_the_files_of_living_programs_alone) {
  Folder const folder(Comm::world());
  Holder living(folder / "x.nc");
  auto const name = names_in(folder / ".").at(0);

  write_and_publish(folder / "x.nc", "new");

  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{name, "x.nc"}));
  // As in another container, whose processes are not seen: the number of one that has ended.
  Holder ended(folder / "y.nc");
  auto const number = std::to_string(ended.process());
  ended.kill();
  auto unseen = name;
  unseen.replace(unseen.find("-") + 1, std::to_string(living.process()).size(), number);
  fs::rename(folder / name, folder / unseen);
  write_and_publish(folder / "x.nc", "newer");
  EXPECT_TRUE(fs::exists(folder / unseen));
  living.kill();
  write_and_publish(folder / "x.nc", "newest");
  EXPECT_FALSE(fs::exists(folder / unseen));
}

TEST(TemporaryFile, removes_what_programs_of_other_hosts_left_that_were_killed) {
  Folder const folder(Comm::world());
  Holder other(folder / "x.nc");
  auto const name = names_in(folder / ".").at(0);
  auto renamed = name;
  renamed.replace(std::string(".x.nc.").size(), 8, "00000000");
  fs::rename(folder / name, folder / renamed);

  write_and_publish(folder / "x.nc", "new");
  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{renamed, "x.nc"}));
  other.kill();
  write_and_publish(folder / "x.nc", "newer");

  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{"x.nc"}));
}

TEST(TemporaryFile, removes_a_leftover_whose_process_number_another_program_has) {
  Folder const folder(Comm::world());
  Holder other(folder / "x.nc");
  auto const name = names_in(folder / ".").at(0);
  auto own = name;
  own.replace(own.find("-") + 1, std::to_string(other.process()).size(), std::to_string(::getppid()));
  fs::rename(folder / name, folder / own);
  other.kill();

  write_and_publish(folder / "x.nc", "new");

  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{"x.nc"}));
}

TEST(TemporaryFile, leaves_alone_what_it_did_not_name) {
  Folder const folder(Comm::world());
  Holder ended(folder / "x.nc");
  auto const number = std::to_string(ended.process());
  auto const name = names_in(folder / ".").at(0);
  ended.kill();
  fs::remove(folder / name);
  std::vector<std::string> expected{".x.nc.0000000g-" + number + ".part",
                                    ".x.nc." + number + ".part",
                                    name.substr(0, name.size() - 5) + "a.part",
                                    name.substr(0, name.find('-') + 1) + ".part",
                                    name.substr(0, name.find('-') + 1) + "-7.part",
                                    name + "x",
                                    "x.nc"};
  for (auto const& one : expected) test::write_bytes(folder / one, "x");
  std::sort(expected.begin(), expected.end());

  write_and_publish(folder / "x.nc", "new");

  EXPECT_EQ(names_in(folder / "."), expected);
}

TEST(TemporaryFile, replaces_what_a_symbolic_link_leads_to) {
  Folder const folder(Comm::world());
  fs::create_directory(folder / "data");
  fs::create_directory(folder / "links");
  test::write_bytes(folder / "data" / "a.nc", "old");
  fs::create_symlink("../data/a.nc", folder / "links" / "relative.nc");
  fs::create_symlink(folder / "links" / "relative.nc", folder / "chain.nc");
  fs::create_symlink("data/new.nc", folder / "dangling.nc");

  for (auto const& [link, file] : std::vector<std::pair<std::string, std::string>>{
           {"links/relative.nc", "data/a.nc"}, {"chain.nc", "data/a.nc"}, {"dangling.nc", "data/new.nc"}}) {
    {
      TemporaryFile const file_of_link(folder / link);
      EXPECT_TRUE(fs::equivalent(file_of_link.path().parent_path(), folder / "data"));
    }
    write_and_publish(folder / link, link);
    EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
    EXPECT_EQ(test::read_bytes(folder / file), link);
  }
  EXPECT_EQ(names_in(folder / "data"), (std::vector<std::string>{"a.nc", "new.nc"}));
}

TEST(TemporaryFile, follows_no_link_of_another_user_where_others_may_write) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give links to other users";
  Folder const folder(Comm::world());
  test::write_bytes(folder / "victim.nc", "precious");
  fs::create_directory(folder / "shared");
  for (auto const* target : {"../victim.nc", "../new.nc"})
    for (auto const& [mode, refused] :
         std::vector<std::pair<unsigned, bool>>{{01777, true}, {0777, true}, {0775, true}, {0755, false}}) {
      fs::remove(folder / "shared/x.nc");
      fs::create_symlink(target, folder / "shared/x.nc");
      ASSERT_EQ(::lchown((folder / "shared/x.nc").c_str(), 12345, 12345), 0);
      fs::permissions(folder / "shared", fs::perms(mode));
      auto const found = test::thrown_by([&] { TemporaryFile const file(folder / "shared/x.nc"); });
      EXPECT_EQ(found.rule, refused ? "OutputError" : "nothing was thrown") << mode;
      if (refused) {
        EXPECT_NE(found.text.find("symbolic link of another user (number 12345)"), std::string::npos) << found.text;
      }
      // The own one, and one of the folder's owner.
      ASSERT_EQ(::lchown((folder / "shared/x.nc").c_str(), 0, 0), 0);
      EXPECT_NO_THROW({ TemporaryFile const file(folder / "shared/x.nc"); });
    }

  EXPECT_EQ(test::read_bytes(folder / "victim.nc"), "precious");
  EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{"shared", "victim.nc"}));
}

TEST(TemporaryFile, refuses_what_no_file_can_replace) {
  Folder const folder(Comm::world());
  fs::create_directory(folder / "folder");
  fs::create_directory_symlink("folder", folder / "to_folder");
  fs::create_symlink("nowhere/x.nc", folder / "to_nowhere");
  fs::create_symlink("round", folder / "trip");
  fs::create_symlink("trip", folder / "round");
  for (auto const& [path, word] :
       std::vector<std::pair<fs::path, std::string>>{{folder / "folder", "it is a folder"},
                                                     {folder / "to_folder", "it is a folder"},
                                                     {folder / "to_nowhere", "nowhere does not exist"},
                                                     {folder / "none" / "x.nc", "none does not exist"},
                                                     {folder / "round", "symbolic links"},
                                                     {folder / (std::string(300, 'x') + ".nc"), "too long"},
                                                     {"/dev/null", "no ordinary file"},
                                                     {"/dev/stdout", "no ordinary file"},
                                                     {"", "it has no name"}}) {
    auto const thrown = test::thrown_by([&] { TemporaryFile const file(path); });
    EXPECT_EQ(thrown.rule, "OutputError") << path;
    EXPECT_NE(thrown.text.find(word), std::string::npos) << thrown.text;
    EXPECT_TRUE(thrown.text.starts_with((path.empty() ? "''" : path.string()) + " cannot be written")) << thrown.text;
  }
  EXPECT_EQ(names_in(folder / ".").size(), 5U);
}

TEST(TemporaryFile, tells_streams_from_files) {
  Folder const folder(Comm::world());
  test::write_bytes(folder / "x", "");
  fs::create_symlink("x", folder / "link");
  fs::create_symlink("/dev/null", folder / "null");
  fs::create_symlink("loop", folder / "loop");

  for (fs::path const stream : {"/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/2"})
    EXPECT_TRUE(is_stream(stream)) << stream;
  EXPECT_TRUE(is_stream(folder / "null"));
  for (auto const* file : {"x", "link", "none", "none/none", "loop"}) EXPECT_FALSE(is_stream(folder / file)) << file;
}

}  // namespace
}  // namespace graticule::detail
