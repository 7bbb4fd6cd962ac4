// SPDX-License-Identifier: BSD-3-Clause
// Names of checkpoint files, and the temporary file that becomes one. Nothing here is collective: rank 0 does it.
#pragma once

#include <graticule/partition/indices.hpp>

#include "hdf5/descriptor.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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

/// Removes all checkpoints older than the `keep` newest. What cannot be removed stays. A file in `broken` is not
/// counted.
void prune_checkpoints(std::filesystem::path const& folder, std::string const& name, int keep,
                       std::vector<std::filesystem::path> const& broken);

/// The file that is written before it gets its name. A lock is held for the lifetime of this object, which
/// distinguishes the file from the remains of a killed writer.
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
