// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace graticule {

/// From now on this process writes to memory that nobody reads where it has `path` open, so that closing cannot fail:
/// HDF5 1.10.8 hangs or crashes where the last writes of a file find no room. For files that are given up. Does nothing
/// where the system has no such memory.
void divert_to_memory(std::filesystem::path const& path) noexcept;

}  // namespace graticule
