// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/folder_lock.hpp>
#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/file_lock.hpp"
#include "hdf5/undo_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
constexpr std::string_view folder_extension = ".d";  // behind that of its lock

fs::path folder_of(fs::path const& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// @param given the file's name for the user
void sync_to_disk(fs::path const& path, int flags, fs::path const& given) {
  Descriptor const file(::open(path.c_str(), flags | O_CLOEXEC));
  if (file.get() < 0) fail_output(given, system_reason(errno));
  sync_to_disk(file, given);
}

/// Eight hexadecimal digits: names of hosts may be long, those of files may not.
std::string host_tag() {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", unsigned(Hash().add(std::string_view(host_name())).value()));
  return text.data();
}

constexpr std::size_t tag_length = 8;

std::string prefix_of(fs::path const& target) { return "." + target.filename().string() + "."; }

constexpr int most_links = 40;  // as Linux

/// Calls `visit(link, path)` for each symbolic link, and what it leads to. @return the number of links
template <class Visit>
int follow_links(fs::path at, Visit const& visit) {
  std::error_code error;
  int links = 0;
  for (; links < most_links && fs::is_symlink(at, error); ++links) {
    auto const link = at;
    at = folder_of(at) / fs::read_symlink(at, error);  // the link's own text alone when it is absolute
    visit(link, at);
  }
  return links;
}

/// The rule of Linux's `fs.protected_symlinks`, which the kernel applies to the paths that it resolves itself, for all
/// folders that others may write to: who makes a link there chooses the file that is replaced.
void require_trusted(fs::path const& link, fs::path const& given) {
  struct stat made {};
  struct stat folder {};
  if (::lstat(link.c_str(), &made) != 0 || ::stat(folder_of(link).c_str(), &folder) != 0) return;
  bool const others_write = (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (!others_write || made.st_uid == ::geteuid() || made.st_uid == folder.st_uid) return;
  fail_output(given, (link == given ? "it" : link.string()) + " is a symbolic link of another user (number " +
                         std::to_string(made.st_uid) + ") in a folder that others may write to; choose another name");
}

/// What the name of a temporary file says.
struct Maker {
  std::string_view target;
  std::string_view host;
  long process = 0;
};
std::optional<Maker> maker_of(std::string_view file) {
  if (!file.starts_with('.') || !file.ends_with(extension)) return {};
  file.remove_suffix(extension.size());
  auto const dot = file.rfind('.');
  if (dot == 0 || dot == std::string_view::npos) return {};
  auto const rest = file.substr(dot + 1);
  Maker maker{file.substr(1, dot - 1), rest.substr(0, tag_length)};
  if (rest.size() <= tag_length || rest[tag_length] != '-' ||
      maker.host.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return {};
  auto const* const end = rest.data() + rest.size();
  auto const [last, error] = std::from_chars(rest.data() + tag_length + 1, end, maker.process);
  if (error != std::errc() || maker.process <= 0) return {};
  if (last == end) return maker;
  int attempt = 0;
  auto const [behind, trouble] = std::from_chars(last + 1, end, attempt);
  if (*last != '-' || trouble != std::errc() || behind != end) return {};
  return maker;
}

/// Whether the program that made an open temporary file has ended. Its lock tells that on any host, unless the file
/// system keeps locks on theirs; where there are none, the list of processes tells it.
bool has_ended(int file, Maker const& maker) {
  bool const is_here = maker.host == host_tag();
  switch (lock_file(file)) {
    case Locked::yes: return is_here || !locks_stay_on_host(file);
    case Locked::by_another: return false;
    case Locked::unknown: return is_here && !process_lives(maker.process);
  }
  return false;
}

/// What killed programs have left. @param target empty: for any file
void remove_leftovers(fs::path const& folder, std::string_view target) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().string();
    auto const maker = maker_of(name);
    if (!maker || (!target.empty() && maker->target != target)) continue;
    Descriptor const file(::open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    // Under the lock nobody else removes the name.
    if (file.get() >= 0 && has_ended(file.get(), *maker) && is_name_of(entry->path(), file.get())) {
      std::error_code ignored;
      fs::remove_all(entry->path().string() + std::string(folder_extension), ignored);
      ::unlink(entry->path().c_str());
    }
  }
}

}  // namespace

void fail_output(fs::path const& path, std::string const& what) {
  throw Error("OutputError", path.string() + " cannot be written: " + what);
}

fs::path linked_path(fs::path const& path) {
  auto result = path;
  auto const follow = [&](fs::path const& link, fs::path const& next) {
    require_trusted(link, path);
    result = next;
  };
  if (follow_links(path, follow) == most_links) fail_output(path, system_reason(ELOOP));
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
  follow_links(path, [&](fs::path const&, fs::path const& next) { look(next); });
  return found;
}

void sync_to_disk(fs::path const& path) { sync_to_disk(path, O_RDONLY, path); }

TemporaryFile::TemporaryFile(fs::path const& path, For what) : given_(path) {
  if (is_stream(path)) fail_output(path, "it is no ordinary file");
  target_ = linked_path(path);
  std::error_code ignored;
  if (path.empty()) throw Error("OutputError", "'' cannot be written: it has no name");
  if (target_.filename().empty() || (what == For::file && fs::is_directory(target_, ignored)))
    fail_output(path, "it is a folder");
  if (what == For::folder && fs::exists(target_, ignored) && !fs::is_directory(target_, ignored))
    fail_output(path, "it is a file, not a folder");
  if (!fs::is_directory(folder_of(target_), ignored))
    fail_output(path, "the folder " + folder_of(target_).string() + " does not exist");
  remove_leftovers(folder_of(target_), target_.filename().string());
  auto const own = prefix_of(target_) + host_tag() + "-" + std::to_string(::getpid());
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    path_ = folder_of(target_) / (own + (attempt > 0 ? "-" + std::to_string(attempt) : "") + std::string(extension));
    descriptor_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) fail_output(path, system_reason(errno));
    // Another program that looks for leftovers may have found it before it was locked.
    if (descriptor_ >= 0 && (lock_file(descriptor_) == Locked::by_another || !is_name_of(path_, descriptor_)))
      ::close(std::exchange(descriptor_, -1));
  }
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
  forget_interrupted(target_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail_output(given_, system_reason(errno));
  ::close(std::exchange(descriptor_, -1));
  sync_to_disk(folder_of(target_), O_RDONLY | O_DIRECTORY, given_);
}

