// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace graticule::app {

/// Writes a file under a temporary name in the same folder and renames it when it is complete and on the disk.
/// `write` gets the temporary path. When it throws, the temporary file is removed and an older file stays. One rank.
/// @throws `OutputError` when the folder is missing or the disk is full
void write_complete_file(std::filesystem::path const& path,
                         std::function<void(std::filesystem::path const&)> const& write);

/// The same for a text.
void write_complete_file(std::filesystem::path const& path, std::string const& text);

}  // namespace graticule::app
