// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <vector>

namespace graticule::detail {

/// All factorizations of `number` into one factor per axis, each within `[least, most]`, in decreasing order of the
/// first factors; none of a number below 1. Example: 4 on two axes: (4, 1), (2, 2), (1, 4).
/// @throws `AxesMismatch` for bounds of different numbers of axes
[[nodiscard]] std::vector<Indices> factorizations(Index number, Indices const& least, Indices const& most);

}  // namespace graticule::detail
