// SPDX-License-Identifier: BSD-3-Clause
#include "files.hpp"

#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/disk_room.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <tuple>
#include <utility>

namespace graticule::detail {

namespace {

constexpr std::string_view extension = ".h5";
constexpr std::string_view temporary_extension = ".part";

/// Takes `expected` from the front.
bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<Index> take_number(std::string_view& text) {
  Index value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Longer numbers than this were not counted by us, and the one after them might not exist.
  constexpr std::ptrdiff_t most_digits = 18;
  if (error != std::errc() || value < 0 || end - text.data() > most_digits) return {};
  text.remove_prefix(std::size_t(end - text.data()));
  return value;
}

std::string file_name(std::string const& name, Index number, Index step) {
  std::array<char, 64> numbers{};
  std::snprintf(numbers.data(), numbers.size(), "-%06lld-step-%09lld", static_cast<long long>(number),
                static_cast<long long>(step));
  return name + numbers.data() + std::string(extension);
}

/// Of this open file, not of the process: it goes when the file is closed or its process is killed, and a second writer
/// in the same program meets it as well. HDF5 locks files in another way.
bool lock(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
#ifdef F_OFD_SETLK
  return ::fcntl(file, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
#else
  return ::fcntl(file, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
#endif
}

template <class Visit>
void for_each_name(std::filesystem::path const& folder, Visit&& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    visit(entry->path().filename().string());
}

}  // namespace

std::optional<CheckpointFile> parse_checkpoint_name(std::string_view file, std::string_view name) {
  CheckpointFile result;
  if (!take(file, name) || !take(file, "-")) return {};
  auto const number = take_number(file);
  if (!number || !take(file, "-step-")) return {};
  auto const step = take_number(file);
  if (!step || file != extension) return {};
  result.number = *number;
  result.step = *step;
  return result;
}

std::vector<CheckpointFile> list_checkpoints(std::filesystem::path const& folder, std::string const& name) {
  std::vector<CheckpointFile> files;
  for_each_name(folder, [&](std::string const& file) {
    if (auto found = parse_checkpoint_name(file, name)) {
      found->path = folder / file;
      files.push_back(std::move(*found));
    }
  });
  std::sort(files.begin(), files.end(), [](auto const& a, auto const& b) {
    return std::tie(a.number, a.step, a.path) > std::tie(b.number, b.step, b.path);
  });
  return files;
}

void remove_leftovers(std::filesystem::path const& folder, std::string const& name) {
  for_each_name(folder, [&](std::string_view const file) {
    if (!file.starts_with('.') || !file.ends_with(temporary_extension)) return;
    if (!parse_checkpoint_name(file.substr(1, file.size() - 1 - temporary_extension.size()), name)) return;
    auto const path = folder / file;
    Descriptor const leftover(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (leftover.get() >= 0 && lock(leftover.get())) ::unlink(path.c_str());
  });
}

void prune_checkpoints(std::filesystem::path const& folder, std::string const& name, int keep,
                       std::vector<std::filesystem::path> const& broken) {
  int kept = 0;
  for (auto const& file : list_checkpoints(folder, name)) {
    if (kept == keep)
      ::unlink(file.path.c_str());
    else if (std::find(broken.begin(), broken.end(), file.path) == broken.end())
      ++kept;
  }
}

CheckpointTemporary::CheckpointTemporary(std::filesystem::path const& folder, std::string const& name, Index step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_output(folder, error.message());
  remove_leftovers(folder, name);
  auto const files = list_checkpoints(folder, name);
  final_ = {.number = files.empty() ? 1 : files.front().number + 1, .step = step, .path = {}};
  for (constexpr int most_attempts = 100; descriptor_.get() < 0;) {
    final_.path = folder / file_name(name, final_.number, step);
    path_ = folder / ("." + final_.path.filename().string() + std::string(temporary_extension));
    descriptor_ = Descriptor(::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
    if (descriptor_.get() >= 0) break;
    // Another living writer has that number.
    if (errno != EEXIST || final_.number > most_attempts + (files.empty() ? 0 : files.front().number))
      fail_output(path_, system_reason(errno));
    ++final_.number;
  }
  // Where locks are not to be had, everything counts as left over.
  (void)lock(descriptor_.get());
}

void CheckpointTemporary::reserve(Index num_bytes) {
  reserved_ += num_bytes;
  if (auto const why = reserve_on_disk(descriptor_.get(), 0, reserved_); !why.empty())
    fail_output(final_.path, std::to_string(reserved_) + " bytes: " + why);
}

void CheckpointTemporary::publish() {
  struct stat status {};
  // Gives back what was reserved and not needed.
  if (::fstat(descriptor_.get(), &status) != 0 || ::ftruncate(descriptor_.get(), status.st_size) != 0)
    fail_output(path_, system_reason(errno));
  sync_to_disk(descriptor_, path_);
  if (::rename(path_.c_str(), final_.path.c_str()) != 0) fail_output(final_.path, system_reason(errno));
  descriptor_ = {};
  auto const folder = final_.path.parent_path();
  Descriptor const entries(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries.get() < 0) fail_output(folder, system_reason(errno));
  sync_to_disk(entries, folder);
}

}  // namespace graticule::detail
