// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>

namespace graticule::detail {

/// @throws `OutputError`: the path, and why it cannot be written
[[noreturn]] void fail_output(std::filesystem::path const& path, std::string const& what);

/// Where writing to `path` ends up: symbolic links are followed, also to a file that is not there yet.
/// @throws `OutputError` for links that lead round in a circle
[[nodiscard]] std::filesystem::path linked_path(std::filesystem::path const& path);

/// A device, a pipe, or what the program already has open (`/dev/stdout`): it can be written to, but not replaced.
[[nodiscard]] bool is_stream(std::filesystem::path const& path);

/// Makes sure that what was written to a file is on the disk. @throws `OutputError`
void sync_to_disk(std::filesystem::path const& path);

/// An empty file beside the one that it becomes when it is complete; for one process.
///
/// It lies in the folder of `linked_path(path)`, under the name `.NAME.HOST-PROCESS.part`, so that a link stays a link.
/// What programs that were killed on this host have left there for the same file is removed; whose program lives, or
/// holds its lock, stays, and so does what was written on another host.
class TemporaryFile {
 public:
  /// @throws `OutputError` when the folder is missing or not writable, and when `path` is a folder or a stream
  explicit TemporaryFile(std::filesystem::path const& path);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  /// Removes the file unless it was published.
  ~TemporaryFile();

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Makes sure that the file is on the disk and gives it its name. @throws `OutputError`
  void publish();

 private:
  std::filesystem::path given_;
  std::filesystem::path target_;
  std::filesystem::path path_;
  int descriptor_ = -1;  ///< carries the lock
};

}  // namespace graticule::detail
