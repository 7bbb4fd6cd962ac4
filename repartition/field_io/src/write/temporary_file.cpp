// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/partition/hash.hpp>

#include "hdf5/descriptor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace graticule::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view extension = ".part";

fs::path folder_of(fs::path const& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// @param given the file's name for the user
void sync_to_disk(fs::path const& path, int flags, fs::path const& given) {
  Descriptor const file(::open(path.c_str(), flags | O_CLOEXEC));
  if (file.get() < 0) fail_output(given, system_reason(errno));
  sync_to_disk(file, given);
}

/// Eight hexadecimal digits: names of hosts may be long, those of files may not.
std::string host_tag() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", unsigned(Hash().add(std::string_view(name.data())).value()));
  return text.data();
}

std::string prefix_of(fs::path const& target) { return "." + target.filename().string() + "." + host_tag() + "-"; }

constexpr int most_links = 40;  // as Linux

/// Calls `visit(path)` for what each symbolic link leads to. @return the number of links
template <class Visit>
int follow_links(fs::path at, Visit const& visit) {
  std::error_code error;
  int links = 0;
  for (; links < most_links && fs::is_symlink(at, error); ++links) {
    at = folder_of(at) / fs::read_symlink(at, error);  // the link's own text alone when it is absolute
    visit(at);
  }
  return links;
}

/// A lock of this open file, which goes when it is closed or its process is killed. It covers one byte far behind the
/// end, because MPI-IO locks what it writes on some file systems.
enum class Locked { yes, by_another, unknown };
Locked lock(int file) {
  struct flock one_byte {};
  one_byte.l_type = F_WRLCK;
  one_byte.l_whence = SEEK_SET;
  one_byte.l_start = off_t(1) << 62U;
  one_byte.l_len = 1;
#ifdef F_OFD_SETLK
  if (::fcntl(file, F_OFD_SETLK, &one_byte) == 0) return Locked::yes;
  return errno == EAGAIN || errno == EACCES ? Locked::by_another : Locked::unknown;
#else
  return Locked::unknown;
#endif
}

/// The process that a temporary file of this host names.
std::optional<pid_t> process_of(std::string_view file, std::string_view prefix) {
  if (!file.starts_with(prefix) || !file.ends_with(extension)) return {};
  file.remove_prefix(prefix.size());
  file.remove_suffix(extension.size());
  pid_t process = 0;
  auto const* const end = file.data() + file.size();
  auto const [rest, error] = std::from_chars(file.data(), end, process);
  if (error != std::errc() || process <= 0 || (rest != end && *rest != '-')) return {};
  return process;
}

/// What killed programs have left.
void remove_leftovers(fs::path const& target) {
  auto const prefix = prefix_of(target);
  std::error_code error;
  for (fs::directory_iterator entry(folder_of(target), error), end; !error && entry != end; entry.increment(error)) {
    auto const process = process_of(entry->path().filename().string(), prefix);
    if (!process || ::kill(*process, 0) == 0 || errno != ESRCH) continue;
    // A process of another container is not seen, but its lock is.
    int const file = ::open(entry->path().c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    if (lock(file) != Locked::by_another) ::unlink(entry->path().c_str());
    ::close(file);
  }
}

}  // namespace

void fail_output(fs::path const& path, std::string const& what) {
  throw Error("OutputError", path.string() + " cannot be written: " + what);
}

fs::path linked_path(fs::path const& path) {
  auto result = path;
  if (follow_links(path, [&](fs::path const& next) { result = next; }) == most_links)
    fail_output(path, system_reason(ELOOP));
  return result;
}

bool is_stream(fs::path const& path) {
  std::error_code error;
  auto const kind = fs::status(path, error).type();
  bool found = kind == fs::file_type::character || kind == fs::file_type::block || kind == fs::file_type::fifo ||
               kind == fs::file_type::socket;
  // A link in there stands for an open file, and may name nothing.
  auto const look = [&](fs::path const& at) {
    auto const folder = fs::canonical(folder_of(at), error);
    found = found || (!error && folder.string().starts_with("/proc/"));
  };
  look(path);
  follow_links(path, look);
  return found;
}

void sync_to_disk(fs::path const& path) { sync_to_disk(path, O_RDONLY, path); }

TemporaryFile::TemporaryFile(fs::path const& path) : given_(path) {
  if (is_stream(path)) fail_output(path, "it is no ordinary file");
  target_ = linked_path(path);
  std::error_code ignored;
  if (path.empty()) throw Error("OutputError", "'' cannot be written: it has no name");
  if (target_.filename().empty() || fs::is_directory(target_, ignored)) fail_output(path, "it is a folder");
  if (!fs::is_directory(folder_of(target_), ignored))
    fail_output(path, "the folder " + folder_of(target_).string() + " does not exist");
  remove_leftovers(target_);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    path_ = folder_of(target_) / (prefix_of(target_) + std::to_string(::getpid()) +
                                  (attempt > 0 ? "-" + std::to_string(attempt) : "") + std::string(extension));
    descriptor_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) fail_output(path, system_reason(errno));
  }
  static_cast<void>(lock(descriptor_));
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : given_(std::move(other.given_)),
      target_(std::move(other.target_)),
      path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

void TemporaryFile::publish() {
  sync_to_disk(path_, O_RDONLY, given_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail_output(given_, system_reason(errno));
  ::close(std::exchange(descriptor_, -1));
  sync_to_disk(folder_of(target_), O_RDONLY | O_DIRECTORY, given_);
}

}  // namespace graticule::detail
