// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace graticule::program {

/// An axis, extent or place that is not negative, to index a container with.
[[nodiscard]] constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace graticule::program
