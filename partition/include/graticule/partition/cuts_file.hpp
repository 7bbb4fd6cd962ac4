// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>

#include <filesystem>
#include <vector>

namespace graticule {

/// Reads cuts from a text file: one line per axis with the cells of each part, separated by commas or blanks.
///
/// What follows a `#` is a comment; lines with nothing else do not count. Example:
/// ```
/// # 241 rows, the two polar bands thinner
/// 55,65,65,56
/// 240 240
/// ```
/// Rank 0 reads the file. Collective. @throws on all ranks what `read_text` throws, or `BadInput` with the path and the
/// line
[[nodiscard]] std::vector<Cuts> read_cuts(Comm const& comm, std::filesystem::path const& path);

}  // namespace graticule
