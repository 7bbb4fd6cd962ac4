// SPDX-License-Identifier: BSD-3-Clause
// Reads a file's structure for a program that a damaged file must not harm: started by the library for each file that it
// opens, never by users. What it sends is described in `structure_process.hpp`.
#include <graticule/partition/error.hpp>

#include "catalogue.hpp"
#include "checkpoint_contents.hpp"
#include "chunk_check.hpp"
#include "structure_process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

namespace {

using namespace graticule;
using namespace graticule::detail;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;  // of terabytes, which a limit would forbid
#else
constexpr bool has_shadow_memory = false;
#endif

void limit(__rlimit_resource what, rlim_t most) {
  rlimit limits{};
  if (::getrlimit(what, &limits) != 0) return;
  limits.rlim_cur = std::min(limits.rlim_cur, most);
  ::setrlimit(what, &limits);
}

/// Nothing of the caller's stays open here: a pipe that it closes must not live on in a process that it did not ask for.
void close_inherited(int kept) {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return;
  std::array<bool, 4096> open{};
  while (dirent const* entry = ::readdir(folder))
    if (int const id = std::atoi(entry->d_name); id > STDERR_FILENO && std::size_t(id) < open.size())
      open[std::size_t(id)] = id != kept && id != ::dirfd(folder);
  ::closedir(folder);
  for (std::size_t id = 0; id < open.size(); ++id)
    if (open[id]) ::close(int(id));
}

void limit_this_process(StructureLimits const& limits, int kept) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_inherited(kept);
  // UCX, which comes with MPI, would print a backtrace first.
  for (int const signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU}) std::signal(signal, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, rlim_t(limits.processor_seconds));
  if (!has_shadow_memory) limit(RLIMIT_AS, limits.memory_bytes);
}

/// The pipe to the caller.
class Sender {
 public:
  explicit Sender(int pipe) : pipe_(pipe) {}

  void send(Frame kind, std::string_view bytes) const {
    std::uint64_t const length = bytes.size();
    std::string head(1, char(kind));
    head.append(reinterpret_cast<char const*>(&length), sizeof length);
    write(head);
    write(bytes);
  }

 private:
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      auto const written = ::write(pipe_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) ::_exit(EXIT_FAILURE);  // the caller is gone
      bytes.remove_prefix(std::size_t(written));
    }
  }

  int pipe_;
};

std::string read(Structure kind, std::filesystem::path const& path, FilterPlugins plugins, Sender const& sender) {
  auto const note = [&](std::string const& what) { sender.send(Frame::reads, what); };
  if (kind == Structure::checkpoint) return to_bytes(list_checkpoint(path, note));
  ChunkCheck const check(std::filesystem::file_size(path));
  return to_bytes(list_catalogue(path, plugins,
                                 {note, [&](hid_t dataset, Variable const& variable) { check(dataset, variable); }}));
}

void answer(Structure kind, std::filesystem::path const& path, FilterPlugins plugins, Sender const& sender) {
  try {
    sender.send(Frame::answer, read(kind, path, plugins, sender));
  } catch (Error const& error) {
    sender.send(Frame::error, error.rule() + "\n" + error.given());
  } catch (std::exception const& error) {
    bool const is_checkpoint = kind == Structure::checkpoint;
    sender.send(Frame::error, std::string(is_checkpoint ? "BrokenCheckpoint" : "BrokenFile") + "\n" + path.string() +
                                  " is damaged (" + error.what() + "); copy or make it again");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 || std::string_view(argv[1]) != GRATICULE_RELEASE) {
    std::cerr << "graticule-read-structure is a part of Graticule that reads files for its programs. It is of version "
              << GRATICULE_RELEASE << ".\n";
    return 2;
  }
  auto const kind = std::string_view(argv[2]) == "checkpoint" ? Structure::checkpoint : Structure::contents;
  auto const plugins = std::string_view(argv[3]) == "plugins" ? FilterPlugins::allowed : FilterPlugins::refused;
  std::filesystem::path const path = argv[4];
  // HDF5 lists chunks on the standard output.
  int const pipe = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  Sender const sender(pipe);
  sender.send(Frame::reads, "");
  std::error_code ignored;
  limit_this_process(structure_limits(kind, std::filesystem::file_size(path, ignored)), pipe);
  answer(kind, path, plugins, sender);
  // HDF5 may hang or crash when it closes a damaged file.
  ::_exit(EXIT_SUCCESS);
}
