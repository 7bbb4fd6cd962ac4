// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace graticule {

/// A folder that one program at a time writes to; for one process.
///
/// The file `.in-use` in the folder is locked, and names the program that has it: host, process, begin. The lock ends
/// with the process, by whatever cause, so that a killed program never keeps a folder.
class FolderLock {
 public:
  /// @param folder that is there
  /// @param program name of this program, for others
  /// @param patience how long a program that is about to end is waited for
  /// @throws `OutputError`: names the program that has the folder; when the folder is not writable
  FolderLock(std::filesystem::path const& folder, std::string const& program,
             std::chrono::milliseconds patience = std::chrono::seconds(3));
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  /// Removes the file.
  ~FolderLock();

  /// The file.
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Why the lock does not exclude programs of other hosts; empty where it does.
  [[nodiscard]] std::string const& weakness() const noexcept { return weakness_; }

 private:
  std::filesystem::path path_;
  std::string weakness_;
  int descriptor_ = -1;
};

/// Removes the temporary files of killed programs from a folder, for whichever file they were.
void remove_leftovers(std::filesystem::path const& folder);

}  // namespace graticule
