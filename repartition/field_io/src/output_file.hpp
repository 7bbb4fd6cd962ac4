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

/// Makes sure that `temporary` is on the disk and gives it the name `path`. Collective. @throws `OutputError`
void publish(Comm const& comm, std::filesystem::path const& temporary, std::filesystem::path const& path);

}  // namespace graticule::detail
