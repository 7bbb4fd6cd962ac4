// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace graticule::info {

/// `1234567.` bytes are `1.23 MB`.
[[nodiscard]] std::string bytes_text(double bytes);

/// `0.0000931` seconds are `93.1 us`.
[[nodiscard]] std::string seconds_text(double seconds);

/// With so many digits after the point.
[[nodiscard]] std::string rounded_text(double value, int digits);

/// Columns as wide as their widest entry, the first to the left, the others to the right, two blanks in front.
[[nodiscard]] std::string table_text(std::vector<std::vector<std::string>> const& rows);

}  // namespace graticule::info
