// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

/// Reads cuts from a text: one line per axis with the cells of each part, separated by commas or blanks.
///
/// What follows a `#` is a comment; lines with nothing else do not count. Example:
/// ```
/// # 241 rows, the two polar bands thinner
/// 55,65,65,56
/// 240 240
/// ```
/// `name` identifies the text in messages. @throws `BadInput` (input) with the name and the line
[[nodiscard]] std::vector<Cuts> parse_cuts(std::string_view text, std::string_view name);

/// The same from a file that rank 0 reads. Collective. @throws `BadInput` (input) on all ranks
[[nodiscard]] std::vector<Cuts> read_cuts(Comm const& comm, std::filesystem::path const& path);

/// The text that `parse_cuts` reads.
[[nodiscard]] std::string cuts_text(std::span<Cuts const> cuts);

}  // namespace graticule
