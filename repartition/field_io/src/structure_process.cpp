// SPDX-License-Identifier: BSD-3-Clause
#include "structure_process.hpp"

#include "descriptor.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

extern char** environ;

namespace graticule::detail {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto program_name = "graticule-read-structure";
constexpr auto variable_name = "GRATICULE_READ_STRUCTURE";

bool is_program(std::filesystem::path const& path) { return ::access(path.c_str(), X_OK) == 0; }

/// Folder of the program or shared library that holds this code.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void const*>(&structure_limits), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  // The name of the program itself is what it was called by, which may lie anywhere in PATH.
  std::filesystem::path const named = info.dli_fname;
  auto const path = named.extension() == ".so" || named.filename().string().find(".so.") != std::string::npos
                        ? std::filesystem::canonical(named, error)
                        : std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : path.parent_path();
}

std::vector<std::filesystem::path> likely_folders() {
  std::vector<std::filesystem::path> folders;
  auto const add_list = [&](std::string const& list) {
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ':');)
      if (!part.empty()) folders.emplace_back(part);
  };
  if (auto const own = own_folder(); !own.empty()) {
    folders.push_back(own);
    folders.push_back(own / ".." / "bin");
  }
  add_list(GRATICULE_PROGRAM_FOLDERS);
  if (auto const* path = std::getenv("PATH")) add_list(path);
  return folders;
}

std::filesystem::path find_program() {
  for (auto const& folder : likely_folders())
    if (auto path = folder / program_name; is_program(path)) return path;
  return {};
}

/// Both ends of a pipe, closed on exec.
struct Pipe {
  Descriptor reader;
  Descriptor writer;

  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw Error("OutOfDescriptors",
                  "no pipe for " + std::string(program_name) + ": " + std::generic_category().message(errno));
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
  }
};

/// What `posix_spawn` needs: no signal of this program's is blocked or ignored there, and nothing is printed.
class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
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

  [[nodiscard]] pid_t spawn(std::filesystem::path const& program, std::vector<std::string> words) const {
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t id = -1;
    if (int const code = ::posix_spawn(&id, program.c_str(), &actions_, &attributes_, arguments.data(), environ);
        code != 0)
      throw Error("NoProcess", program.string() + " cannot be started: " + std::generic_category().message(code));
    return id;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// A child that is gone when this is.
class Child {
 public:
  explicit Child(pid_t id) noexcept : id_(id) {}
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;
  ~Child() {
    if (id_ < 0) return;
    ::kill(id_, SIGKILL);
    (void)wait();
  }

  void kill() const noexcept { ::kill(id_, SIGKILL); }
  /// Its wait status; -1 when the program's own signal handler was faster.
  int wait() noexcept {
    int status = -1;
    pid_t got = 0;
    do got = ::waitpid(id_, &status, 0);
    while (got < 0 && errno == EINTR);
    bool const known = got == id_;
    id_ = -1;
    return known ? status : -1;
  }

 private:
  pid_t id_;
};

/// Longer answers are not believed.
constexpr std::uint64_t longest_answer = std::uint64_t(1) << 40;

constexpr std::size_t head_bytes = 1 + sizeof(std::uint64_t);

struct Answer {
  std::optional<Frame> kind;
  std::string bytes;
  std::optional<std::string> reading;  ///< nothing when the program did not even start
  bool came_in_time = true;
};

class FrameReader {
 public:
  explicit FrameReader(Clock::time_point end) : end_(end) {}

  /// Reads until the last frame, the end of the pipe or the time's.
  Answer read(int pipe) {
    Answer answer;
    while (!answer.kind && answer.came_in_time && fill(pipe, answer)) take_frames(answer);
    return answer;
  }

 private:
  bool fill(int pipe, Answer& answer) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    pollfd waits{pipe, POLLIN, 0};
    int const ready = left > 0 ? ::poll(&waits, 1, int(left)) : 0;
    if (ready < 0) return errno == EINTR;
    answer.came_in_time = ready > 0;
    if (ready == 0) return false;
    std::array<char, 65536> part;
    auto const got = ::read(pipe, part.data(), part.size());
    if (got < 0) return errno == EINTR;
    bytes_.append(part.data(), std::size_t(got));
    return got > 0;
  }

  void take_frames(Answer& answer) {
    std::size_t at = 0;
    while (bytes_.size() - at >= head_bytes && !answer.kind) {
      std::uint64_t length = 0;
      std::memcpy(&length, bytes_.data() + at + 1, sizeof length);
      if (length > longest_answer || bytes_.size() - at - head_bytes < length) break;
      auto const kind = Frame(bytes_[at]);
      auto text = bytes_.substr(at + head_bytes, std::size_t(length));
      at += head_bytes + std::size_t(length);
      if (kind == Frame::reads) {
        answer.reading = std::move(text);
      } else {
        answer.kind = kind;
        answer.bytes = std::move(text);
      }
    }
    bytes_.erase(0, at);
  }

  Clock::time_point end_;
  std::string bytes_;
};

