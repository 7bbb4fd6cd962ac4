// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace graticule {

/// `text` as a terminal may show it: control characters but newline and tab, and bytes that are not UTF-8, are written
/// `\xNN`. Texts of files may hold sequences that command a terminal.
/// Example: "\x1b[2J" in a file is shown, and clears no screen.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace graticule
