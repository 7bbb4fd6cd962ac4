// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

#include <vector>

namespace graticule::samples {

/// One sample of a field in the layout's boxes, whole on rank 0 and empty elsewhere. Collective.
/// @param values this rank's [row][column]
[[nodiscard]] std::vector<double> gathered(Comm const& comm, Layout const& layout, std::vector<double> const& values);

/// The layout in which each rank owns the box that it gives; empty boxes too. Collective. Cost: one all-gather.
[[nodiscard]] Layout layout_of_boxes(Comm const& comm, Indices const& extents, Box const& own);

}  // namespace graticule::samples
