// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include "options.hpp"

namespace graticule::info {

/// Prints the process grids for the grid that the options name, which one is chosen and why; draws it where asked.
/// Ranks are virtual. Collective; rank 0 prints and writes. @throws usage errors for what the options ask
void study_grid(app::Context& context, Options const& options);

}  // namespace graticule::info
