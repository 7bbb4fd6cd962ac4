// SPDX-License-Identifier: BSD-3-Clause
// A file that gets its name only when it is complete.
#pragma once

#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <string>

namespace graticule::detail {

/// @throws `OutputError`
[[noreturn]] void fail_output(std::filesystem::path const& path, std::string const& what);

/// Makes an empty file beside `path` under a name that no other program uses; rank 0 finds out whether that works.
/// Collective. @throws `OutputError` when the folder is missing or not writable
[[nodiscard]] std::filesystem::path make_temporary(Comm const& comm, std::filesystem::path const& path);

/// Copies the bytes of a file over another, by the file system alone where it can share them (btrfs, xfs, NFS 4.2);
/// rank 0 does it. Collective. @throws `OutputError`
void copy_bytes(Comm const& comm, std::filesystem::path const& from, std::filesystem::path const& to);

/// Makes sure that what was written to a file is on the disk; rank 0 does it. Collective. @throws `OutputError`
void sync(Comm const& comm, std::filesystem::path const& path);

/// Makes sure that `temporary` is on the disk and gives it the name `path`. Collective. @throws `OutputError`
void publish(Comm const& comm, std::filesystem::path const& temporary, std::filesystem::path const& path);

}  // namespace graticule::detail
