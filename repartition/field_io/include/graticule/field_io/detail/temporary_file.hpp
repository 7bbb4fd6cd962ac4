// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace graticule::detail {

/// @throws `OutputError`: with the path and the reason why it cannot be written
[[noreturn]] void fail_output(std::filesystem::path const& path, std::string const& what);

/// Target of writing to `path`: symbolic links are followed, also to a file that does not exist yet, unless another
/// user made them in a folder that others may write to.
/// @throws `OutputError` for such links and for circular ones
[[nodiscard]] std::filesystem::path linked_path(std::filesystem::path const& path);

/// A device, a pipe, or an open file of the program (`/dev/stdout`): it can be written to, but not replaced.
[[nodiscard]] bool is_stream(std::filesystem::path const& path);

/// Synchronises a file to the disk. @throws `OutputError`
void sync_to_disk(std::filesystem::path const& path);

/// An empty temporary file next to the file that it becomes when it is complete; for one process.
///
/// It is in the folder of `linked_path(path)`, under the name `.NAME.HOST-PROCESS.part`, so that a link stays a link.
/// Temporary files for the same file by programs that were killed are removed, on any host: a program holds a lock on
/// its file. Where the file system has no locks, or none between hosts, those of other hosts remain.
class TemporaryFile {
 public:
  /// What `path` becomes: the file, or a folder of which the file is the lock.
  enum class For : std::uint8_t { file, folder };
  /// @throws as `linked_path`; `OutputError` when the folder is missing or not writable, and when `path` is a folder or
  /// a stream
  explicit TemporaryFile(std::filesystem::path const& path, For what = For::file);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  /// Removes the file unless it was published.
  ~TemporaryFile();

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Synchronises the file to the disk and gives it its name. @throws `OutputError`
  void publish();
  /// The same, unless a file has the name. @return the open file, which stays locked until the caller closes it
  [[nodiscard]] int publish_locked();

 private:
  friend class TemporaryFolder;
  std::filesystem::path given_;
  std::filesystem::path target_;
  std::filesystem::path path_;
  int descriptor_ = -1;  ///< holds the lock
};

/// An empty temporary folder next to the folder that it becomes when it is complete; for one process.
///
/// Beside it lies a `TemporaryFile`, which holds the lock: who removes that of a killed program removes its folder.
class TemporaryFolder {
 public:
  /// @throws as `TemporaryFile`; `OutputError` when `path` is a file
  explicit TemporaryFolder(std::filesystem::path const& path);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  /// Removes the folder unless it was published.
  ~TemporaryFolder();

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// The file beside it.
  [[nodiscard]] std::filesystem::path const& lock() const noexcept { return lock_.path(); }
  /// What the folder becomes.
  [[nodiscard]] std::filesystem::path const& target() const noexcept { return lock_.target_; }
  /// Gives the folder its name; an older folder of that name is removed after that. The two are exchanged at once where
  /// the file system can (ext4, xfs, btrfs, tmpfs); elsewhere the older one is called `NAME.HOST-PROCESS.old` for a
  /// moment. @throws `OutputError`
  void publish();

 private:
  TemporaryFile lock_;
  std::filesystem::path path_;  ///< empty when there is none any more
};

}  // namespace graticule::detail