int TemporaryFile::publish_locked() {
  sync_to_disk(path_, O_RDONLY, given_);
  if (::link(path_.c_str(), target_.c_str()) == 0)
    ::unlink(path_.c_str());
  else if (errno == EEXIST || ::rename(path_.c_str(), target_.c_str()) != 0)  // not every file system has links
    fail_output(given_, system_reason(errno));
  sync_to_disk(folder_of(target_), O_RDONLY | O_DIRECTORY, given_);
  return std::exchange(descriptor_, -1);
}

TemporaryFolder::TemporaryFolder(fs::path const& path)
    : lock_(path, TemporaryFile::For::folder), path_(lock_.path().string() + std::string(folder_extension)) {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (::mkdir(path_.c_str(), 0777) == 0) return;
  auto const reason = system_reason(errno);
  path_.clear();
  fail_output(path, reason);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : lock_(std::move(other.lock_)), path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void TemporaryFolder::publish() {
  std::error_code ignored;
  auto const& target = lock_.target_;
  bool const replaces = fs::exists(target, ignored);
  bool is_exchanged = false;
#ifdef RENAME_EXCHANGE
  is_exchanged = replaces && ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
#endif
  auto old = path_;
  if (!is_exchanged) {
    if (replaces) {
      old = target.string() + "." + host_tag() + "-" + std::to_string(::getpid()) + ".old";
      if (::rename(target.c_str(), old.c_str()) != 0) fail_output(lock_.given_, system_reason(errno));
    }
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      auto const reason = system_reason(errno);
      if (replaces) static_cast<void>(::rename(old.c_str(), target.c_str()));
      fail_output(lock_.given_, reason);
    }
  }
  sync_to_disk(folder_of(target), O_RDONLY | O_DIRECTORY, lock_.given_);
  if (replaces) fs::remove_all(old, ignored);
  path_.clear();
}

}  // namespace graticule::detail

void graticule::remove_leftovers(std::filesystem::path const& folder) {
  detail::remove_leftovers(folder, std::string_view());
}
