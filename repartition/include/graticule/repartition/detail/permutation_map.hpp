// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/index_map.hpp>

namespace graticule::detail {

/// Axis permutation without boundary: needed axis `a` reads source axis `permutation[a]` at the same coordinate.
/// @throws `AxesMismatch` unless `permutation` contains each axis once
[[nodiscard]] IndexMap permutation_map(Indices const& permutation);

}  // namespace graticule::detail
