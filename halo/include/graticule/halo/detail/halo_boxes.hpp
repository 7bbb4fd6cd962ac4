// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/plan.hpp>

#include <vector>

namespace graticule {

/// The parts of `local` outside `owned`, one box per direction with cells. @pre `local` contains `owned`
[[nodiscard]] std::vector<Box> halo_boxes(Box const& owned, Box const& local, Corners corners);

}  // namespace graticule