void warn_once(std::string const& what) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::cerr << "graticule: " << what << ": files are read without it, and a damaged one may crash this program (set "
              << variable_name << " to its path, or to none)\n";
  });
}

/// Why no answer came, for the error's text.
std::string what_happened(int status, Answer const& answer, StructureLimits const& limits) {
  auto const at = answer.reading.value_or("").empty() ? std::string() : " at " + *answer.reading;
  if (!answer.came_in_time) return "reading it took more than " + std::to_string(limits.seconds) + " s" + at;
  if (status >= 0 && WIFSIGNALED(status)) {
    int const number = WTERMSIG(status);
    if (number == SIGXCPU)
      return "reading it came to no end in " + std::to_string(limits.processor_seconds) + " s" + at;
    if (number == SIGKILL || number == SIGTERM)
      throw Error("NoProcess", std::string(program_name) + " was killed by signal " + std::to_string(number));
    return "HDF5 crashed" + at + ", by signal " + std::to_string(number);
  }
  return "HDF5 crashed" + at;
}

}  // namespace

StructureLimits structure_limits(Structure kind, std::uintmax_t file_bytes) {
  constexpr std::uintmax_t mebibyte = std::uintmax_t(1) << 20;
  auto const megabytes = std::min<std::uintmax_t>(file_bytes / mebibyte, 1 << 20);
  StructureLimits limits;
  // The values of a checkpoint are read whole, and copied on their way.
  limits.memory_bytes = 1024 * mebibyte + (kind == Structure::checkpoint ? 4 * file_bytes : 0);
  limits.processor_seconds = 2 + int(megabytes / 8);
  limits.seconds = 120 + int(megabytes);
  return limits;
}

std::optional<std::string> read_by_process(Structure kind, std::filesystem::path const& path, FilterPlugins plugins) {
  auto const* const chosen = std::getenv(variable_name);
  std::filesystem::path program = chosen != nullptr ? chosen : "";
  if (program == "none") return {};
  if (program.empty()) program = find_program();
  if (program.empty()) {
    warn_once(std::string(program_name) + " was found neither beside this program nor in PATH");
    return {};
  }
  std::error_code ignored;
  auto const limits = structure_limits(kind, std::filesystem::file_size(path, ignored));
  Pipe pipe;
  Child child(
      SpawnSettings(pipe.writer.get())
          .spawn(program, {program_name, GRATICULE_RELEASE, kind == Structure::contents ? "contents" : "checkpoint",
                           plugins == FilterPlugins::allowed ? "plugins" : "no-plugins", path.string()}));
  pipe.writer = Descriptor();
  auto answer = FrameReader(Clock::now() + std::chrono::seconds(limits.seconds)).read(pipe.reader.get());
  if (!answer.kind) child.kill();
  int const status = child.wait();
  if (answer.kind == Frame::answer) return std::move(answer.bytes);
  if (answer.kind == Frame::error) {
    auto const end = answer.bytes.find('\n');
    throw Error(Fault::input, answer.bytes.substr(0, end), answer.bytes.substr(end + 1));
  }
  if (!answer.reading && answer.came_in_time) {
    warn_once(program.string() + " does not start, or is of another version");
    return {};
  }
  throw Error(Fault::input, kind == Structure::contents ? "BrokenFile" : "BrokenCheckpoint",
              path.string() + " is damaged (" + what_happened(status, answer, limits) + "); copy or make it again");
}

}  // namespace graticule::detail
