// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>

namespace graticule::detail {

/// @throws `OutputError`: with the path and the reason why it cannot be written
[[noreturn]] void fail_output(std::filesystem::path const& path, std::string const& what);

/// Target of writing to `path`: symbolic links are followed, also to a file that does not exist yet.
/// @throws `OutputError` for circular links
[[nodiscard]] std::filesystem::path linked_path(std::filesystem::path const& path);

/// A device, a pipe, or an open file of the program (`/dev/stdout`): it can be written to, but not replaced.
[[nodiscard]] bool is_stream(std::filesystem::path const& path);

/// Synchronises a file to the disk. @throws `OutputError`
void sync_to_disk(std::filesystem::path const& path);

/// An empty temporary file next to the file that it becomes when it is complete; for one process.
///
/// It is in the folder of `linked_path(path)`, under the name `.NAME.HOST-PROCESS.part`, so that a link stays a link.
/// Temporary files for the same file by programs that were killed on this host are removed. Those of a live program, of
/// a holder of the lock, and of other hosts remain.
class TemporaryFile {
 public:
  /// @throws `OutputError` when the folder is missing or not writable, and when `path` is a folder or a stream
  explicit TemporaryFile(std::filesystem::path const& path);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  /// Removes the file unless it was published.
  ~TemporaryFile();

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Synchronises the file to the disk and gives it its name. @throws `OutputError`
  void publish();

 private:
  std::filesystem::path given_;
  std::filesystem::path target_;
  std::filesystem::path path_;
  int descriptor_ = -1;  ///< holds the lock
};

}  // namespace graticule::detail
