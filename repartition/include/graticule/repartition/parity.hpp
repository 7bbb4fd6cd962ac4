// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace graticule {

/// Behaviour of a field at a fold (a pole): components of a horizontal vector are odd and change sign.
enum class Parity : std::uint8_t { even, odd };

}  // namespace graticule
