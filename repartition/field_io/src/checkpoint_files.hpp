// SPDX-License-Identifier: BSD-3-Clause
// Names of checkpoint files, and the temporary file that becomes one. Nothing here is collective: rank 0 does it.
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graticule::detail {

/// `NAME-000012-step-000003400.h5`
struct CheckpointFile {
  Index number = 0;
  Index step = 0;
  std::filesystem::path path;
};

/// Number and step of a complete checkpoint; nothing for any other name.
[[nodiscard]] std::optional<CheckpointFile> parse_checkpoint_name(std::string_view file, std::string_view name);

/// Complete checkpoints in a folder by their names, newest first; none when there is no folder.
[[nodiscard]] std::vector<CheckpointFile> list_checkpoints(std::filesystem::path const& folder,
                                                           std::string const& name);

/// Removes what killed writers left: temporary files of this name that no living writer holds.
void remove_leftovers(std::filesystem::path const& folder, std::string const& name);

/// Removes all checkpoints older than the `keep` newest. What cannot be removed stays. A file in `broken` is not counted.
void prune_checkpoints(std::filesystem::path const& folder, std::string const& name, int keep,
                       std::vector<std::filesystem::path> const& broken);

/// An open file that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int id) noexcept : id_(id) {}
  Descriptor(Descriptor&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return id_; }

  /// All bytes or an error. @return the reason of the error, empty when there is none
  [[nodiscard]] std::string write(std::byte const* data, Index bytes, Index offset) const;
  [[nodiscard]] std::string read(std::byte* data, Index bytes, Index offset) const;

 private:
  int id_ = -1;
};

/// @throws `OutputError`
[[nodiscard]] Descriptor open_to_write(std::filesystem::path const& path);
/// @throws `UnreadableFile` (input)
[[nodiscard]] Descriptor open_to_read(std::filesystem::path const& path);
/// @throws `OutputError`
void sync_to_disk(Descriptor const& file, std::filesystem::path const& path);

/// The file that is written before it gets its name. Held by a lock for as long as this object lives, so that others can
/// tell it from what a killed writer left.
class CheckpointTemporary {
 public:
  CheckpointTemporary() = default;
  /// Makes the folder, and the file for the checkpoint after the newest. @throws `OutputError`
  CheckpointTemporary(std::filesystem::path const& folder, std::string const& name, Index step);

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  [[nodiscard]] CheckpointFile const& final() const noexcept { return final_; }

  /// Has room on the disk for `num_bytes` more, where the file system can promise it.
  /// @throws `OutputError` when the disk, a quota or a limit does not have it
  void reserve(Index num_bytes);
  /// Brings the file to the disk and gives it its name. @throws `OutputError`
  void publish();

 private:
  std::filesystem::path path_;
  CheckpointFile final_;
  Descriptor descriptor_;
  Index reserved_ = 0;
};

}  // namespace graticule::detail
