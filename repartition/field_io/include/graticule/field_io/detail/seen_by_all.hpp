// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <string>

namespace graticule {

/// Makes sure that all ranks find the file that rank 0 has found or made: it lies on a file system that all nodes
/// share. Compares its length and its first 1024 bytes, which nobody may be writing. Collective. Cost: a broadcast, and
/// on each rank the opening of a file, for up to 3 s where it is not there.
/// @param comm its ranks
/// @param given what the error names, such as `--output DIR` @param made the file
/// @throws `OutputError` that names both hosts
void require_seen_by_all(Comm const& comm, std::string const& given, std::filesystem::path const& made);

}  // namespace graticule
