// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace graticule::program::detail {

/// The CRC-32 of ZIP archives (ISO 3309, reflected, polynomial 0x04c11db7) of the bytes.
/// Example: of the nine characters "123456789" it is 0xcbf43926.
[[nodiscard]] std::uint32_t crc32_of(void const* bytes, std::size_t count) noexcept;

}  // namespace graticule::program::detail
