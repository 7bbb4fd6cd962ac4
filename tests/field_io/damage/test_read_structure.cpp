// SPDX-License-Identifier: BSD-3-Clause
// The process that reads the structure of files, seen from outside: how many there are, and when they end.
#include <graticule/field_io/contents.hpp>
#include <graticule/field_io/detail/read_contents.hpp>
#include <graticule/field_io/file.hpp>

#include "damaged_samples.hpp"
#include "environment.hpp"
#include "expect_error.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace graticule {
namespace {

using test::Folder;
using test::rule_of;
using test::thrown_by;
using test::WithVariable;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;
#else
constexpr bool has_shadow_memory = false;
#endif

constexpr auto program = "GRATICULE_READ_STRUCTURE";

struct Process {
  pid_t id = -1;
  char state = '?';
  pid_t parent = -1;
};

/// Text of a file of /proc; empty where the process has ended, if only between opening and reading.
std::string text_of(std::filesystem::path const& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

std::optional<Process> process(std::filesystem::path const& folder) {
  auto const text = text_of(folder / "stat");
  auto const name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  Process found{.id = std::atoi(text.c_str())};
  std::istringstream(text.substr(name_end + 1)) >> found.state >> found.parent;
  return found;
}

std::vector<Process> children_of(pid_t parent) {
  std::vector<Process> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error))
    if (std::isdigit(static_cast<unsigned char>(entry->path().filename().string().front())) != 0)
      if (auto const one = process(entry->path()); one && one->parent == parent) found.push_back(*one);
  return found;
}

bool is_there(pid_t id) {
  auto const one = process("/proc/" + std::to_string(id));
  return one && one->state != 'Z' && one->state != 'X';
}

