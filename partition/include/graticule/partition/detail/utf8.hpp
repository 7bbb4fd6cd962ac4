// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string_view>

namespace graticule {

/// Bytes of the UTF-8 character that `text` begins with; 0 where its first byte begins none, and for an empty text.
[[nodiscard]] std::size_t utf8_character(std::string_view text) noexcept;

}  // namespace graticule
