// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule {

/// Coordinates of cell `number` of a box of `extents`, counted in row-major order.
[[nodiscard]] Indices coords_of(Index number, Indices const& extents) noexcept;
/// The number of the cell at `coords`; inverse of `coords_of`.
[[nodiscard]] Index number_of(Indices const& coords, Indices const& extents) noexcept;

}  // namespace graticule
