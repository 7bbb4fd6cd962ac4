// SPDX-License-Identifier: BSD-3-Clause
#include "structure_helper.hpp"

#include <graticule/partition/error.hpp>

#include "structure_program.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

extern char** environ;

namespace graticule::detail {

namespace {

/// How long its start may take: file systems may have much to do when many programs start.
constexpr std::chrono::seconds longest_start{120};

[[noreturn]] void no_process(std::string const& what, int code) {
  throw Error("NoProcess", what + ": " + std::generic_category().message(code));
}

/// What `posix_spawn` needs: no signal of this program's is blocked or ignored there, and nothing is printed.
class SpawnSettings {
 public:
  explicit SpawnSettings(int socket) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, socket, STDIN_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_RDWR, 0);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(SpawnSettings const&) = delete;
  SpawnSettings& operator=(SpawnSettings const&) = delete;
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }

  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> all;
    for (auto& word : words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  }

  /// @return an error number, or 0
  [[nodiscard]] int spawn(std::filesystem::path const& program, std::vector<std::string> words,
                          std::vector<std::string> variables, pid_t& id) const {
    auto arguments = pointers(words);
    auto environment = pointers(variables);
    return ::posix_spawn(&id, program.c_str(), &actions_, &attributes_, arguments.data(), environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// @return the folder of the library that has the symbol at this address, or nothing
std::string folder_of(void const* symbol) {
  Dl_info library{};
  if (symbol == nullptr || ::dladdr(symbol, &library) == 0 || library.dli_fname == nullptr) return {};
  return std::filesystem::absolute(library.dli_fname).parent_path().string();
}

/// The environment of this program; with `as_loaded`, a search path that finds the MPI and OpenMP libraries of this
/// process, also under the names that the Python package has for them: Python loads libraries from folders that the
/// system does not search.
std::vector<std::string> environment_for(std::filesystem::path const& program, bool as_loaded) {
  std::string const variable = "LD_LIBRARY_PATH=";
  std::vector<std::string> all;
  std::string search;
  for (auto** next = environ; next != nullptr && *next != nullptr; ++next) {
    if (as_loaded && std::string_view(*next).starts_with(variable))
      search = std::string(*next).substr(variable.size());
    else
      all.emplace_back(*next);
  }
  if (!as_loaded) return all;
  for (auto const& folder :
       {folder_of(reinterpret_cast<void const*>(&PMPI_Init)), folder_of(::dlsym(RTLD_DEFAULT, "GOMP_parallel")),
        (program.parent_path() / "names").string()})
    if (!folder.empty()) search += (search.empty() ? "" : ":") + folder;
  all.push_back(variable + search);
  return all;
}

void warn_once(std::string const& what) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::cerr << "graticule: " << what << ": files are read without it, and a damaged one may crash this program (set "
              << structure_variable << " to its path, or to none)\n";
  });
}

}  // namespace

Pipe::Pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) no_process(std::string("no pipe for ") + structure_program, errno);
  reader = Descriptor(ends[0]);
  writer = Descriptor(ends[1]);
}

StructureHelper& StructureHelper::only() {
  static StructureHelper helper;
  return helper;
}

StructureHelper::~StructureHelper() { end(); }

std::optional<FileReader> StructureHelper::begin(std::string const& request) {
  auto const* const variable = std::getenv(structure_variable);
  std::string const chosen = variable != nullptr ? variable : "";
  if (chosen == "none") return {};
  std::lock_guard const lock(mutex_);
  if (id_ >= 0 && (owner_ != ::getpid() || chosen_ != chosen)) end();
  // One that was ended from outside since the last file is replaced.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (id_ < 0 && !start(chosen)) return {};
    Pipe answer;
    Pipe status;
    if (send(request, {answer.writer.get(), status.writer.get()}))
      return FileReader{std::move(answer.reader), std::move(status.reader), number_};
    end();
  }
  throw Error("NoProcess", std::string(structure_program) + " exited immediately after its start, twice");
}

void StructureHelper::end(FileReader const& reader) {
  std::lock_guard const lock(mutex_);
  if (reader.helper == number_) end();
}

void StructureHelper::end() noexcept {
  socket_ = Descriptor();
  // In a process that was forked from its owner it is another's.
  if (id_ > 0 && owner_ == ::getpid()) {
    ::kill(id_, SIGKILL);
    // Where the program's own signal handler is faster, there is none to wait for.
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  id_ = -1;
}

bool StructureHelper::start(std::string const& chosen) {
  chosen_ = chosen;
  if (!chosen.empty()) {
    if (!unusable_.contains(chosen) && (start_program(chosen, false) || start_program(chosen, true))) return true;
    unusable_.insert(chosen);
    warn_once(chosen + " does not start, or is of another version");
    return false;
  }
  std::string others;
  for (auto const& program : find_structure_programs()) {
    if (!unusable_.contains(program) && (start_program(program, false) || start_program(program, true))) return true;
    unusable_.insert(program);
    others += (others.empty() ? "; those of other versions, or that do not start: " : ", ") + program.string();
  }
  warn_once(std::string(structure_program) + " was not found in " + structure_program_folders() + others);
  return false;
}

bool StructureHelper::start_program(std::filesystem::path const& program, bool as_loaded) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    no_process(std::string("no socket for ") + structure_program, errno);
  socket_ = Descriptor(ends[0]);
  Descriptor theirs(ends[1]);
  int const code = SpawnSettings(theirs.get())
                       .spawn(program, {structure_program, GRATICULE_RELEASE, structure_protocol},
                              environment_for(program, as_loaded), id_);
  // Kept open here, it would hide that the helper is gone.
  theirs = Descriptor();
  if (code != 0) {
    id_ = -1;
    bool const is_none = code == ENOEXEC || code == ENOENT || code == EACCES;
    if (is_none && chosen_.empty()) return false;
    no_process(program.string() + " cannot be started", code);
  }
  owner_ = ::getpid();
  ++number_;
  if (greets()) return true;
  end();
  return false;
}

bool StructureHelper::greets() const {
  auto const last = std::chrono::steady_clock::now() + longest_start;
  for (;;) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(last - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd waits{socket_.get(), POLLIN, 0};
    int const ready = ::poll(&waits, 1, int(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    std::array<char, 256> greeting;
    auto const got = ::recv(socket_.get(), greeting.data(), greeting.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    return got > 0 && std::string(greeting.data(), std::size_t(got)) == structure_greeting;
  }
}

bool StructureHelper::send(std::string const& request, std::array<int, 2> const& pipes) const {
  iovec part{const_cast<char*>(request.data()), request.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof pipes)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  auto* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof pipes);
  std::memcpy(CMSG_DATA(head), pipes.data(), sizeof pipes);
  ssize_t sent = -1;
  do sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EPIPE && errno != ECONNRESET && errno != ENOTCONN)
    no_process(std::string(structure_program) + " cannot be asked", errno);
  return sent >= 0;
}

}  // namespace graticule::detail
