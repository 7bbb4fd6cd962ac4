// SPDX-License-Identifier: BSD-3-Clause
// What makes changes of a file undone when the program that makes them is killed.
#pragma once

#include "descriptor.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace graticule::detail {

/// Bytes of a file, `lo <= i < hi`.
struct ByteRange {
  Index lo = 0;
  Index hi = 0;
};

/// Changes whenever a file is written to or replaced.
struct FileStamp {
  std::uint64_t inode = 0;
  Index bytes = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;

  [[nodiscard]] bool operator==(FileStamp const&) const = default;
};

/// Of the file that `path` leads to; zeros when there is none.
[[nodiscard]] FileStamp stamp_of(std::filesystem::path const& path);

/// The bytes of a file before it is changed, in the file `.NAME.undo` beside it. Held by one process.
///
/// It is complete and on the disk before the constructor returns, and locked until it is closed. As long as it exists
/// the changes are not valid: `restore_interrupted` puts the old bytes back, whichever of the changes had reached the
/// disk, in whatever order.
class UndoFile {
 public:
  /// Saves all bytes of `path` but those `unchanged`, which nobody will write to.
  /// @param seen of the file when `unchanged` was found
  /// @throws `OutputError` when another program changes the file, or has changed it since; when the disk is full
  UndoFile(std::filesystem::path const& path, std::vector<ByteRange> unchanged, FileStamp const& seen);
  UndoFile(UndoFile&&) noexcept = default;
  UndoFile& operator=(UndoFile&&) = delete;
  /// Closes it: who opens the file next restores it.
  ~UndoFile() = default;

  /// The changes are complete and on the disk. @throws `OutputError`
  void drop();
  /// Puts the old bytes back. @pre nobody writes to the file any more @throws `OutputError`
  void restore();

 private:
  std::filesystem::path path_;
  std::filesystem::path undo_;
  Descriptor file_;
};

/// What `restore_interrupted` has found.
enum class Interrupted : std::uint8_t { no, restored, in_use };

/// What is assumed of a program on another host where locks do not tell whether it lives.
enum class Unseen : std::uint8_t { lives, has_ended };

/// Puts the old bytes back where a program was killed while it changed a file. Where a living program changes the file,
/// it does nothing. Serial. Cost: one system call when there is nothing to do.
/// @throws `BrokenFile` (input) when this user may not write to the file, or the undo file is of another file
Interrupted restore_interrupted(std::filesystem::path const& path, Unseen unseen);

/// Before the file is replaced: what a killed program has left must not be taken for the new file's. Restores where
/// that is possible, and removes the undo file in any case, unless the program lives.
void forget_interrupted(std::filesystem::path const& path) noexcept;

}  // namespace graticule::detail
