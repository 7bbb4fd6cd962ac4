// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/selection.hpp>

namespace graticule::detail {

/// The cells of `selection`, by their numbers `k`, that lie in `box`; an empty box where none does.
/// Example: every second row of 8 from row 0 has the numbers [0, 4); the box [3, 8) contains rows 4 and 6: [2, 4).
/// @pre `selection` and `box` have the same number of axes
[[nodiscard]] Box numbers_in(graticule::Selection const& selection, Box const& box);

}  // namespace graticule::detail
