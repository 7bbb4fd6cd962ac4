// SPDX-License-Identifier: BSD-3-Clause
// A file that gets its name only when it is complete.
#pragma once

#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <optional>

namespace graticule::detail {

/// A temporary file of which all ranks know the path; rank 0 makes it and gives it its name.
class OutputFile {
 public:
  /// Collective. @throws as `TemporaryFile`, on all ranks
  OutputFile(Comm const& comm, std::filesystem::path const& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  /// Removes what was not published. Any rank may have to do it: the others may never come here.
  ~OutputFile();

  [[nodiscard]] std::filesystem::path const& temporary() const noexcept { return temporary_; }
  /// Collective. @throws `OutputError`
  void publish();

 private:
  Comm comm_;
  std::filesystem::path temporary_;
  std::optional<TemporaryFile> file_;  ///< on rank 0
};

/// Copies the bytes of a file over another, by the file system alone where it can share them (btrfs, xfs, NFS 4.2);
/// rank 0 does it. Collective. @throws `OutputError`
void copy_bytes(Comm const& comm, std::filesystem::path const& from, std::filesystem::path const& to);

/// Cuts a complete HDF5 file behind the last byte that it uses: HDF5 leaves room that was reserved for a record where
/// the end has not moved since the last flush. Rank 0 does it. Collective. @throws `OutputError`
void cut_to_length(Comm const& comm, std::filesystem::path const& path);

/// Makes sure that what was written to a file is on the disk; rank 0 does it. Collective. @throws `OutputError`
void sync(Comm const& comm, std::filesystem::path const& path);

}  // namespace graticule::detail
