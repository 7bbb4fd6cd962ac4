// SPDX-License-Identifier: BSD-3-Clause
// Locks that tell the files of living programs from those of killed ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace graticule::detail {

/// Result of `lock_file`.
enum class Locked : std::uint8_t {
  yes,
  by_another,
  unknown,  ///< the file system has no locks
};

/// `shared`: for files that are open for reading only; any number of them may have it.
enum class LockKind : std::uint8_t { exclusive, shared };

/// Locks an open file until it is closed or its process ends, by whatever cause. Does not wait. The lock
/// covers one byte far behind the end, because MPI-IO locks what it writes on some file systems.
[[nodiscard]] Locked lock_file(int file, LockKind kind = LockKind::exclusive);

/// Whether a lock on an open file excludes processes of this host only, as on NFS that is mounted with `nolock` or
/// `local_lock`, and on Lustre with `localflock`.
[[nodiscard]] bool locks_stay_on_host(int file);

/// Whether a line of `/proc/self/mountinfo` is of a file system whose locks stay on this host.
[[nodiscard]] bool is_mount_with_local_locks(std::string_view line);

/// Name of this host.
[[nodiscard]] std::string host_name();

/// False when no process of this host has the number.
[[nodiscard]] bool process_lives(long number);

/// Whether a name in a folder still leads to an open file.
[[nodiscard]] bool is_name_of(std::filesystem::path const& path, int file);

}  // namespace graticule::detail
