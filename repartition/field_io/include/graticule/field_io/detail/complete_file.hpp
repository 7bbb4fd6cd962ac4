// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace graticule {

/// Writes a file under a temporary name in the same folder and renames it when it is complete and on the disk. `write`
/// gets the temporary path. When it throws, the temporary file is removed and an older file remains. Where `path` is a
/// symbolic link, its target is replaced. Called on one rank.
/// @throws `OutputError` when the folder is missing or the disk is full
void write_complete_file(std::filesystem::path const& path,
                         std::function<void(std::filesystem::path const&)> const& write);

/// The same for a text, which may also go to a stream such as `/dev/stdout`.
void write_complete_file(std::filesystem::path const& path, std::string const& text);

/// Checks before a long computation that `write_complete_file` can start. Leaves no file. Called on one rank.
/// @throws `OutputError` when the folder is missing or not writable, or `path` is a folder
void require_writable(std::filesystem::path const& path);

}  // namespace graticule
