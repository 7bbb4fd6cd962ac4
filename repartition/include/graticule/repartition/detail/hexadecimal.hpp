// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace graticule::detail {

/// 16 hexadecimal digits, for fingerprints and checksums. Example: 255 is `00000000000000ff`.
[[nodiscard]] inline std::string in_hexadecimal(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace graticule::detail
