// SPDX-License-Identifier: BSD-3-Clause
#include "structure_process.hpp"

#include "hdf5/handle.hpp"
#include "structure_helper.hpp"
#include "structure_program.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

namespace graticule::detail {

namespace {

using Clock = std::chrono::steady_clock;

/// Longer answers are rejected.
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

/// How the process that read the file ended; nothing when the helper itself is gone, or stands still.
std::optional<ReaderEnd> end_of(FileReader const& reader) {
  ReaderEnd end;
  constexpr int patience_ms = 10000;
  pollfd waits{reader.end.get(), POLLIN, 0};
  int ready = 0;
  do ready = ::poll(&waits, 1, patience_ms);
  while (ready < 0 && errno == EINTR);
  // So few bytes come at once or not at all.
  if (ready <= 0 || ::read(reader.end.get(), &end, sizeof end) != sizeof end) return {};
  return end;
}

/// Reason for the missing answer, for the error message.
std::string what_happened(ReaderEnd const& end, std::string const& reading, StructureLimits const& limits) {
  auto const at = reading.empty() ? std::string() : " at " + reading;
  if (end.no_process != 0)
    throw Error("NoProcess", std::string(structure_program) + " cannot start a process for a file: " +
                                 std::generic_category().message(end.no_process));
  if (!WIFSIGNALED(end.status)) return "HDF5 crashed" + at;
  int const number = WTERMSIG(end.status);
  if (number == SIGALRM) return "reading it took more than " + std::to_string(limits.seconds) + " s" + at;
  if (number == SIGXCPU) return "reading it came to no end in " + std::to_string(limits.processor_seconds) + " s" + at;
  if (number == SIGKILL || number == SIGTERM)
    throw Error("NoProcess", std::string(structure_program) + " was killed by signal " + std::to_string(number));
  return "HDF5 crashed" + at + ", by signal " + std::to_string(number);
}

/// What the helper is asked: words, each with its last byte 0.
std::string request_for(Structure kind, std::filesystem::path const& path, FilterPlugins plugins) {
  // The path may be relative, as the names of other files in there are.
  std::error_code ignored;
  std::string request;
  for (auto const& word : {std::string(kind == Structure::contents  ? "contents"
                                       : kind == Structure::growing ? "growing"
                                                                    : "checkpoint"),
                           std::string(h5::allows_plugins(plugins) ? "plugins" : "no-plugins"),
                           std::filesystem::current_path(ignored).string(), path.string()})
    request += word + '\0';
  return request;
}

[[noreturn]] void refuse(std::filesystem::path const& path, std::string const& what) {
  throw Error(Fault::input, "BrokenFile", path.string() + " is damaged (" + what + "); copy or make it again");
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
  auto& helper = StructureHelper::only();
  auto const request = request_for(kind, path, plugins);
  std::error_code ignored;
  auto const limits = structure_limits(kind, std::filesystem::file_size(path, ignored));
  // A helper that is ended from outside takes the process that reads this file with it; another one reads it again.
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto const reader = helper.begin(request);
    if (!reader) return {};
    auto answer = FrameReader(Clock::now() + std::chrono::seconds(limits.seconds)).read(reader->answer.get());
    if (answer.kind == Frame::answer) return std::move(answer.bytes);
    if (answer.kind == Frame::error) {
      auto const end = answer.bytes.find('\n');
      auto const rule = answer.bytes.substr(0, end);
      throw Error(rule == "NoProcess" ? Fault::program : Fault::input, rule, answer.bytes.substr(end + 1));
    }
    if (answer.came_in_time) {
      if (auto const end = end_of(*reader)) refuse(path, what_happened(*end, answer.reading.value_or(""), limits));
    } else if (answer.reading) {
      refuse(path, what_happened({.status = SIGALRM}, *answer.reading, limits));
    }
    helper.end(*reader);
  }
  throw Error("NoProcess",
              std::string(structure_program) + " was killed, or hung, while reading " + path.string() + ", twice");
}

}  // namespace graticule::detail