/// Waits for at most 10 s.
bool comes_true(std::function<bool()> const& what) {
  for (int i = 0; i < 1000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// 0 and negative numbers, which stand for many processes, are a failed look-up here.
void send_signal(pid_t id, int number) {
  if (id <= 1) throw std::runtime_error("no process to signal");
  ::kill(id, number);
}

std::size_t num_descriptors(pid_t id) {
  std::size_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/" + std::to_string(id) + "/fd", error), end;
       !error && entry != end; entry.increment(error))
    ++count;
  return count;
}

/// The only child of this process, which has none itself.
pid_t helper() {
  auto const children = children_of(::getpid());
  if (children.size() != 1)
    throw std::runtime_error(std::to_string(children.size()) + " processes instead of one that reads files");
  EXPECT_NE(children[0].state, 'Z');
  EXPECT_TRUE(comes_true([&] { return children_of(children[0].id).empty(); }));
  return children[0].id;
}

std::string limits_of(pid_t id) { return text_of("/proc/" + std::to_string(id) + "/limits"); }

/// Calls `visit` with the process that reads a file for this one, as soon as there is one with its limits.
std::thread with_reader(std::function<void(pid_t)> const& visit) {
  return std::thread([visit, owner = ::getpid()] {
    comes_true([&] {
      for (auto const& child : children_of(owner))
        for (auto const& reader : children_of(child.id))
          if (auto const limits = limits_of(reader.id);
              reader.id > 1 && !limits.empty() && limits != limits_of(child.id))
            return visit(reader.id), true;
      return false;
    });
  });
}

TEST(ReadStructure, is_one_process_for_many_files_and_leaves_nothing_open) {
  Folder const folder(Comm::world());
  auto const path = folder.make("whole.h5", test::write_fields);
  auto const expected = read_contents(path);
  auto const first = helper();
  auto const own = num_descriptors(::getpid());
  // The standard streams and one for signals; a process that reads a file may still be ending.
  auto const settled = [&] {
    for (int i = 0; i < 500 && num_descriptors(first) != 4; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return num_descriptors(first);
  };
  EXPECT_EQ(settled(), 4U);

  for (int i = 0; i < 50; ++i) ASSERT_EQ(read_contents(path).variables, expected.variables);

  EXPECT_EQ(helper(), first);
  EXPECT_EQ(num_descriptors(::getpid()), own);
  EXPECT_EQ(settled(), 4U);
}

TEST(ReadStructure, goes_on_after_a_file_that_keeps_HDF5_busy) {
  Folder const folder(Comm::world());
  auto const whole = folder.make("whole.h5", test::write_fields);
  auto const endless = folder.make("heap.h5", test::write_endless_heap);
  auto const expected = read_contents(whole);
  auto const first = helper();

  std::string limits;
  auto watch = with_reader([&](pid_t id) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    limits = limits_of(id);
  });
  auto const thrown = thrown_by([&] { (void)read_contents(endless); });
  watch.join();

  EXPECT_EQ(thrown.rule, "BrokenFile");
  EXPECT_NE(thrown.text.find("came to no end in 2 s at variable"), std::string::npos) << thrown.text;
  EXPECT_TRUE(has_shadow_memory || limits.find(" 1073741824 ") != std::string::npos) << limits;
  EXPECT_EQ(read_contents(whole).variables, expected.variables);
  EXPECT_EQ(helper(), first);
}

TEST(ReadStructure, refuses_a_file_that_crashes_HDF5_and_no_other) {
  Folder const folder(Comm::world());
  auto const whole = folder.make("whole.h5", test::write_fields);
  auto const endless = folder.make("heap.h5", test::write_endless_heap);
  auto const expected = read_contents(whole);
  auto const first = helper();

  auto crash = with_reader([](pid_t id) { send_signal(id, SIGSEGV); });
  auto const thrown = thrown_by([&] { (void)read_contents(endless); });
  crash.join();

  EXPECT_EQ(thrown.rule, "BrokenFile");
  EXPECT_NE(thrown.text.find("HDF5 crashed"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("by signal 11"), std::string::npos) << thrown.text;
  EXPECT_EQ(read_contents(whole).variables, expected.variables);
  EXPECT_EQ(helper(), first);
}

TEST(ReadStructure, that_is_killed_is_started_again) {
  Folder const folder(Comm::world());
  auto const whole = folder.make("whole.h5", test::write_fields);
  auto const endless = folder.make("heap.h5", test::write_endless_heap);
  auto const expected = read_contents(whole);
  auto const first = helper();

  send_signal(first, SIGKILL);
  EXPECT_EQ(read_contents(whole).variables, expected.variables);
  auto const second = helper();
  EXPECT_NE(second, first);

  // While it has a file read, too.
  auto kill = with_reader([second](pid_t) { send_signal(second, SIGKILL); });
  auto const thrown = thrown_by([&] { (void)read_contents(endless); });
  kill.join();
  EXPECT_NE(thrown.text.find("came to no end in 2 s"), std::string::npos) << thrown.text;
  EXPECT_NE(helper(), second);

  // What the out-of-memory killer does to the process that reads is no fault of the file.
  auto kill_reader = with_reader([&](pid_t id) { send_signal(id, SIGKILL); });
  auto const rule = rule_of([&] { (void)read_contents(endless); });
  kill_reader.join();
  EXPECT_EQ(rule, "NoProcess");
  EXPECT_EQ(read_contents(whole).variables, expected.variables);
}

/// Forks a process that reads the file and then does `end`. @return its helper
pid_t helper_of_fork(std::filesystem::path const& path, pid_t& id, std::function<void()> const& end) {
  std::array<int, 2> pipe{-1, -1};
  if (::pipe(pipe.data()) != 0) return -1;
  id = ::fork();
  if (id == 0) {
    auto const before = children_of(::getpid()).size();
    auto const num_variables = read_contents(path).variables.size();
    auto const children = children_of(::getpid());
    pid_t const found = before == 0 && num_variables == 4 && children.size() == 1 ? children[0].id : -1;
    if (::write(pipe[1], &found, sizeof found) != sizeof found) ::_exit(1);
    end();
    ::_exit(0);
  }
  pid_t found = -1;
  if (::read(pipe[0], &found, sizeof found) != sizeof found) found = -1;
  ::close(pipe[0]);
  ::close(pipe[1]);
  return found;
}

TEST(ReadStructure, ends_with_its_owner_however_that_ends) {
  Folder const folder(Comm::world());
  auto const path = folder.make("whole.h5", test::write_fields);
  auto const expected = read_contents(path);
  auto const own = helper();

  for (bool const is_killed : {true, false}) {
    pid_t id = -1;
    auto const theirs = helper_of_fork(path, id, [&] {
      if (is_killed) ::pause();
    });
    ASSERT_GT(theirs, 0);
    EXPECT_NE(theirs, own);
    if (is_killed) {
      EXPECT_TRUE(is_there(theirs));
      send_signal(id, SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(id, &status, 0), id);
    EXPECT_TRUE(comes_true([&] { return !is_there(theirs); })) << is_killed;
  }

  // A fork leaves its parent's alone.
  EXPECT_EQ(read_contents(path).variables, expected.variables);
  EXPECT_EQ(helper(), own);
}

TEST(ReadStructure, knows_the_folder_that_paths_begin_in) {
  Folder const folder(Comm::world());
  auto const path = folder.make("whole.h5", test::write_fields);
  auto const expected = read_contents(path);
  auto const before = std::filesystem::current_path();

  std::filesystem::current_path(path.parent_path());
  auto const contents = read_contents("whole.h5");
  std::filesystem::current_path(before);

  EXPECT_EQ(contents.variables, expected.variables);
}

TEST(ReadStructure, serves_threads_and_needs_no_child_signal) {
  Folder const folder(Comm::world());
  auto const path = folder.make("whole.h5", test::write_fields);
  auto const old = std::signal(SIGCHLD, SIG_IGN);

  auto const ignored = read_contents(path);
  send_signal(helper(), SIGKILL);
  auto const again = read_contents(path);
  std::signal(SIGCHLD, old);
  std::vector<std::thread> threads;
  std::vector<FileContents> found(4);
  for (auto& contents : found)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) contents = read_contents(path);
    });
  for (auto& thread : threads) thread.join();

  EXPECT_EQ(ignored.variables.size(), 4U);
  EXPECT_EQ(again.variables, ignored.variables);
  for (auto const& contents : found) EXPECT_EQ(contents.variables, ignored.variables);
  EXPECT_GT(helper(), 0);
}

TEST(ReadStructure, that_is_missing_or_broken_is_done_without) {
  Folder const folder(Comm::world());
  auto const path = folder.make("whole.h5", test::write_fields);
  auto const expected = read_contents(path);

  for (auto const* choice : {"none", "/bin/false", "/bin/true"}) {
    WithVariable const setting(program, choice);
    auto const contents = read_contents(path);

    EXPECT_EQ(contents.variables, expected.variables) << choice;
    EXPECT_EQ(contents.dimensions, expected.dimensions) << choice;
    EXPECT_EQ(contents.attributes, expected.attributes) << choice;
  }
  {
    WithVariable const setting(program, "/no/such/program");
    EXPECT_EQ(rule_of([&] { (void)read_contents(path); }), "NoProcess");
    // No fault of the file, on any rank: drivers end with 1.
    auto const thrown = thrown_by([&] { FieldFile const file(Comm::world(), path); });
    EXPECT_EQ(thrown.rule, "NoProcess");
    EXPECT_EQ(thrown.fault, Fault::program);
  }
  EXPECT_EQ(read_contents(path).variables, expected.variables);
  EXPECT_GT(helper(), 0);
}

}  // namespace
}  // namespace graticule
