// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule::detail {

/// Writes a file under a temporary name next to `path`, which contains host and process, and then renames it: other
/// programs may write the same file at the same time, and readers see the old or the new text. Local.
/// @throws `OutputError`; an old file is then unchanged, and no temporary file remains
void write_whole_file(std::string const& path, std::string const& text);

}  // namespace graticule::detail
